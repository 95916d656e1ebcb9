"""The one stored form of what can be written in two ways, so that the other way is no new version.

Answers of the API show a port's network and a service's task where a job file leaves them out, and
clients and files send back what they have read. An empty list means the same as none.
"""

from __future__ import annotations

from typing import Any


def as_stored(spec: dict[str, Any]) -> dict[str, Any]:
    """Change the canonical tree in place to the form that is stored.

    See `orchgit.api.shapes.shown`, which shows the other way.
    """
    _empty_lists_are_null(spec)
    for group in spec["TaskGroups"] or ():
        for network in group["Networks"] or ():
            for port in (*(network["ReservedPorts"] or ()), *(network["DynamicPorts"] or ())):
                if port["HostNetwork"] == "default":
                    port["HostNetwork"] = ""
        for task in group["Tasks"] or ():
            for service in task["Services"] or ():
                if service["TaskName"] == task["Name"]:
                    service["TaskName"] = ""
    return spec


def _empty_lists_are_null(tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if value == [] and key in _NULL_WHEN_EMPTY:
            tree[key] = None
        elif isinstance(value, dict) and key == "Resources":
            _empty_lists_are_null(value)
        elif isinstance(value, list) and key in _NESTED:
            for each in value:
                _empty_lists_are_null(each)


_NESTED = ("TaskGroups", "Tasks", "Services", "Networks", "Devices")
_NULL_WHEN_EMPTY = frozenset(
    (
        *("Constraints", "Affinities", "Spreads", "Networks", "Services", "Checks", "Devices"),
        *("Artifacts", "Templates", "VolumeMounts", "Actions", "ReservedPorts", "DynamicPorts"),
    )
)
