"""`orchgit job stop`, `start`, `revert`, `dispatch`, `scale`, `eval`, `periodic`, `promote`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.client.patient_reads import PatientReads
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.commands.job_find import find_job, of_job
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.job_files.job_files import read_input
from orchgit.cli.options import (
    connected,
    detach_option,
    formatted,
    named_values,
    option,
    option_field,
    options_of,
    ui_option,
    verbose_option,
)
from orchgit.cli.printing.monitor import monitor_evaluation
from orchgit.cli.printing.output import console, plain, short
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.whole_number import whole_number


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Whether a change is followed to its end."""

    detach: bool = option_field("detach", is_flag=True, help="Return at once instead of watching.")
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")


@dataclass(frozen=True, slots=True)
class StopOptions(WatchOptions):
    purge: bool = option_field(
        "purge", is_flag=True, help="Forget the job at once, its claims and history too."
    )
    everywhere: bool = option_field("global", is_flag=True, help="In all its regions.")
    no_shutdown_delay: bool = option_field(
        "no-shutdown-delay", is_flag=True, help="Stop at once, without shutdown delays."
    )
    eval_priority: int | None = option_field(
        "eval-priority", type=int, help="Priority of the evaluation, instead of the job's."
    )
    yes: bool = option_field("yes", is_flag=True, help="Do not ask for confirmation.")

    def params(self) -> dict[str, Any]:
        return {
            "purge": "true" if self.purge else None,
            "global": "true" if self.everywhere else None,
            "no_shutdown_delay": "true" if self.no_shutdown_delay else None,
            "eval_priority": self.eval_priority,
        }


@cli_command("stop")
@id_argument("identifiers", JOB, nargs=-1, required=True)
@options_of(StopOptions)
@formatted
@connected
def stop(
    client: ApiClient, identifiers: tuple[str, ...], options: StopOptions, output: OutputFormat
) -> None:
    """Stop jobs. A job that is named by the beginning of its id alone is stopped after a question.
    With -json, several ids make a list of answers."""
    codes, answers = [], []
    for identifier in identifiers:
        found = find_job(client, identifier)
        if identifier != found["ID"]:
            output.refuse_question(options.yes)
            if not options.yes and not click.confirm(f"Stop job {found['ID']!r}?"):
                continue
        path = f"/v1/job/{quoted(found['ID'])}"
        answer = client.delete(path, namespace=found["Namespace"], **options.params())
        answers.append(answer)
        if output.is_text:
            codes.append(_follow(client, found, answer, options, output, with_deployment=False))
    if not output.is_text:
        output.printed(answers[0] if len(identifiers) == 1 else answers)
    raise SystemExit(max(codes, default=0))


@cli_command("start")
@id_argument("identifier", JOB)
@options_of(WatchOptions)
@formatted
@connected
def start(client: ApiClient, identifier: str, options: WatchOptions, output: OutputFormat) -> None:
    """Start a stopped job again, as it was."""
    found = find_job(client, identifier)
    job = of_job(client, found)
    if not job["Stop"]:
        raise ApiError(f"cannot start job {found['ID']!r}: it is not stopped")
    body: dict[str, Any] = {"Job": {**job, "Stop": False}}
    try:
        body["Submission"] = of_job(client, found, "submission", version=job["Version"])
    except ApiError as error:
        if error.status != 404:
            raise
    answer = client.put("/v1/jobs", body, namespace=found["Namespace"])
    raise SystemExit(_follow(client, found, answer, options, output))


@cli_command("revert")
@id_argument("identifier", JOB)
@click.argument("version")
@options_of(WatchOptions)
@formatted
@connected
def revert(
    client: ApiClient,
    identifier: str,
    version: str,
    options: WatchOptions,
    output: OutputFormat,
) -> None:
    """Run a past version of a job again: its number, or its tag."""
    found = find_job(client, identifier)
    number = whole_number(version)
    if number is None:
        known = of_job(client, found, "versions")["Versions"]
        tags = {(each.get("VersionTag") or {}).get("Name"): each["Version"] for each in known}
        if version not in tags:
            raise ApiError(f"cannot find a version of job {found['ID']!r} with tag {version!r}")
        number = tags[version]
    body = {"JobID": found["ID"], "JobVersion": number}
    answer = client.put(f"/v1/job/{quoted(found['ID'])}/revert", body, namespace=found["Namespace"])
    raise SystemExit(_follow(client, found, answer, options, output))


@cli_command("scale")
@id_argument("identifier", JOB)
@click.argument("group_or_count")
@click.argument("count", type=int, required=False)
@option("check-index", type=int, help="Only if the job's modify index is this.")
@options_of(WatchOptions)
@formatted
@connected
def scale(
    client: ApiClient,
    identifier: str,
    group_or_count: str,
    count: int | None,
    check_index: int | None,
    options: WatchOptions,
    output: OutputFormat,
) -> None:
    """Change the count of a group: `orchgit job scale JOB [GROUP] COUNT`."""
    group, wanted = group_or_count, count
    if wanted is None:
        wanted = whole_number(group_or_count)
        if wanted is None:
            raise click.UsageError(f"cannot scale to {group_or_count!r}: give a whole number")
    found = find_job(client, identifier)
    if count is None:
        names = [group["Name"] for group in of_job(client, found)["TaskGroups"]]
        if len(names) != 1:
            raise ApiError(f"cannot tell which group to scale: name one of {', '.join(names)}")
        (group,) = names
    body: dict[str, Any] = {
        "Count": wanted,
        "Target": {"Group": group},
        "Message": "orchgit job scale",
    }
    if check_index is not None:
        body |= {"EnforceIndex": True, "JobModifyIndex": check_index}
    answer = client.put(f"/v1/job/{quoted(found['ID'])}/scale", body, namespace=found["Namespace"])
    raise SystemExit(_follow(client, found, answer, options, output))


