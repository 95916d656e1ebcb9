"""Makes and completes ids of objects that are stored inside others."""

from __future__ import annotations

import re
import uuid

_HEX = re.compile(r"[0-9a-f]*")
_GROUPS = (8, 4, 4, 4, 12)
_UUID = re.compile("-".join(f"[0-9a-fA-F]{{{size}}}" for size in _GROUPS))


def uuid_prefix(text: str) -> str:
    """Returns the beginning of an id in its stored form: lower case, hyphens in their places.

    Clients send any number of digits, with or without hyphens, in either case. A text with which no
    id can begin is returned as it is, and matches none.
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
    """Returns an id that follows from `parts`, for objects that are stored inside others."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts)))


def scaling_policy_id(namespace: str, job_id: str, group: str) -> str:
    return stable_uuid("scaling", namespace, job_id, group)


def is_uuid(text: str) -> bool:
    """Returns whether the text is a UUID as Nomad writes it: five groups of hexadecimal digits."""
    return _UUID.fullmatch(text) is not None
