"""Payloads of dispatched jobs as Nomad's clients read them: packed with Snappy, as base64."""

from __future__ import annotations

import base64


def packed(payload: str) -> str:
    """Returns a payload, given as base64 of what was sent, as base64 of its packed form."""
    import cramjam  # by the first payload: few clusters have any

    data = base64.b64decode(payload)
    return base64.b64encode(bytes(cramjam.snappy.compress_raw(data))).decode()
