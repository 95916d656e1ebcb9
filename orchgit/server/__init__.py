"""The server: its config and the composition root that builds every part in order.

Entry points: `config.ServerConfig`, `server.Server`.
"""
