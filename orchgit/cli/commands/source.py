"""`orchgit source`: add, list, status, sync, pause, resume, remove."""

from __future__ import annotations

import os

import click

from orchgit.cli.durations import parse_duration_ns
from orchgit.cli.http_client import ApiClient, ApiError
from orchgit.cli.options import connected, formatted, option, verbose_option, yes_option
from orchgit.cli.output import ago, pairs, plain, short, table
from orchgit.cli.output import formatted as print_formatted


@click.group("source")
def source() -> None:
    """Git repositories that the cluster follows."""


@source.command("add")
@click.argument("name")
@click.argument("url", required=False)
@option("ref", default="refs/heads/main", help="Branch, tag or full ref name to follow.")
@option("path", multiple=True, help="Glob of job files inside the tree; may be repeated.")
@option("var", multiple=True, help="Variable for the job files, NAME=VALUE; may be repeated.")
@option("var-file", multiple=True, help="Path inside the tree of a variable file.")
@option("poll-interval", default="15s", help="How often to look for new commits.")
@option("credential", default="", help="Name of a credential of the server's config.")
@option("webhook-secret", default="", help="Name of a webhook secret of the server's config.")
@option("no-prune", is_flag=True, help="Never stop jobs whose files are gone.")
@option("allow-rewind", is_flag=True, help="Apply commits that do not descend from the last.")
@connected
def add(
    client: ApiClient,
    name: str,
    url: str | None,
    ref: str,
    path: tuple[str, ...],
    var: tuple[str, ...],
    var_file: tuple[str, ...],
    poll_interval: str,
    credential: str,
    webhook_secret: str,
    no_prune: bool,
    allow_rewind: bool,
) -> None:
    """Follow a repository: a URL, a local path, or (without URL) the built-in remote.

    The built-in remote is pushed to at <address>/git/NAME.git.
    """
    kind = "builtin" if url is None else "local" if os.path.isdir(url) else "remote"
    body = {
        "Name": name,
        "Kind": kind,
        "URL": os.path.abspath(url) if kind == "local" and url else url or "",
        "Ref": ref if ref.startswith("refs/") else f"refs/heads/{ref}",
        "Variables": dict(_variable(each) for each in var),
        "VarFiles": list(var_file),
        "PollInterval": parse_duration_ns(poll_interval),
        "Credential": credential,
        "WebhookSecret": webhook_secret,
        "AllowRewind": allow_rewind,
        "Prune": {"Enabled": not no_prune},
    }
    if path:
        body["Paths"] = list(path)
    client.put(f"/v1/gitops/source/{name}", body)
    if kind == "builtin":
        click.echo(f"Source {name!r} is ready: push to {client.address}/git/{name}.git")
        for line in client.tls.git_settings() if client.address.startswith("https:") else ():
            click.echo(f"For git:  export {line}")
    else:
        click.echo(f"Source {name!r} follows {url} at {body['Ref']}.")


@source.command("list")
@verbose_option
@formatted
@connected
def list_(client: ApiClient, verbose: bool, as_json: bool, template: str | None) -> None:
    """All sources and what was last applied of each."""
    found = client.get("/v1/gitops/sources")
    if print_formatted(found, as_json, template):
        return
    table(
        ("Name", "Kind", "URL", "Ref", "Applied", "Checked", "State"),
        (
            (
                plain(each["Name"]),
                each["Kind"],
                plain(each["URL"] or "-"),
                plain(each["Ref"].removeprefix("refs/heads/")),
                short(each["Status"]["AppliedCommit"] or "-", verbose),
                ago(each["Status"]["LastChecked"]),
                _state(each),
            )
            for each in found
        ),
        empty="No sources yet: `orchgit source add NAME [URL]`",
    )


@source.command("status")
@click.argument("name")
@formatted
@connected
def status(client: ApiClient, name: str, as_json: bool, template: str | None) -> None:
    """One source: settings, what was seen and applied, the last error."""
    data = client.get(f"/v1/gitops/source/{name}")
    if print_formatted(data, as_json, template):
        return
    seen = data["Status"]
    pairs(
        (
            ("Name", plain(data["Name"])),
            ("Kind", data["Kind"]),
            ("URL", plain(data["URL"])),
            ("Ref", plain(data["Ref"])),
            ("Paths", plain(", ".join(data["Paths"]))),
            ("State", _state(data)),
            ("Applied commit", seen["AppliedCommit"] or "<none yet>"),
            ("Applied rollout", short(seen["AppliedRollout"])),
            ("Seen commit", seen["SeenCommit"]),
            ("Last checked", ago(seen["LastChecked"])),
            ("Last error", plain(seen["LastError"])),
            ("Quarantined", ", ".join(short(each) for each in seen["Quarantined"])),
        )
    )


@source.command("sync")
@click.argument("name")
@connected
def sync(client: ApiClient, name: str) -> None:
    """Look for new commits now."""
    client.post(f"/v1/gitops/source/{name}/sync")
    click.echo(f"Source {name!r} is being looked at; `orchgit rollout list` shows what came of it.")


@source.command("pause")
@click.argument("name")
@connected
def pause(client: ApiClient, name: str) -> None:
    """Apply nothing more of a source until it is resumed."""
    client.post(f"/v1/gitops/source/{name}/pause")
    click.echo(f"Source {name!r} is paused.")


@source.command("resume")
@click.argument("name")
@connected
def resume(client: ApiClient, name: str) -> None:
    """Follow a paused source again."""
    client.post(f"/v1/gitops/source/{name}/resume")
    click.echo(f"Source {name!r} is followed again.")


@source.command("remove")
@click.argument("name")
@yes_option
@connected
def remove(client: ApiClient, name: str, yes: bool) -> None:
    """Follow a source no more; its jobs go on running."""
    if yes or click.confirm(f"Remove source {name!r}? Its jobs go on running."):
        client.delete(f"/v1/gitops/source/{name}")
        click.echo(f"Source {name!r} is removed; its jobs go on running.")


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ApiError(f"cannot read -var {text!r}: write NAME=VALUE")
    return name, value


def _state(data: dict[str, object]) -> str:
    seen = data["Status"]
    assert isinstance(seen, dict)
    if data["Paused"]:
        return "[yellow]paused[/yellow]"
    return "[red]error[/red]" if seen["LastError"] else "[green]following[/green]"
