"""Services of provider `consul`: registered at the Consul agent of this machine.

Loaded only where the configuration has a `consul` block. `ConsulSync` is the entry point.
"""
