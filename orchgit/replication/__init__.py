"""The replicated state of a server: commands, their place in the log, and the store they change.

Enter at `replicated.ReplicatedState`: propose a command, read from its store, follow what was
applied, learn who leads. The log is kept by `orchgit.raft_node`.
"""
