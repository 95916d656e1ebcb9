"""How commands show whose token changed something."""

from __future__ import annotations

from typing import Any

from orchgit.cli.printing.output import ago


def token_text(change: dict[str, Any] | None) -> str:
    """Returns the token's name and accessor and when it was used; '' for no change."""
    if not change:
        return ""
    author = change["Author"]
    name = author["Name"] or "unnamed"
    return f"{name} ({author['AccessorID'][:8]}), {ago(change['Time'])}"
