"""What this server gives its API and gitops: one module for each of the ports that they declare."""
