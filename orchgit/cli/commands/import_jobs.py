"""`orchgit import` and `orchgit job export`: from a running cluster to job files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, option
from orchgit.errors import OrchgitError

_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Written:
    """The text of a job; `differs` names what it could not say."""

    text: str
    differs: str = ""


@cli_command("export")
@click.argument("identifier")
@option("full", is_flag=True, help="Write defaults out too.")
@connected
def export(client: ApiClient, identifier: str, full: bool) -> None:
    """Print a job as a job file: reading it again gives the same job."""
    found = client.find("job", "/v1/jobs", identifier, per_page=20)
    written = job_text(_job(client, found), full)
    click.echo(written.text, nl=False)
    if written.differs:
        raise ApiError(f"cannot write all of job {found['ID']!r}: {written.differs} differs")


@cli_command("import")
@option("out", default=".", help="Directory to write to; one is made if there is none.")
@option("prefix", help="Only jobs whose id begins so.")
@option("stopped", is_flag=True, help="Stopped jobs too; pushing their files starts them.")
@option("full", is_flag=True, help="Write defaults out too.")
@option("force", is_flag=True, help="Overwrite files.")
@connected
def import_jobs(
    client: ApiClient, out: str, prefix: str | None, stopped: bool, full: bool, force: bool
) -> None:
    """Write the jobs of a running Nomad or orchgit cluster, a file each.

    All namespaces unless one is named. Jobs that a schedule or a dispatch made are left out: their
    parents make them again. No file is overwritten without -force.
    """
    root = Path(out)
    written = 0
    failed: list[str] = []
    taken: dict[Path, str] = {}
    for found in _wanted(client, prefix, stopped):
        target = _free_name(root, found, taken)
        try:
            problem = _import_one(client, found, target, full, force)
        except OrchgitError as error:
            problem = str(error)
        if problem:
            failed.append(problem)
            click.echo(f"! {found['ID']}: {problem}", err=True)
        else:
            written += 1
            click.echo(f"+ {target}")
    _say_what_next(root, written, len(failed))
    raise SystemExit(1 if failed else 0)


def _wanted(client: ApiClient, prefix: str | None, stopped: bool) -> Iterator[dict[str, Any]]:
    namespace = client.namespace or "*"
    for found in client.get("/v1/jobs", prefix=prefix, namespace=namespace) or []:
        if found.get("ParentID"):
            continue
        if found.get("Stop") and not stopped:
            click.echo(f"- {found['ID']}: left out, it is stopped (-stopped includes it)")
            continue
        yield found


def _import_one(
    client: ApiClient, found: dict[str, Any], target: Path, full: bool, force: bool
) -> str:
    """Writes one job's file; returns what went wrong, or ""."""
    if target.exists() and not force:
        return f"{target} exists already; -force overwrites it"
    written = job_text(_job(client, found), full)
    if written.differs:
        return f"not written: no job file says its {written.differs}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w" if force else "x", encoding="utf-8", newline="") as file:
            file.write(written.text)
    except OSError as error:
        return f"cannot write {target}: {error.strerror}"
    return ""


def _job(client: ApiClient, found: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/job/{quoted(found['ID'])}"
    return dict(client.get(path, namespace=found.get("Namespace")))


def job_text(job: dict[str, Any], full: bool = False) -> Written:
    """Returns the job as HCL, which was read again and compared."""
    # The reader of job files is not for the commands that need none.
    from jobspec.parse import parse_job
    from jobspec.writing.same_job import difference
    from jobspec.writing.write_job import write_job

    text = write_job(job, short=not full, exact=False)
    parsed = parse_job(text.encode(), filename=f"{job['ID']}.nomad.hcl")
    return Written(text, difference(job, parsed.spec))


def _free_name(root: Path, found: dict[str, Any], taken: dict[Path, str]) -> Path:
    """Returns NAMESPACE/ID.nomad.hcl, without the namespace for the default one; ids stay apart."""
    namespace = found.get("Namespace") or "default"
    folder = root if namespace == "default" else root / _safe(namespace)
    name = _safe(found["ID"])
    target = folder / f"{name}.nomad.hcl"
    number = 1
    while target in taken:
        number += 1
        target = folder / f"{name}-{number}.nomad.hcl"
    taken[target] = found["ID"]
    return target


def _safe(name: str) -> str:
    return _UNSAFE.sub("-", name).strip(".-") or "job"


def _say_what_next(root: Path, written: int, failed: int) -> None:
    click.echo(f"\n{written} jobs written to {root}" + (f", {failed} not" if failed else ""))
    if written:
        click.echo(
            "Next, in that repository:\n"
            f"  orchgit lint {root}\n"
            "  orchgit diff   # where they run already, pushing only makes the source their owner\n"
            '  git add . && git commit -m "Import the jobs" && git push'
        )
