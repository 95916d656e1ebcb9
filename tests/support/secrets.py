"""Looks for secrets where none may be."""

from __future__ import annotations

import base64
import json
from pathlib import Path


def spellings(secret: str) -> list[bytes]:
    """How a secret might lie somewhere: as it is, in JSON, in base64."""
    plain = secret.encode()
    return [plain, json.dumps(secret).encode(), base64.b64encode(plain).rstrip(b"=")[:-1]]


def files_with(directory: Path, wanted: list[bytes]) -> list[str]:
    found = []
    for file in directory.rglob("*"):
        if file.is_file():
            content = file.read_bytes().rstrip(b"\0")  # the log's files are made in their full size
            if any(each in content for each in wanted):
                found.append(str(file))
    return found
