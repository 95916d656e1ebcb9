"""Storage plugins that speak the Container Storage Interface (CSI), version 1.

A plugin is a task with a `csi_plugin` block that serves gRPC on a socket. `messages.py` has the
tables of the interface, `protobuf.py` writes and reads them, `client.py` calls a plugin,
`plugins.py` finds the plugins of the node, `volumes.py` mounts volumes for
allocations, and `mount_records.py` records what is mounted.
"""
