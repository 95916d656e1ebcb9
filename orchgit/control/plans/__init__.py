"""The leader's plan applier: checks each plan on the newest state, commits what fits."""
