"""Loops of the leader that watch the state: deployments, drains, heartbeats, garbage."""
