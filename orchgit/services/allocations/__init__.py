"""What is done to allocations: stopping one, and what agents report of theirs."""
