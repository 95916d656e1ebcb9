"""What a commit changes: planned against one snapshot, applied as one log entry, reverted."""
