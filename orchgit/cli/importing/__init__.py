"""Takes over what a running Nomad or orchgit cluster has: job files, and all beside jobs."""
