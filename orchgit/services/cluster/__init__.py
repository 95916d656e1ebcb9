"""Use cases of the cluster: its members, its settings and snapshots of its state."""
