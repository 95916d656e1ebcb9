"""Ids of what is stored inside other objects."""

from __future__ import annotations

import uuid


def stable_uuid(*parts: str) -> str:
    """An id that follows from what it names, for objects that are stored inside others."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(parts)))


def scaling_policy_id(namespace: str, job_id: str, group: str) -> str:
    return stable_uuid("scaling", namespace, job_id, group)
