"""Templates of job files: the part of Go's text/template that jobs use, and its functions.

`render.render(text, ...)` is the entry. What needs a service that this node does not talk to
(Consul's keys, Vault's secrets) is an error that says so, never an empty string.
"""
