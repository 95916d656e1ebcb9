"""How a server joins its cluster, and the records by which servers find each other."""
