"""Secrets of commands for a CSI plugin: they travel in a header, since addresses are logged."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.cli.options import named_values
from orchgit.errors import InvalidInputError

_HEADER = "X-Nomad-CSI-Secrets"


def secrets_header(given: Sequence[str]) -> dict[str, str]:
    """Returns the header that has secrets given as KEY=VALUE; without secrets, no header. Raises
    InvalidInputError for one that a header cannot carry."""
    secrets = named_values("secret", given)
    for name, value in secrets.items():
        if "," in name + value or not (name + value).isprintable() or not value.isascii():
            raise InvalidInputError(
                f"cannot send secret {name!r}: it has a comma, or a character that is not "
                "printable ASCII; give it to the volume, as one of its secrets"
            )
    text = ",".join(f"{name}={value}" for name, value in secrets.items())
    return {_HEADER: text} if text else {}
