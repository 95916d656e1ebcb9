"""The loops of sources: each fetches the newest commit of its repository and applies it."""
