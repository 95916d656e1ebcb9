"""Parameters of the built-in host volume plugin `mkdir`, read by servers and agents alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.errors import InvalidInputError

_MODE = re.compile(r"[0-7]{1,4}|0[0-7]{4}", re.ASCII)
_ID = re.compile(r"-1|[0-9]{1,10}", re.ASCII)
_MAX_ID = (1 << 32) - 2
"""The system takes one more as "leave it as it is"."""


@dataclass(frozen=True, slots=True)
class MkdirParameters:
    """`uid` and `gid` are -1 where the directory is to belong to the agent's user."""

    mode: int = 0o777
    uid: int = -1
    gid: int = -1


def read_mkdir_parameters(parameters: Mapping[str, str]) -> MkdirParameters:
    """Raises InvalidInputError that names the parameter which cannot be used."""
    unknown = sorted(set(parameters) - {"mode", "uid", "gid"})
    if unknown:
        raise InvalidInputError(
            f'cannot use parameter "{unknown[0][:100]}": plugin "mkdir" has mode, uid and gid'
        )
    mode = parameters.get("mode", "0777")
    if not _MODE.fullmatch(mode):
        raise InvalidInputError(
            f'cannot use mode "{mode[:100]}": plugin "mkdir" takes an octal number, as 0750'
        )
    ids = {}
    for name in ("uid", "gid"):
        text = parameters.get(name, "-1")
        if not _ID.fullmatch(text) or int(text) > _MAX_ID:
            raise InvalidInputError(
                f'cannot use {name} "{text[:100]}": plugin "mkdir" takes a number up to {_MAX_ID}, '
                "or -1 for the agent's own"
            )
        ids[name] = int(text)
    return MkdirParameters(int(mode, 8), **ids)
