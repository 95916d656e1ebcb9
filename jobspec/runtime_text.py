"""Names that only the node knows (`${attr.cpu.arch}`, `NOMAD_PORT_http`) stay as their own text."""

from __future__ import annotations

import re

_CLOSING = re.compile(r"[ \t]*(?:\}[ \t]*)*\}")


def source_of(text: str, start: int, end: int) -> str:
    """`${...}` around the name as written; the spaces inside an interpolation are kept.

    Where more closing braces follow directly, Nomad takes them in as well, and what a job of
    today's clusters is made of must not differ here.
    """
    opening = text.rfind("${", 0, start)
    if opening < 0 or text[opening + 2 : start].strip(" \t"):
        return f"${{{text[start:end]}}}"
    closing = _CLOSING.match(text, end)
    if closing is None:
        return f"${{{text[start:end]}}}"
    extra = closing[0].count("}") - 1
    return text[opening : closing.end()] + "}" * (extra * (extra - 1) // 2)
