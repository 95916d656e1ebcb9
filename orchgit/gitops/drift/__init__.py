"""Drift: jobs that differ from what the applied commits of their sources want."""
