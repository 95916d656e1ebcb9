"""Metrics of a node: what its machine, its allocations and their tasks use."""
