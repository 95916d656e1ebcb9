"""What should run where: pure decisions over numpy columns of the cluster.

The entry is `orchgit.scheduler.schedule.schedule`. This package imports nothing heavy by itself, so
that `orchgit.scheduler.placement.fit` can be used by processes that have no numpy loaded.
"""
