"""The identities of tasks on this node: current tokens, their renewal, where a task finds them."""
