"""Finds the volume that a command means: by its id, the beginning of it, or its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError

KINDS = ("host", "csi")
KindAndVolume = tuple[str, dict[str, Any]]


def matching_volumes(
    client: ApiClient, identifier: str, kinds: Sequence[str] = KINDS
) -> list[KindAndVolume]:
    """Returns the volume with this id, or else those of this name, or else those whose ids begin
    with it. Raises ApiError where there is none."""
    listed = [(kind, each) for kind in kinds for each in client.get("/v1/volumes", type=kind) or []]
    found = (
        [pair for pair in listed if pair[1]["ID"] == identifier]
        or [pair for pair in listed if pair[1].get("Name") == identifier]
        or [pair for pair in listed if pair[1]["ID"].startswith(identifier)]
    )
    if not found:
        raise ApiError(
            f"cannot find volume {identifier!r}: no id begins with it, and none has this name; "
            "`orchgit volume status` lists them",
            404,
        )
    return found


def find_volume(client: ApiClient, identifier: str, kinds: Sequence[str] = KINDS) -> KindAndVolume:
    """Returns the kind of the one volume that matches, and the volume as a list has it."""
    found = matching_volumes(client, identifier, kinds)
    if len(found) > 1:
        places = ", ".join(
            each["ID"] + (f" (node {each['NodeID'][:8]})" if each.get("NodeID") else "")
            for _, each in found[:5]
        )
        raise ApiError(
            f"cannot tell which volume is meant: {identifier!r} matches {len(found)}: {places}; "
            "give the id"
        )
    return found[0]
