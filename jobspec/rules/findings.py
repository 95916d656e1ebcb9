"""Collects mistakes, nested as Nomad nests them, with the path of each."""

from __future__ import annotations

from collections.abc import Sequence

Path = tuple[str | int, ...]


class Findings:
    """Messages in order; `leaves` are the innermost ones with the path each is about."""

    __slots__ = ("leaves", "messages", "path")

    def __init__(self, path: Path = ()) -> None:
        self.path = path
        self.messages: list[str] = []
        self.leaves: list[tuple[Path, str]] = []

    def add(self, message: str, *below: str | int) -> None:
        """A mistake at a path below this one's."""
        self.messages.append(message)
        self.leaves.append((self.path + below, message))

    def check(self, wrong: bool, message: str, *below: str | int) -> None:
        """For a message that is there anyway; one that has to be put together costs every valid
        job its making: `if wrong: add(...)`."""
        if wrong:
            self.add(message, *below)

    def at(self, *below: str | int) -> Findings:
        """Findings of their own about something below."""
        return Findings(self.path + below)

    def nest(self, prefix: str, inner: Findings) -> None:
        """All of `inner` as one message: `prefix: N errors occurred: ...`."""
        if inner.messages:
            text = listed(inner.messages)
            self.messages.append(f"{prefix}: {text}" if prefix else text)
            self.leaves.extend(inner.leaves)

    def include(self, inner: Findings) -> None:
        """All of `inner`, each as a message of this one."""
        self.messages.extend(inner.messages)
        self.leaves.extend(inner.leaves)


def listed(messages: Sequence[str]) -> str:
    count = "1 error" if len(messages) == 1 else f"{len(messages)} errors"
    points = "\n\t".join(f"* {message}" for message in messages)
    return f"{count} occurred:\n\t{points}\n\n"
