"""The connection of the node to the servers: its stream, its leader, the cluster it belongs to."""
