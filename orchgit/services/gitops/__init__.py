"""Sources and rollouts as log entries."""
