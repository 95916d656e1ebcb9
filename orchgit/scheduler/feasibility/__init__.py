"""Decides which nodes may take an allocation of a group."""
