"""Whether an answer has exactly the keys that Nomad's has, each of the same kind.

Values may differ where the state may; null, a missing key and an empty list or object may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MAPS = frozenset(
    (
        *("Attributes", "Meta", "Env", "Config", "Policy", "Target", "Tasks", "TaskLifecycles"),
        *("TaskResources", "TaskStates", "Drivers", "HostVolumes", "NodesAvailable", "Summary"),
        *("DesiredTGUpdates", "FailedTGAllocs", "TaskGroups", "ClassEligibility", "Details"),
        *("ConstraintFiltered", "DimensionExhausted", "ResourcesExhausted", "Scores", "Updates"),
        *("QueuedAllocations", "VariableFlags", "Volumes", "Links", "Parameters"),
    )
)
"""Keys of objects whose own keys are data: only those that both have are compared."""

_NUMBERS = ("<index>", "<ns>", "<seconds>", "<int>", "<number>", "<float>")
_ANY = ("<any>",)
_LABEL = re.compile(r"<[^<>]+>")


def differences(wanted: Any, found: Any, path: str = "", *, is_map: bool = False) -> Iterator[str]:
    """One line for each place that differs."""
    if isinstance(wanted, str) and wanted in _ANY:
        return
    if isinstance(wanted, dict) and "<array>" in wanted:
        wanted = wanted["<array>"]
    expected, actual = kind_of(wanted), kind_of(found)
    if expected != actual:
        yield f"{path or '/'}: {expected} expected, got {found!r}"
    elif isinstance(wanted, dict):
        yield from _of_objects(wanted, found, path, is_map)
    elif isinstance(wanted, list):
        for place, (one, other) in enumerate(_pairs(wanted, found)):
            yield from differences(one, other, f"{path}[{place}]")


def kind_of(value: Any) -> str:
    """An empty list or object is a kind of its own."""
    if value is None:
        return "null"
    if isinstance(value, bool) or value == "<bool>":
        return "bool"
    if isinstance(value, int | float) or (isinstance(value, str) and value in _NUMBERS):
        return "number"
    if isinstance(value, dict) or value == "<object>":
        return "object" if value else "{}"
    if isinstance(value, list):
        return "list" if value else "[]"
    return "string"


def _of_objects(
    wanted: dict[str, Any], found: dict[str, Any], path: str, is_map: bool
) -> Iterator[str]:
    for key, one in wanted.items():
        if key in found:
            yield from differences(one, found[key], f"{path}.{key}", is_map=key in MAPS)
        elif not is_map and not _LABEL.search(key):
            yield f"{path}.{key}: missing"
    if not is_map and not any(_LABEL.search(key) for key in wanted):
        yield from (f"{path}.{key}: Nomad has no such key" for key in found if key not in wanted)


def _pairs(wanted: list[Any], found: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Objects with a name are compared with those of the same name, others by their place."""
    for place, one in enumerate(wanted):
        name = _name(one)
        if name is None:
            if place < len(found):
                yield one, found[place]
            continue
        other = next((each for each in found if _name(each) == name), None)
        if other is not None:
            yield one, other


def _name(value: Any) -> tuple[Any, ...] | None:
    """What an element of a list is called: ids are masked, names are not."""
    if not isinstance(value, dict):
        return None
    found = tuple(
        (key, text)
        for key in ("ServiceName", "JobID", "TriggeredBy", "Name", "Label", "Device", "Mode")
        if isinstance(text := value.get(key), str) and not _LABEL.search(text)
    )
    return found or None
