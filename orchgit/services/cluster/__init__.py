"""Servers, their settings and snapshots of the whole state."""
