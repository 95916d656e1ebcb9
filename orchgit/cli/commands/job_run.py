"""`orchgit job run`, `plan`, `validate` and `init`: from a file to the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.commands.eval import show_failures
from orchgit.cli.job_files.job_files import JobFileOptions, read_job, submission_of, with_namespace
from orchgit.cli.options import (
    connected,
    detach_option,
    option,
    option_field,
    options_of,
    verbose_option,
)
from orchgit.cli.printing import go_json
from orchgit.cli.printing.diff_text import changes_anything, print_job_diff
from orchgit.cli.printing.monitor import monitor_evaluation
from orchgit.cli.printing.output import console, short
from orchgit.errors import JobFileError

PLAN_CHANGES, PLAN_ERROR = 1, 255

EXAMPLE = """\
# A job: what should run, and how it is kept running.
# Try it:  orchgit job plan {name}   then   orchgit job run {name}
job "example" {{
  type = "service"

  group "web" {{
    # How many instances of the group should run.
    count = 1

    network {{
      # A free port of the node; the task finds it in NOMAD_PORT_http.
      port "http" {{}}
    }}

    # A new version replaces one instance at a time, and is taken back if it stays unhealthy.
    update {{
      max_parallel     = 1
      min_healthy_time = "5s"
      healthy_deadline = "1m"
      auto_revert      = true
    }}

    service {{
      name     = "example"
      port     = "http"
      provider = "nomad"

      check {{
        type     = "http"
        path     = "/"
        interval = "5s"
        timeout  = "2s"
      }}
    }}

    task "server" {{
      driver = "raw_exec"

      config {{
        command = "python3"
        args    = ["-m", "http.server", "${{NOMAD_PORT_http}}", "--directory", "local"]
      }}

      # Written into the task's directory before it starts.
      template {{
        destination = "local/index.html"
        data        = "<h1>It works</h1>"
      }}

      resources {{
        cpu    = 100 # MHz
        memory = 64  # MiB
      }}
    }}
  }}
}}
"""


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


@cli_command("run")
@click.argument("path")
@options_of(JobFileOptions, "file")
@options_of(RunOptions)
@detach_option
@connected
def run(
    client: ApiClient, path: str, file: JobFileOptions, options: RunOptions, detach: bool
) -> None:
    """Register the job of a file and follow it until it runs."""
    job = _read(path, file)
    if options.output:
        click.echo(go_json.dumps({"Job": job}))
        return
    namespace = with_namespace(client, job)
    body: dict[str, Any] = {"Job": job, "PreserveCounts": options.preserve_counts}
    if not file.as_json:
        body["Submission"] = submission_of(path, file)
    if options.check_index is not None:
        body |= {"EnforceIndex": True, "JobModifyIndex": options.check_index}
    answer = client.put("/v1/jobs", body, namespace=namespace)
    _print_warnings(answer)
    if not answer["EvalID"]:
        click.echo("Job registered; it is launched by its schedule or by dispatch.")
        return
    console().print(f"==> Job {job['ID']!r}: evaluation {short(answer['EvalID'])}")
    if not detach:
        raise SystemExit(monitor_evaluation(client, answer["EvalID"], namespace))


@cli_command("plan")
@click.argument("path")
@options_of(JobFileOptions, "file")
@option("diff", type=bool, default=True, help="Show what changes in the job.")
@verbose_option
@connected
def plan(client: ApiClient, path: str, file: JobFileOptions, diff: bool, verbose: bool) -> None:
    """What running a file would change: exit 0 nothing, 1 allocations change, 255 error."""
    try:
        job = read_job(path, file)
        namespace = with_namespace(client, job)
        answer = client.put(
            f"/v1/job/{quoted(job['ID'])}/plan", {"Job": job, "Diff": diff}, namespace=namespace
        )
    except (ApiError, JobFileError) as error:
        _print_error(error)
        raise SystemExit(PLAN_ERROR) from error
    if diff and answer.get("Diff"):
        print_job_diff(answer["Diff"], verbose)
    failures = answer.get("FailedTGAllocs") or {}
    show_failures(failures)
    if not failures:
        click.echo("\nAll tasks can be placed.")
    _print_warnings(answer)
    index = answer["JobModifyIndex"]
    click.echo(f"\nJob Modify Index: {index}")
    click.echo(f"To run exactly this plan: orchgit job run -check-index {index} {path}")
    raise SystemExit(PLAN_CHANGES if changes_anything(answer.get("Annotations")) else 0)


@cli_command("validate")
@click.argument("path")
@options_of(JobFileOptions, "file")
@connected
def validate(client: ApiClient, path: str, file: JobFileOptions) -> None:
    """Check a job file; the server's rules included.

    What needs no server is checked first, with the place of each mistake. Where
    no server answers, that is all, and a note says so.
    """
    if not file.as_json and path != "-":
        _refuse_mistakes(path, file)
    job = _read(path, file)
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


@cli_command("init")
@click.argument("path", default="example.nomad.hcl")
@option("short", is_flag=True, help="Without comments.")
def init(path: str, short: bool) -> None:
    """Write an example job file."""
    target = Path(path)
    if target.exists():
        raise ApiError(f"cannot write {path}: it exists already; name another file")
    text = EXAMPLE.format(name=path)
    if short:
        kept = (line for line in text.splitlines() if not line.strip().startswith("#"))
        text = "\n".join(kept) + "\n"
    target.write_text(text)
    click.echo(f"Example job file written to {path}")


def _refuse_mistakes(path: str, options: JobFileOptions) -> None:
    """Prints the mistakes that need no server; ends the command if they refuse the job."""
    # Only this command pays for the rules' import.
    from orchgit.cli.job_files.linting import ERROR, LintSettings, lint_files

    settings = LintSettings(options.variables(), options.var_file_contents(), options.strict)
    findings = lint_files([path], settings)
    errors = [finding for finding in findings if finding.level == ERROR]
    for finding in errors:
        click.echo(finding.pretty(), err=True)
    if errors:
        raise SystemExit(1)


def _read(path: str, options: JobFileOptions) -> dict[str, Any]:
    try:
        return read_job(path, options)
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


RUNS = (run, plan, validate, init)
