"""The raft thread: drives the rules of `orchgit.raft` with a log, a transport and the time."""
