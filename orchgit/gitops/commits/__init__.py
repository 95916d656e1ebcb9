"""What a commit does: planned against one snapshot, previewed, applied, reverted."""
