"""Go's text/template, as far as job files and the `-t` of commands use it, within limits.

`render.render(text, data, functions=...)` is the entry. A task's templates know more functions
(`agent/templates/functions.py`).
"""
