"""What the agent stores on its disk, so that a restarted agent finds its tasks again."""
