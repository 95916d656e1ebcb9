"""Which nodes may take a group at all."""
