"""The Container Network Interface: configurations, plugins, results; versions 0.3.0 to 1.0.0.

`run.add` connects a network namespace, `run.delete` disconnects it, `run.check` looks whether it
still is connected.
"""
