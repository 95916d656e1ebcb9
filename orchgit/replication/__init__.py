"""The replicated log, and the state machine that it drives.

Enter at `replicated.ReplicatedState`: propose a command, read from its store, follow what was
applied, learn who leads. Raft is pysyncobj's, behind `raft_node`; the journal, the applying and the
snapshots are ours.
"""
