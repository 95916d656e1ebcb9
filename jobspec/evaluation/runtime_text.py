"""Names that only the node knows (`${attr.cpu.arch}`, `NOMAD_PORT_http`) stay as their own text."""

from __future__ import annotations

import re

_MOST_EXTRA = 8
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_CLOSING = re.compile(r"[ \t]*(?:\}[ \t]*)*\}")


def source_of(text: str, start: int, end: int) -> str:
    """`${...}` around the name as written; the spaces inside an interpolation are kept.

    Where more closing braces follow directly, Nomad includes them as well, and existing jobs rely
    on that.
    """
    opening = start
    while opening and text[opening - 1] in " \t":
        opening -= 1
    opening -= 2
    if opening < 0 or text[opening : opening + 2] != "${":
        return f"${{{text[start:end]}}}"
    closing = _CLOSING.match(text, end)
    if closing is None:
        return f"${{{text[start:end]}}}"
    extra = min(closing[0].count("}") - 1, _MOST_EXTRA)
    return text[opening : closing.end()] + "}" * (extra * (extra - 1) // 2)


def without_references(text: str, by: str) -> str:
    """The text with `by` for each `${...}`."""
    end = text.rfind("}") + 1  # behind it, each opening would be looked for a closing to the end
    return _REFERENCE.sub(by, text[:end]) + text[end:]
