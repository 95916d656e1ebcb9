"""How commands show whose token changed something."""

from __future__ import annotations

from typing import Any

from orchgit.cli.printing.output import ago, plain


def token_row(change: dict[str, Any] | None) -> tuple[str, str]:
    """Returns the label and the markup of who changed something: whose token, or whose claim."""
    is_claimed = bool(change and change["Author"].get("IsClaimed"))
    return "Changed by" if is_claimed else "Token", plain(token_text(change))


def token_text(change: dict[str, Any] | None) -> str:
    """Returns the token's name and accessor, or the name that was claimed, and when that was; ''
    for no change."""
    if not change:
        return ""
    author = change["Author"]
    name, when = author["Name"] or "unnamed", ago(change["Time"])
    if author.get("IsClaimed"):
        claimed = f"{author['Name']} (claimed)" if author["Name"] else "unknown"
        address = f" from {author['Address']}" if author["Address"] else ""
        return f"{claimed}{address}, {when}"
    return f"{name} ({author['AccessorID'][:8]}), {when}"
