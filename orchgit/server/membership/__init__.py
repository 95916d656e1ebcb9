"""How a server joins its cluster, and what it tells of itself and its peers."""
