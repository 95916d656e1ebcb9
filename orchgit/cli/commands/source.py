"""`orchgit source`: add, change, list, pause and remove sources; retry and go back."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.commands.going_back import rollback
from orchgit.cli.commands.source_drift import show_drift
from orchgit.cli.commands.source_held import retry, show_held
from orchgit.cli.options import (
    connected,
    detach_option,
    formatted,
    option,
    verbose_option,
    yes_option,
)
from orchgit.cli.printing.output import duration, short
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.source_status import show_source, show_sources, sync_text
from orchgit.cli.source_options import location, settings_options
from orchgit.cli.user_name import user_name
from orchgit.durations import parse_length_ns

_SYNC_WAIT_S = 120
_GOOD_RESULTS = frozenset(("applied", "waiting", "unchanged"))


@cli_group("source")
def source() -> None:
    """Git repositories that the cluster follows."""


source.add_command(retry)
source.add_command(rollback)


@source.command("add")
@click.argument("name")
@click.argument("url", required=False)
@settings_options
@formatted
@connected
def add(
    client: ApiClient,
    name: str,
    url: str | None,
    settings: dict[str, Any],
    variables: dict[str, str],
    output: OutputFormat,
) -> None:
    """Follow a repository: a URL, a local path, or, without URL, the built-in remote.

    Push to the built-in remote at <address>/git/NAME.git. A path is a path on the servers'
    machines, and their configuration has to allow it (gitops.local_paths).
    """
    body = {"Name": name, **location(url), **settings, "Variables": variables}
    client.put(f"/v1/gitops/source/{name}", body)
    if _printed_source(client, name, output):
        return
    if body["Kind"] == "builtin":
        repository = body.get("Repository") or name
        click.echo(f"Source {name!r} is ready: push to {client.web_address}/git/{repository}.git")
        for line in client.tls.git_settings() if client.address.startswith("https:") else ():
            click.echo(f"For git:  export {line}")
    else:
        click.echo(f"Source {name!r} follows {url} at {body.get('Ref', 'refs/heads/main')}.")


def _printed_source(client: ApiClient, name: str, output: OutputFormat) -> bool:
    """Prints the source as it is stored now, if another form than text is wanted."""
    return not output.is_text and output.printed(client.get(f"/v1/gitops/source/{name}"))


@source.command("set")
@click.argument("name")
@option("url", help="Another URL, or path, of the same kind of source.")
@option("remove-var", multiple=True, help="A variable to remove; repeatable.")
@settings_options
@formatted
@connected
def set_(
    client: ApiClient,
    name: str,
    url: str | None,
    remove_var: tuple[str, ...],
    settings: dict[str, Any],
    variables: dict[str, str],
    output: OutputFormat,
) -> None:
    """Change the given settings of a source, and try a refused commit again.

    -path and -var-file replace all earlier ones; -var adds or changes one variable.
    """
    body = dict(settings)
    if url is not None:
        body |= location(url)
    if variables or remove_var:
        known = client.get(f"/v1/gitops/source/{name}")["Variables"]
        missing = [each for each in remove_var if each not in known]
        if missing:
            raise ApiError(
                f"cannot remove variable {missing[0]!r}: source {name!r} has no such one"
            )
        kept = {key: value for key, value in known.items() if key not in remove_var}
        body["Variables"] = {**kept, **variables}
    if not body:
        raise ApiError(
            "cannot change the source: name a setting, `orchgit source set -h` lists them"
        )
    client.put(f"/v1/gitops/source/{name}/settings", body)
    if not _printed_source(client, name, output):
        click.echo(f"Changed source {name!r}: {', '.join(sorted(body))}.")


@source.command("rename")
@click.argument("name")
@click.argument("new_name")
@formatted
@connected
def rename(client: ApiClient, name: str, new_name: str, output: OutputFormat) -> None:
    """Rename a source, with its jobs and its history.

    A built-in repository keeps its own name: push to the same URL as before.
    """
    answer = client.put(f"/v1/gitops/source/{name}/rename", {"Name": new_name})
    for warning in answer["Warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if _printed_source(client, new_name, output):
        return
    click.echo(f"Renamed source {name!r} to {new_name!r}; its jobs belong to {new_name!r} now.")
    known = client.get(f"/v1/gitops/source/{new_name}")
    if known["Kind"] == "builtin":
        repository = known["Repository"] or new_name
        click.echo(f"Its repository keeps its URL: {client.web_address}/git/{repository}.git")


@source.command("list")
@verbose_option
@formatted
@connected
def list_(client: ApiClient, verbose: bool, output: OutputFormat) -> None:
    """List the sources with the health and the applied commit of each."""
    found = client.get("/v1/gitops/sources")
    if output.printed(found):
        return
    show_sources(found, verbose)


@source.command("status")
@click.argument("name")
@formatted
@connected
def status(client: ApiClient, name: str, output: OutputFormat) -> None:
    """Show one source: its settings, its health and why, and how its checks go."""
    data = client.get(f"/v1/gitops/source/{name}")
    if output.printed(data):
        return
    show_source(data)
    show_held(client, name)


@source.command("drift")
@click.argument("name", required=False)
@option("patch", is_flag=True, help="Print a patch for `git apply` that keeps the changes.")
@formatted
@connected
def drift(client: ApiClient, name: str | None, patch: bool, output: OutputFormat) -> None:
    """Show jobs that differ from what the applied commit of their source wants, and who did it.

    With -patch, print how the source's job files would have to change to say what runs now.
    """
    if patch:
        if name is None:
            raise ApiError("cannot make a patch: name the source")
        click.echo(client.get_text("/v1/gitops/drift/patch", source=name), nl=False)
        return
    found = client.get("/v1/gitops/drift", source=name)
    if output.printed(found):
        return
    show_drift(found)


@source.command("sync")
@click.argument("name")
@option("rerun", multiple=True, help="A completed job to run again, by its id; repeatable.")
@option("override-window", help="Why a commit is applied outside the source's windows.")
@option("wait", is_flag=True, help="Follow the rollout to its end. Exit code 0: it is healthy.")
@detach_option
@formatted
@connected
def sync(
    client: ApiClient,
    name: str,
    rerun: tuple[str, ...],
    override_window: str | None,
    wait: bool,
    detach: bool,
    output: OutputFormat,
) -> None:
    """Check a source for new commits now, and say what that came to.

    Exit code 1: the check failed, or the remote's commit was not applied. With -rerun, run jobs of
    the applied commit again. Without it, a batch job that has completed runs again only when its
    file changes. With -override-window, apply the newest commit outside the source's windows; the
    rollout records who did so, and the reason.
    """
    if wait and detach:
        raise ApiError("cannot use -wait and -detach together: give one of them")
    if override_window is not None and (rerun or detach):
        raise ApiError("cannot use -override-window together with -rerun or -detach")
    if rerun:
        answer = client.post(f"/v1/gitops/source/{name}/sync", {"Rerun": list(rerun)})
        rollout_id = answer["ID"]
        text = (
            f"Running {', '.join(rerun)} again in rollout {short(rollout_id)}; `orchgit rollout "
            f"watch {short(rollout_id)}` follows it."
        )
    elif detach:
        answer = client.post(f"/v1/gitops/source/{name}/sync")
        text = (
            f"Checking {name!r} for new commits; `orchgit source status {name}` shows the result."
        )
        rollout_id = ""
    else:
        body = {"OverrideWindow": override_window or "", "By": user_name()}
        answer = client.post(f"/v1/gitops/source/{name}/sync", body, wait=f"{_SYNC_WAIT_S}s")
        text, rollout_id = sync_text(name, answer), answer["RolloutID"]
    failed = answer.get("Result", "applied") not in _GOOD_RESULTS
    if not output.printed(answer):
        click.echo(text, err=failed)
    if failed:
        raise SystemExit(1)
    if wait and rollout_id:
        raise SystemExit(_followed(client, rollout_id))


@source.command("adopt")
@click.argument("name")
@option("wait", is_flag=True, help="Follow the rollout to its end. Exit code 0: it is healthy.")
@formatted
@connected
def adopt(client: ApiClient, name: str, wait: bool, output: OutputFormat) -> None:
    """Take over running jobs that have no source, where the source has a file of them.

    Those are jobs that were registered by hand, and jobs of removed sources. A job that differs
    from its file is updated to it. Sets the source's -adopt.
    """
    answer = client.post(f"/v1/gitops/source/{name}/adopt")
    failed = answer["Result"] not in _GOOD_RESULTS
    if not output.printed(answer):
        if failed:
            click.echo(sync_text(name, answer), err=True)
        for taken in answer["Taken"]:
            former = taken["FormerSource"]
            of = f" of the removed source {former!r}" if former else ""
            click.echo(f"Took over job {taken['JobID']!r}{of}.")
        if not answer["Taken"]:
            click.echo(f"Source {name!r} took over no job: none without a source has a file in it.")
    if failed:
        raise SystemExit(1)
    if wait and answer["RolloutID"]:
        raise SystemExit(_followed(client, answer["RolloutID"]))


def _followed(client: ApiClient, rollout_id: str) -> int:
    """Follows a rollout to its end; returns the exit code."""
    # Imported here: other commands need none of its modules, and should start fast.
    from orchgit.cli.rollout_watching import RolloutWatch

    return RolloutWatch(client).follow(rollout_id)


@source.command("release")
@click.argument("job")
@option("undo", is_flag=True, help="Give the job back to the source that it was released from.")
@formatted
@connected
def release(client: ApiClient, job: str, undo: bool, output: OutputFormat) -> None:
    """Release a job from its source: neither its file nor that file's removal changes it.

    Another source that has a file of the job takes it over.
    """
    if output.printed(client.put("/v1/gitops/release", {"JobID": job, "Undo": undo})):
        return
    if undo:
        click.echo(f"Gave job {job!r} back to its source; the next commit updates it to its file.")
    else:
        click.echo(f"Released job {job!r}: it stays as it is, and no source manages it.")


_reason_option = option("reason", default="", help="Why, for others to read in its status.")


@cli_command("pause")
@click.argument("name")
@_reason_option
@option("for", dest="pause_length", help="Resume by itself after this time, 2h for example.")
@formatted
@connected
def pause(
    client: ApiClient, name: str, reason: str, pause_length: str | None, output: OutputFormat
) -> None:
    """Pause a source: its commits are not applied until it is resumed.

    Its status says who paused it (your name on this machine), when and why.
    """
    for_ns = parse_length_ns(pause_length) if pause_length is not None else 0
    if pause_length is not None and not for_ns:
        raise ApiError("cannot pause for no time: -for is at least 1s")
    body = {"By": user_name(), "Reason": reason, "For": for_ns}
    if output.printed(client.post(f"/v1/gitops/source/{name}/pause", body)):
        return
    until = f" for {duration(for_ns)}" if for_ns else ""
    click.echo(
        f"Paused source {name!r}{until}; `orchgit source resume {name}` applies its commits again."
    )


@cli_command("resume")
@click.argument("name")
@_reason_option
@formatted
@connected
def resume(client: ApiClient, name: str, reason: str, output: OutputFormat) -> None:
    """Resume a paused source: its newest commit is applied."""
    body = {"By": user_name(), "Reason": reason}
    if not output.printed(client.post(f"/v1/gitops/source/{name}/resume", body)):
        click.echo(f"Resumed source {name!r}.")


source.add_command(pause)
source.add_command(pause, "suspend")
source.add_command(resume)


@source.command("remove")
@click.argument("name")
@option("keep", is_flag=True, help="Keep its jobs running, without a source (the default).")
@option("stop", is_flag=True, help="Stop its jobs.")
@yes_option
@formatted
@connected
def remove(
    client: ApiClient, name: str, keep: bool, stop: bool, yes: bool, output: OutputFormat
) -> None:
    """Remove a source. Its jobs keep running, or are stopped with -stop.

    A source with the setting -adopt takes over jobs that keep running, if it has a file of them.
    """
    if keep and stop:
        raise ApiError("cannot use -keep and -stop together: give one of them")
    fate = "Its jobs are stopped." if stop else "Its jobs keep running."
    output.refuse_question(yes)
    if yes or click.confirm(f"Remove source {name!r}? {fate}"):
        answer = client.delete(f"/v1/gitops/source/{name}", stop="true" if stop else None)
        for warning in answer["Warnings"]:
            click.echo(f"warning: {warning}", err=True)
        if stop:
            jobs = ", ".join(each["JobID"] for each in answer["Stopped"])
            fate = f"Stopped its jobs: {jobs}." if jobs else "It had no jobs to stop."
        if not output.printed(answer):
            click.echo(f"Removed source {name!r}. {fate}")
