"""How `orchgit source drift` shows jobs that differ from their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from orchgit.cli.printing.output import ago, console, plain

_DONE_BY = {
    "register": "job run",
    "scale": "job scale",
    "revert": "job revert",
    "stop": "job stop",
    "purge": "job stop -purge",
    "auto_revert": "automatic revert of a failed deployment",
    "settings": "the source's settings changed what its file means",
}
_WHAT = {
    "changed": "changed",
    "stopped": "stopped",
    "missing": "purged",
    "without_file": "runs without a file",
}


def show_drift(found: Sequence[dict[str, Any]]) -> None:
    """Prints one paragraph for each job: what, who, since when, and each difference."""
    if not found:
        click.echo("No job has drifted.")
    for each in found:
        where = "" if each["Namespace"] == "default" else f"{each['Namespace']}/"
        what = _WHAT.get(each["Kind"], each["Kind"])
        by = f" by {each['ChangedBy']}" if each["ChangedBy"] else ""
        if via := _DONE_BY.get(each["ChangedVia"], ""):
            by += f" ({via})"
        place = f", {each['File']}:{each['Line']}" if each["File"] else ""
        console().print(
            f"[bold]{plain(where + each['JobID'])}[/bold] {what} {ago(each['Since'])}"
            f"{plain(by)}  [dim]source {plain(each['Source'] + place)}[/dim]"
        )
        for field in each["Fields"]:
            old, new = field["Old"] or "(not set)", field["New"] or "(not set)"
            console().print(f"    {plain(field['Path'])}: {plain(old)} -> {plain(new)}")
        if each["MoreFields"]:
            console().print(f"    and {each['MoreFields']} more differences")
        if each["Note"]:
            console().print(f"    [yellow]{plain(each['Note'])}[/yellow]")
