"""Variables and the keys that seal them."""
