"""The allocations of a node: the life of one from directories to end, its health, its limits.

Entry points: `node_allocations.Allocations` (all of the node) and `alloc_runner.AllocRunner` (one).
"""
