"""`-json` and `-t` of the commands. Apart from `output.py`, which loads more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click

from orchgit.errors import InvalidInputError, OrchgitError


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the user wants the answer: as JSON, through a Go template, or (neither) to read it."""

    as_json: bool = False
    template: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether people read the answer."""
        return not self.as_json and self.template is None

    def refuse_question(self, yes: bool) -> None:
        """Raises click.UsageError where a program reads the answer, and nobody could say yes."""
        if not self.is_text and not yes:
            raise click.UsageError("cannot ask for confirmation with -json or -t: add -yes")

    def printed(self, data: Any) -> bool:
        """Prints `data` as JSON or through the template, and returns whether it did."""
        if self.template is not None:
            # Few commands are given a template, and every command should start fast.
            from orchgit.go_templates.render import render

            try:
                text = render(self.template, data, functions={"toJSON": json.dumps})
            except OrchgitError as error:
                raise InvalidInputError(
                    f"cannot print through the template of -t: {error.message}"
                ) from error
            click.echo(text)
        elif self.as_json:
            click.echo(json.dumps(data, indent=4))
        return not self.is_text
