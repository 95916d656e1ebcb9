"""Fetching what a task's `artifact` blocks name.

`detect.py` and `source.py` read a block (pure), `child.py` downloads, clones and unpacks in a
confined process, and `install.py` moves the result into the task's directory, which the task may
have prepared.
"""
