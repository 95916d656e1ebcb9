"""The node as the servers see it, and the volumes that it makes on request."""
