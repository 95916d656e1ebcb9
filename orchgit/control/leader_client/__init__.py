"""How a scheduler worker reaches the leader's queues, by pipe or by RPC."""
