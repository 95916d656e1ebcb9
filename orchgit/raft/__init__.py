"""The rules of Raft: a pure state machine without threads, sockets, files or a clock."""
