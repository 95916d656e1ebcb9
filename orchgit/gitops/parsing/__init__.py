"""Finds and parses the job files of a tree, in processes with limits of time and memory."""
