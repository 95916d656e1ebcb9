"""git itself: child processes, bare repositories, refs, URLs, credentials and limits."""
