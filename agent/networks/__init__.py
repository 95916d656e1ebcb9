"""The networks of groups that do not use the host's: namespaces, CNI plugins, port mappings.

`AllocNetworks` is the entry point: it sets up the network of an allocation before the first task
starts, and removes it after the last one.
"""
