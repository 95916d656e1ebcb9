"""The replicated log, and the state machine that it drives.

Enter at `replicated.ReplicatedState`: propose a command, read from its store, follow what was
applied, learn who leads. Raft's rules are in `raft_core`, which does no I/O; `raft_node` gives it
the time, the journal and the transport.
"""
