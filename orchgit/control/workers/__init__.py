"""Scheduler workers: their processes, their loop, the server's end of their pipe."""
