"""Ranks the feasible nodes and determines what the chosen node offers."""
