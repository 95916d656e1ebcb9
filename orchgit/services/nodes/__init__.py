"""Use cases of nodes: registration, status, draining, pools."""
