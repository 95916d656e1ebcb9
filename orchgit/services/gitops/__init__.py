"""Use cases of gitops: sources and rollouts as log entries."""
