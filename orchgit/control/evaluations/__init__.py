"""The leader's queue of evaluations: fed by the log, emptied by scheduler workers."""
