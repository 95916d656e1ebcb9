"""How an applied commit is doing, and why it failed."""
