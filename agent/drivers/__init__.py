"""How tasks are run: one module per driver, all behind `base.Driver`.

A driver starts, finds again, signals, stops and forgets tasks; it knows nothing of allocations'
lives, restart policies or servers. `registry` finds the drivers there are.
"""
