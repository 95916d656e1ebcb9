"""Prints the table of keys without effect for `docs/configuration.md`."""

from __future__ import annotations

from collections.abc import Iterator

from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.keys import ConfigBlock


def rows(block: ConfigBlock, prefix: str = "") -> Iterator[str]:
    for name, key in block.keys.items():
        if key.no_effect:
            yield f"| `{prefix}{name}` | {key.no_effect} |"
        elif isinstance(key, ConfigBlock):
            yield from rows(key, f"{prefix}{name}.")


if __name__ == "__main__":
    print("\n".join(rows(CONFIGURATION)))
