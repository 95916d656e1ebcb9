"""The HTTP listener: protocol limits, TLS, who may reach it, guards against browsers."""
