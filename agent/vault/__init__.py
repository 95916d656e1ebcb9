"""Tokens of Vault for tasks, got by their workload identities.

Only where the configuration has a `vault` block. `Vault` is the entry point.
"""
