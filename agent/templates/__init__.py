"""The templates of tasks: their functions, and the processes that render them.

The language is Go's (`orchgit/go_templates`). A function that needs a service which this node does
not talk to (Consul's keys, Vault's secrets) waits and says for what, never an empty string.
"""
