"""Use cases of allocations: stopping one, and taking the reports of agents."""
