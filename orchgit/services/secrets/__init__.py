"""Use cases of variables, and the keys that seal them."""
