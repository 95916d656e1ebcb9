"""`orchgit job run`, `plan` and `validate`: from a file to the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.job_files.job_files import JobFileInput, JobFileOptions, with_namespace
from orchgit.cli.options import (
    connected,
    detach_option,
    enterprise_option,
    no_effect_option,
    option_field,
    options_of,
    ui_option,
)
from orchgit.cli.printing import go_json
from orchgit.cli.printing.diff_text import changes_anything, print_job_diff
from orchgit.cli.printing.monitor import monitor_evaluation
from orchgit.cli.printing.output import console, short
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.placement_failures import show_failures
from orchgit.errors import JobFileError

PLAN_CHANGES, PLAN_ERROR = 1, 255


def _nomad_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return enterprise_option(no_effect_option("vault-namespace", "there is no Vault")(command))


@dataclass(frozen=True, slots=True)
class RunOptions:
    output: bool = option_field(
        "output", is_flag=True, help="Print the job as JSON and send nothing."
    )
    check_index: int | None = option_field(
        "check-index", type=int, help="Only if the job's modify index is this; 0: must be new."
    )
    preserve_counts: bool = option_field(
        "preserve-counts", is_flag=True, help="Keep the counts that run now."
    )
    preserve_resources: bool = option_field(
        "preserve-resources", is_flag=True, help="Keep the resources that tasks have now."
    )
    eval_priority: int | None = option_field(
        "eval-priority", type=int, help="Priority of the evaluation, instead of the job's."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")


@cli_command("run")
@click.argument("path")
@options_of(JobFileOptions, "file")
@options_of(RunOptions)
@_nomad_options
@no_effect_option("consul-namespace", "there is no Consul")
@ui_option
@detach_option
@connected
def run(
    client: ApiClient, path: str, file: JobFileOptions, options: RunOptions, detach: bool
) -> None:
    """Register the job of a file and follow it until it runs.

    PATH may be an http:// or https:// address, or - for standard input; so it may in `plan` and
    `validate`.
    """
    read = JobFileInput.read(path, file)
    job = _job_of(read)
    if options.output:
        click.echo(go_json.dumps({"Job": job}))
        return
    namespace = with_namespace(client, job)
    body: dict[str, Any] = {
        "Job": job,
        "PreserveCounts": options.preserve_counts,
        "PreserveResources": options.preserve_resources,
    }
    if options.eval_priority is not None:
        body["EvalPriority"] = options.eval_priority
    if not file.as_json:
        body["Submission"] = read.submission()
    if options.check_index is not None:
        body |= {"EnforceIndex": True, "JobModifyIndex": options.check_index}
    answer = client.put("/v1/jobs", body, namespace=namespace)
    _print_warnings(answer)
    if not answer["EvalID"]:
        click.echo("Job registered; it is launched by its schedule or by dispatch.")
        return
    console().print(f"==> Job {job['ID']!r}: evaluation {short(answer['EvalID'], options.verbose)}")
    if not detach:
        raise SystemExit(monitor_evaluation(client, answer["EvalID"], namespace))


@dataclass(frozen=True, slots=True)
class PlanOptions:
    diff: bool = option_field(
        "diff", is_flag=True, switchable=True, default=True, help="Show what changes in the job."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Show what stays, too.")
    json_output: bool = option_field("json-output", is_flag=True, help="Print the plan as JSON.")
    template: str | None = option_field("t", help="Format the plan with a Go template.")


@cli_command("plan", failure_code=PLAN_ERROR)
@click.argument("path")
@options_of(JobFileOptions, "file")
@options_of(PlanOptions)
@_nomad_options
@connected
def plan(client: ApiClient, path: str, file: JobFileOptions, options: PlanOptions) -> None:
    """What running a file would change: exit 0 nothing, 1 allocations change, 255 error."""
    try:
        read = JobFileInput.read(path, file)
        job = read.job()
        namespace = with_namespace(client, job)
        answer = client.put(
            f"/v1/job/{quoted(job['ID'])}/plan",
            {"Job": job, "Diff": options.diff},
            namespace=namespace,
        )
    except (ApiError, JobFileError) as error:
        _print_error(error)
        raise SystemExit(PLAN_ERROR) from error
    code = PLAN_CHANGES if changes_anything(answer.get("Annotations")) else 0
    if OutputFormat(options.json_output, options.template).printed(answer):
        raise SystemExit(code)
    if options.diff and answer.get("Diff"):
        print_job_diff(answer["Diff"], options.verbose)
    failures = answer.get("FailedTGAllocs") or {}
    show_failures(failures)
    if not failures:
        click.echo("\nAll tasks can be placed.")
    _print_warnings(answer)
    index, shown = answer["JobModifyIndex"], "-" if path == "-" else read.shown
    click.echo(f"\nJob Modify Index: {index}")
    click.echo(f"To run exactly this plan: orchgit job run -check-index {index} {shown}")
    raise SystemExit(code)


@cli_command("validate")
@click.argument("path")
@options_of(JobFileOptions, "file")
@no_effect_option("vault-namespace", "there is no Vault")
@connected
def validate(client: ApiClient, path: str, file: JobFileOptions) -> None:
    """Check a job file; the server's rules included.

    What needs no server is checked first, with the place of each mistake. Where
    no server answers, that is all, and a note says so.
    """
    read = JobFileInput.read(path, file)
    if not file.as_json:
        _refuse_mistakes(read)
    job = _job_of(read)
    try:
        answer = client.put("/v1/validate/job", {"Job": job})
    except ApiError as error:
        if error.status or file.as_json:
            raise
        click.echo(f"Note: checked without a server ({error})", err=True)
        answer = {}
    problems = answer.get("ValidationErrors") or []
    for problem in problems:
        click.echo(f"* {problem}", err=True)
    _print_warnings(answer)
    if problems:
        raise SystemExit(1)
    click.echo("Job validation successful")


def _refuse_mistakes(read: JobFileInput) -> None:
    """Prints the mistakes that need no server; ends the command if they refuse the job."""
    # Only this command pays for the rules' import.
    from orchgit.cli.job_files.linting import ERROR, LintSettings, lint_content

    settings = LintSettings(read.options.variables(), read.var_files, read.options.strict)
    findings = lint_content(read.shown, read.content, settings)
    errors = [finding for finding in findings if finding.level == ERROR]
    for finding in errors:
        click.echo(finding.pretty(), err=True)
    if errors:
        raise SystemExit(1)


def _job_of(read: JobFileInput) -> dict[str, Any]:
    try:
        return read.job()
    except JobFileError as error:
        _print_error(error)
        raise SystemExit(1) from error


def _print_error(error: Exception) -> None:
    """Prints the mistakes of a job file with their lines, another error by its message."""
    pretty = getattr(error, "pretty", None)
    click.echo(pretty() if pretty is not None else f"Error: {error}", err=True)


def _print_warnings(answer: dict[str, Any]) -> None:
    if answer.get("Warnings"):
        console().print(f"[yellow]Warnings:[/yellow]\n{answer['Warnings']}")
