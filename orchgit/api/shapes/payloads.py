"""Payloads of dispatched jobs as Nomad's clients send and read them: packed with Snappy, in base64.

A stored job holds base64 of what was sent with the dispatch.
"""

from __future__ import annotations

import base64
import binascii

from orchgit.errors import InvalidInputError
from orchgit.services.jobs.admission import MAX_PAYLOAD_BYTES


def packed(payload: str) -> str:
    """Returns a stored payload in its packed form. What an older version stored unread, and is no
    base64, is returned as it is: a job that cannot be shown cannot be repaired either."""
    import cramjam  # by the first payload: few clusters have any

    try:
        data = base64.b64decode(payload, validate=True)
    except binascii.Error:
        return payload
    return base64.b64encode(bytes(cramjam.snappy.compress_raw(data))).decode()


def unpacked(data: bytes) -> str:
    """Returns the stored form of a packed payload. Raises InvalidInputError for data that is not
    packed, and for a payload larger than a dispatch may send."""
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(data)
        whole = bytes(cramjam.snappy.decompress_raw(data)) if size <= MAX_PAYLOAD_BYTES else b""
    except cramjam.DecompressionError as error:
        raise InvalidInputError(
            f"cannot read the job's Payload: it is not packed with Snappy ({error}); leave it out, "
            "and dispatch the job with the payload"
        ) from error
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidInputError(
            f"cannot read the job's Payload: it has {size} bytes, and the limit is "
            f"{MAX_PAYLOAD_BYTES}"
        )
    return base64.b64encode(whole).decode()
