"""Sources: one loop each that fetches the newest commit of its repository."""
