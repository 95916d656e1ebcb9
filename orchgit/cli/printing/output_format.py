"""`-json` and `-t` of the commands. Apart from `output.py`, so that servers never load rich."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the user wants the answer: as JSON, through a Go template, or (neither) to read it."""

    as_json: bool = False
    template: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether the answer is wanted in another form than for people."""
        return self.as_json or self.template is not None

    def printed(self, data: Any) -> bool:
        """Prints `data` as JSON or through the template, and returns whether it did."""
        if self.template is not None:
            # Few commands are given a template, and every command should start fast.
            from orchgit.go_templates.render import render

            click.echo(render(self.template, data, functions={"toJSON": json.dumps}))
        elif self.as_json:
            click.echo(json.dumps(data, indent=4))
        return self.is_asked
