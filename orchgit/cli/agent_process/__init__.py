"""The process of `orchgit agent` and `orchgit dev`: a server, a node agent, or both."""
