"""The `docker` driver. `engine` is the only module that imports the Docker SDK, and is itself
imported only when an engine's socket is there: without one the driver costs nothing.
"""
