"""Finds the object of a list that a person names, whole or by a beginning that only it has."""

from __future__ import annotations

from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError, near_or_listed

_NOT_FOUND = 404


def find_by_name(client: ApiClient, kind: str, list_path: str, name: str) -> dict[str, Any]:
    """Returns the object with this name, or the only one whose name begins with it.

    `kind` is a word of messages, and the command whose `list` shows all. Raises ApiError.
    """
    found = client.get(list_path, prefix=name)
    exact = [each for each in found if each["Name"] == name]
    if len(exact or found) == 1:
        return dict((exact or found)[0])
    if found:
        names = ", ".join(each["Name"] for each in found)
        raise ApiError(f"cannot tell which {kind}: {name!r} matches {names}", _NOT_FOUND)
    hint = near_or_listed(client, name, list_path, "Name", f"{kind} list")
    raise ApiError(f"cannot find {kind} {name!r}: {hint}", _NOT_FOUND)
