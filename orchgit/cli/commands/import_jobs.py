"""`orchgit import` and `orchgit job export`: from a running cluster to files and a new cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.importing.cluster_objects import ClusterObjects
from orchgit.cli.importing.job_texts import JobText, VariableNames, dumped, submitted
from orchgit.cli.importing.report import ImportReport
from orchgit.cli.options import connected, option, option_field, options_of
from orchgit.cli.printing.output import counted
from orchgit.errors import OrchgitError

_UNSAFE = re.compile(r"[^\w.-]+")


@cli_command("export")
@click.argument("identifier")
@option("full", is_flag=True, help="Write defaults out too.")
@connected
def export(client: ApiClient, identifier: str, full: bool) -> None:
    """Print a job as a job file: reading it again gives the same job."""
    found = client.find("job", "/v1/jobs", identifier, per_page=20)
    written = dumped(_job(client, found), full)
    click.echo(written.text, nl=False)
    if written.differs:
        raise ApiError(f"cannot write all of job {found['ID']!r}: {written.differs} differs")


@dataclass(frozen=True)
class ImportOptions:
    out: str = option_field("out", default=".", help="Directory of job files; made if need be.")
    prefix: str | None = option_field("prefix", help="Only jobs whose id begins so.")
    stopped: bool = option_field(
        "stopped", is_flag=True, help="Stopped jobs too; pushing their files starts them."
    )
    full: bool = option_field("full", is_flag=True, help="Write defaults of dumped jobs out too.")
    dump: bool = option_field(
        "dump", is_flag=True, help="Write jobs as they are registered, not as they were submitted."
    )
    force: bool = option_field("force", is_flag=True, help="Overwrite files and objects.")
    into: str | None = option_field(
        "into", help="Address of the new cluster: it gets namespaces, policies and the like."
    )
    into_token: str | None = option_field(
        "into-token", help="Token of the new cluster [ORCHGIT_INTO_TOKEN]."
    )
    variables: bool = option_field("variables", is_flag=True, help="Copy variables -into, too.")


@cli_command("import")
@options_of(ImportOptions)
@connected
def import_jobs(client: ApiClient, options: ImportOptions) -> None:
    """Take over a running Nomad or orchgit cluster.

    Writes a file for each job: the text it was submitted with, if the cluster stored that, and
    else as it is registered. With -into, the new cluster gets what is beside the jobs: quotas,
    namespaces, node pools, the scheduler's configuration, policies, roles, host volumes, and with
    -variables the variables. Nothing is overwritten without -force. What is left is listed at the
    end, with the reason. An import that was interrupted can be repeated.

    All namespaces unless one is named. Jobs that a schedule or a dispatch made are left out: their
    parents make them again.
    """
    report, root = ImportReport(), Path(options.out)
    written = _import_jobs(client, root, options, report)
    if options.prefix is None:
        token = options.into_token or os.environ.get("ORCHGIT_INTO_TOKEN")
        with ExitStack() as stack:
            new = None
            if options.into:
                new = stack.enter_context(ApiClient(options.into, token=token, tls=client.tls))
            ClusterObjects(client, new, report, options.variables, options.force).take_all()
    _say_what_next(root, written, report)
    raise SystemExit(1 if report.failures else 0)


def _import_jobs(
    client: ApiClient, root: Path, options: ImportOptions, report: ImportReport
) -> list[Path]:
    """Writes the jobs' files; returns them, and the files of variables."""
    written: list[Path] = []
    taken: dict[Path, str] = {}
    names = VariableNames()
    for found in _wanted(client, options, report):
        target = _free_name(root, found, taken)
        try:
            job = _job(client, found)
            text = _text_of(client, job, options, names)
            if text.differs:
                raise ApiError(f"not written: no job file says its {text.differs}")
            written += _write(target, text, options.force)
        except OrchgitError as error:
            report.fail(f"job {found['ID']}", str(error))
            continue
        report.taken(str(target))
        if text.note:
            report.leave(f"part of job {found['ID']}", text.note)
    return written


def _text_of(
    client: ApiClient, job: dict[str, Any], options: ImportOptions, names: VariableNames
) -> JobText:
    found = "" if options.dump else submitted(client, job, names)
    if isinstance(found, JobText):
        return found
    note = f"written as it is registered, as {found}" if found else ""
    text = dumped(job, options.full)
    return JobText(text.text, text.differs, note=note)


def _write(target: Path, text: JobText, force: bool) -> list[Path]:
    """Writes the files of a job, each whole or not at all; those that are there as they should be
    stay, so that an import can be repeated. Raises ApiError."""
    files = {target: text.text.encode()}
    if text.variables:
        name = target.name.replace(".nomad.hcl", ".vars.hcl")
        files[target.with_name(name)] = text.variables.encode()
    try:
        missing = {path: data for path, data in files.items() if not _holds(path, data)}
        for path in missing:
            if path.exists() and not force:
                raise ApiError(f"{path} exists already, and is another; -force overwrites it")
        for path, data in missing.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.{os.getpid()}.part")
            try:
                part.write_bytes(data)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise ApiError(f"cannot write {error.filename or target}: {error.strerror}") from error
    return list(files)


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _wanted(
    client: ApiClient, options: ImportOptions, report: ImportReport
) -> Iterator[dict[str, Any]]:
    namespace = client.namespace or "*"
    for found in client.get("/v1/jobs", prefix=options.prefix, namespace=namespace) or []:
        if found.get("ParentID"):
            continue
        if found.get("Stop") and not options.stopped:
            report.leave(f"job {found['ID']}", "it is stopped (-stopped includes it)")
            continue
        yield found


def _job(client: ApiClient, found: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/job/{quoted(found['ID'])}"
    return dict(client.get(path, namespace=found.get("Namespace")))


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


def _say_what_next(root: Path, written: list[Path], report: ImportReport) -> None:
    report.show_left()
    variables = [path for path in written if path.name.endswith(".vars.hcl")]
    jobs = len(written) - len(variables)
    click.echo(f"\n{counted(jobs, 'job')} written to {root}")
    if not jobs:
        return
    given = "".join(f" -var-file {path.relative_to(root)}" for path in variables)
    click.echo(
        "Next, in that repository:\n"
        f"  orchgit lint {root}\n"
        f"  orchgit source add NAME{given}\n"
        "  orchgit diff   # where they run already, pushing only makes the source their owner\n"
        '  git add . && git commit -m "Import the jobs" && git push'
    )
