"""git itself: processes, bare repositories, packs, refs, URLs and their limits."""
