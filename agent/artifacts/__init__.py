"""Fetching what a task's `artifact` blocks name.

`source.py` reads a block (pure), `child.py` downloads and unpacks in a confined process, and
`install.py` moves the result into the task's directory, which the task may have prepared.
"""
