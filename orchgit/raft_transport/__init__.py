"""Raft messages over TCP with mutual TLS, sent and received on the raft thread."""
