"""What an import did, and what it left and why."""

from __future__ import annotations

from dataclasses import dataclass, field

import click


@dataclass
class ImportReport:
    """Prints what is taken at once; `left` is listed at the end, each with the reason."""

    left: list[tuple[str, str]] = field(default_factory=list)
    failures: int = 0

    def taken(self, what: str) -> None:
        click.echo(f"+ {what}")

    def leave(self, what: str, why: str) -> None:
        """Notes what is left on purpose, or because nothing here corresponds to it."""
        self.left.append((what, why))

    def fail(self, what: str, why: str) -> None:
        """Notes what was asked for and could not be taken."""
        self.failures += 1
        self.leave(what, why)
        click.echo(f"! {what}: {why}", err=True)

    def show_left(self) -> None:
        if not self.left:
            click.echo("\nNothing was left.")
            return
        click.echo("\nLeft:")
        for what, why in self.left:
            click.echo(f"- {what}: {why}")
