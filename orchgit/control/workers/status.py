"""What a worker says of itself, on its standard output: a status, or its workload when asked."""

STARTED = "Started"
PAUSED = "Paused"

WORKLOAD = "workload "
"""Begins the line that answers `report`."""
UNKNOWN_WORKLOAD = "Unknown"
WAITING = "WaitingToDequeue"
WAITING_FOR_RAFT = "WaitingForRaft"
SCHEDULING = "Scheduling"
SUBMITTING = "SubmittingPlan"
BACKING_OFF = "Backoff"
RESTING = "Paused"
