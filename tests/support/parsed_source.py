"""Python source as a tree, whatever garbage earlier tests have left."""

from __future__ import annotations

import ast
import gc


def parsed_source(text: str) -> ast.Module:
    """As `ast.parse`, with the collector off: Python 3.11 cannot parse inside of parsing, and what
    is found to be unclosed by a collection is reported with a traceback, which parses."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_on:
            gc.enable()