@dataclass(frozen=True, slots=True)
class DispatchOptions(WatchOptions):
    meta: tuple[str, ...] = option_field(
        "meta", multiple=True, help="Meta of the dispatched job, KEY=VALUE; may be repeated."
    )
    idempotency_token: str | None = option_field(
        "idempotency-token", help="A second dispatch with the same token makes no second job."
    )
    id_prefix_template: str = option_field(
        "id-prefix-template", default="", help="Text that the id of the job begins with."
    )
    wait: bool = option_field(
        "wait", is_flag=True, help="Until the dispatched job has ended; 1 if it failed."
    )


@cli_command("dispatch")
@id_argument("identifier", JOB)
@click.argument("payload_path", required=False)
@options_of(DispatchOptions)
@ui_option
@formatted
@connected
def dispatch(
    client: ApiClient,
    identifier: str,
    payload_path: str | None,
    options: DispatchOptions,
    output: OutputFormat,
) -> None:
    """Launch a parameterized job, with a payload from a file (or `-`)."""
    found = find_job(client, identifier)
    payload = read_input(payload_path) if payload_path else b""
    body = {
        "JobID": found["ID"],
        "Payload": base64.b64encode(payload).decode() if payload else None,
        "Meta": named_values("meta", options.meta),
        "IdPrefixTemplate": options.id_prefix_template,
    }
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/dispatch",
        body,
        namespace=found["Namespace"],
        idempotency_token=options.idempotency_token,
    )
    if output.is_text:
        click.echo(f"Dispatched job: {answer['DispatchedJobID']}")
    code = _follow(client, found, answer, options, output)
    if options.wait and not code:
        code = _ended(client, {**found, "ID": answer["DispatchedJobID"]}, output)
    raise SystemExit(code)


def _ended(client: ApiClient, found: dict[str, Any], output: OutputFormat) -> int:
    """Waits until a job has ended; returns 1 if an allocation of it failed."""
    index, path = 0, f"/v1/job/{quoted(found['ID'])}"
    reads = PatientReads(client, f"job {found['ID']!r}")
    while True:
        index, job = reads.blocking_get(path, index, namespace=found["Namespace"])
        if job["Status"] == "dead":
            break
    allocations = of_job(client, found, "allocations")
    failed = [each for each in allocations if each["ClientStatus"] in ("failed", "lost")]
    if output.is_text:
        click.echo(f"Job {found['ID']!r} has {'failed' if failed else 'ended'}.")
    return 1 if failed else 0


@cli_command("eval")
@id_argument("identifier", JOB)
@option("force-reschedule", is_flag=True, help="Replace failed allocations now.")
@options_of(WatchOptions)
@formatted
@connected
def evaluate(
    client: ApiClient,
    identifier: str,
    force_reschedule: bool,
    options: WatchOptions,
    output: OutputFormat,
) -> None:
    """Look at a job again."""
    found = find_job(client, identifier)
    body = {"JobID": found["ID"], "EvalOptions": {"ForceReschedule": force_reschedule}}
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/evaluate", body, namespace=found["Namespace"]
    )
    raise SystemExit(_follow(client, found, answer, options, output))


@cli_group("periodic")
def periodic() -> None:
    """Periodic jobs."""


@periodic.command("force")
@id_argument("identifier", JOB)
@options_of(WatchOptions)
@formatted
@connected
def force(client: ApiClient, identifier: str, options: WatchOptions, output: OutputFormat) -> None:
    """Launch a periodic job now."""
    found = find_job(client, identifier)
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/periodic/force", namespace=found["Namespace"]
    )
    raise SystemExit(_follow(client, found, answer, options, output))


@cli_command("promote")
@id_argument("identifier", JOB)
@option("group", multiple=True, help="Promote only this group; may be repeated.")
@detach_option
@verbose_option
@formatted
@connected
def promote(
    client: ApiClient,
    identifier: str,
    group: tuple[str, ...],
    detach: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """Make the canaries of a job's deployment its version."""
    found = find_job(client, identifier)
    deployment = of_job(client, found, "deployment")
    if not deployment:
        raise ApiError(f"cannot promote: job {found['ID']!r} has no deployment")
    body = {"DeploymentID": deployment["ID"], "All": not group, "Groups": list(group)}
    answer = client.put(f"/v1/deployment/promote/{deployment['ID']}", body)
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(deployment['ID'], verbose)} is promoted.")
    if not detach and answer.get("EvalID"):
        raise SystemExit(monitor_evaluation(client, answer["EvalID"], found["Namespace"]))


def _follow(
    client: ApiClient,
    found: dict[str, Any],
    answer: dict[str, Any],
    options: WatchOptions,
    output: OutputFormat,
    with_deployment: bool = True,
) -> int:
    """Follows the evaluation of a change, unless told not to, or a program reads the answer;
    returns the exit code."""
    if output.printed(answer):
        return 0
    if answer.get("Warnings"):
        console().print(f"[yellow]Warnings:[/yellow]\n{plain(answer['Warnings'])}")
    if not answer.get("EvalID"):
        return 0
    shown = short(answer["EvalID"], options.verbose)
    console().print(f"==> Job {plain(repr(found['ID']))}: evaluation {shown}")
    if options.detach:
        return 0
    return monitor_evaluation(client, answer["EvalID"], found["Namespace"], with_deployment)
