"""The tasks of an allocation: their order, their states, their restarts, and the life of one.

Entry point: `task_runner.TaskRunner`. `lifecycle`, `restarts` and `task_state` are pure.
"""
