"""Ids of what is stored inside other objects."""

from __future__ import annotations

import re
import uuid

_HEX = re.compile(r"[0-9a-f]*")
_GROUPS = (8, 4, 4, 4, 12)


def uuid_prefix(text: str) -> str:
    """The beginning of an id as ids are stored: in lower case, with the hyphens in their places.

    Clients send any number of digits, with or without hyphens, in either case. A text that no id
    can begin with is returned as it is, and matches none.
    """
    digits = text.strip().lower().replace("-", "")
    if not _HEX.fullmatch(digits) or len(digits) > sum(_GROUPS):
        return text
    parts, rest = [], digits
    for size in _GROUPS:
        parts.append(rest[:size])
        rest = rest[size:]
    return "-".join(part for part in parts if part)


def stable_uuid(*parts: str) -> str:
    """An id that follows from what it names, for objects that are stored inside others."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts)))


def scaling_policy_id(namespace: str, job_id: str, group: str) -> str:
    return stable_uuid("scaling", namespace, job_id, group)
