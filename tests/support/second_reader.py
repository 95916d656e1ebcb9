"""python-hcl2 as an independent second reader: the only module that imports it.

Its grammar shares nothing with ours, so what both make of a file is compared in the tests. It is
too slow and, in known places, too lax or too strict to read job files with (docs/decisions/0001).
"""

from __future__ import annotations

from typing import Any

import hcl2
from lark import Token, Tree
from lark.exceptions import LarkError

Outline = list[tuple[Any, ...]]
"""("attribute", name, expression) and ("block", type, labels, outline), in order; no text keeps
its spaces."""


_HEADER = ("identifier", "string", "literal_value", "keyword")


class SecondReaderError(Exception):
    """python-hcl2 refuses the text."""


def outline(text: str) -> Outline:
    """What the text consists of, by python-hcl2; raises SecondReaderError."""
    try:
        tree: Any = hcl2.parses_to_tree(text if text.endswith("\n") else text + "\n")
    except (LarkError, RecursionError, ValueError) as error:
        raise SecondReaderError(str(error).partition("\n")[0]) from None
    return _body(tree.children[0])


def _body(tree: Any) -> Outline:
    items: Outline = []
    for child in tree.children:
        if not isinstance(child, Tree):
            continue
        if child.data == "attribute":
            items.append(("attribute", _text(child.children[0]), _text(child.children[-1])))
        elif child.data == "block":
            items.append(_block(child))
    return items


def _block(tree: Any) -> tuple[Any, ...]:
    body: Outline = []
    header = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "body":
            body = _body(child)
        elif not isinstance(child, Tree) or child.data in _HEADER:
            word = _text(child)
            if word not in ("", "{", "}"):
                header.append(word.removeprefix('"').removesuffix('"'))
    return ("block", header[0], tuple(header[1:]), body)


def _text(part: Any) -> str:
    if isinstance(part, Token):
        return "".join(str(part).split())
    if part is None or part.data == "new_line_or_comment":
        return ""
    return "".join(_text(child) for child in part.children)
