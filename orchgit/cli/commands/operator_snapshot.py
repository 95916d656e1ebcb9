"""`orchgit operator snapshot`: take the cluster's state as a file, look into it, put it back."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option, yes_option
from orchgit.cli.printing.output import counted, heading, pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.terminal import raw_stream
from orchgit.errors import InvalidInputError
from orchgit.model.base import datetime_of_ns

if TYPE_CHECKING:
    from orchgit.replication.archive import ArchiveMeta

_PATH = "/v1/operator/snapshot"
_COPY_BYTES = 256 << 10
_OWN_TABLES = ("meta", "table_indexes", "restore_chunks", "alloc_shared")
"""They hold nothing that a user would look for."""


@cli_group(
    "snapshot",
    lazy={
        "redact": ("operator_snapshot_content", "redact", "Take secrets out of a snapshot"),
        "state": ("operator_snapshot_content", "state", "Print the rows of a snapshot as JSON"),
    },
)
def snapshot() -> None:
    """Back the cluster's state up, and restore it.

    \b
    orchgit operator snapshot save backup.snap
    orchgit operator snapshot inspect backup.snap
    orchgit operator snapshot restore backup.snap
    """


@snapshot.command("save")
@option("stale", is_flag=True, help="From any server, without asking the leader.")
@option("redact", is_flag=True, help="Without variables, tokens and keys; cannot be restored.")
@option("no-git", is_flag=True, help="Without the objects of the built-in git repositories.")
@click.argument("file", required=False)
@connected
def save(client: ApiClient, stale: bool, redact: bool, no_git: bool, file: str | None) -> None:
    """Write the whole state to FILE [orchgit-state-TIME.snap].

    It holds jobs, nodes, allocations, sources, sealed variables, and the git repositories that the
    cluster is the home of. Keep the cluster's key file (server.cluster_key_file) too, apart from
    it: variables cannot be opened without it.
    """
    path = Path(file or f"orchgit-state-{int(time.time())}.snap")
    if path.exists():
        raise InvalidInputError(f"cannot save to {path}: it is there already; name another file")
    with _new_file(path) as out:
        asked = {"stale": "true" if stale else "", "git": "" if no_git else "true"}
        headers = client.download(_PATH, out, **asked)
        out.flush()
        _check_digest(out, headers.get("Digest", ""))
        if redact:
            from orchgit.cli.commands.operator_snapshot_content import redact_into

            with tempfile.TemporaryFile() as whole:
                out.seek(0)
                shutil.copyfileobj(out, whole)
                out.seek(0)
                out.truncate()
                redact_into(whole, out)
                out.flush()
        with _read(out) as (meta, _):
            index, lost = meta.index, meta.origin.lost_objects
    if lost:
        click.echo(f"Warning: {lost} commits are on no server; the snapshot lacks them", err=True)
    click.echo(f"State file written to {path} (index {index})")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Under its name, and on disk, only when all of it is there."""
    try:
        descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InvalidInputError(f"cannot save to {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            os.fsync(file.fileno())
        os.link(part, path)
    except OSError as error:
        raise InvalidInputError(f"cannot save to {path}: {error.strerror}") from error
    finally:
        Path(part).unlink()


def _check_digest(file: IO[bytes], given: str) -> None:
    file.seek(0)
    sha256 = hashlib.sha256()
    while data := file.read(_COPY_BYTES):
        sha256.update(data)
    digest = base64.b64encode(sha256.digest()).decode()
    if given != f"sha-256={digest}":
        raise InvalidInputError("cannot save: what came is not what the server sent; try again")


@snapshot.command("inspect")
@formatted
@click.argument("file")
def inspect(file: str, output: OutputFormat) -> None:
    """Check FILE, without a server, and tell what is in it."""
    with _open(file) as archive, _read(archive) as (meta, state):
        found = _described(meta, _row_counts(state))
    if output.printed(found):
        return
    counts, repositories = found.pop("Tables"), found.pop("Repositories")
    pairs((name, plain(value)) for name, value in found.items())
    if repositories:
        heading("Repositories")
        table(("Name", "Size"), sorted(repositories.items()))
    heading("Tables")
    table(("Table", "Rows"), sorted(counts.items()))


@snapshot.command("restore")
@option("force", is_flag=True, help="Even if its variables cannot be opened with this key file.")
@yes_option
@click.argument("file")
@connected
def restore(client: ApiClient, force: bool, yes: bool, file: str) -> None:
    """Put FILE in the place of the cluster's whole state, on every server.

    The git repositories in it come to every server too. What the cluster holds now is lost: save it
    first. The members of the cluster stay. Agents connect again by themselves; those that FILE
    knows and that do not come back are down. A redacted FILE is refused.
    """
    with _open(file) as archive:
        with _read(archive) as (meta, state):
            meta.refuse_redacted()
            jobs = _row_counts(state).get("jobs", 0)
        click.echo(f"==> {file}: index {meta.index}, {_taken(meta)}, {counted(jobs, 'job')}")
        if not yes:
            click.confirm(f"Replace the state of the cluster at {client.address}?", abort=True)
        size = archive.seek(0, os.SEEK_END)
        archive.seek(0)
        client.upload(_PATH, _pieces(archive, size), size, force="true" if force else "")
    click.echo("==> Snapshot restored. Look at it: orchgit node status, orchgit job status")


def _pieces(archive: IO[bytes], size: int) -> Iterator[bytes]:
    with click.progressbar(length=size, label="    Sending", file=raw_stream(sys.stdout)) as bar:
        while data := archive.read(_COPY_BYTES):
            yield data
            bar.update(len(data))
    click.echo("==> Sent; the servers check the snapshot and restore it ...")


@contextmanager
def _open(file: str) -> Iterator[IO[bytes]]:
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InvalidInputError(f"cannot read {file}: {error.strerror}") from error
    with opened:
        yield opened


@contextmanager
def _read(archive: IO[bytes]) -> Iterator[tuple[ArchiveMeta, Path]]:
    """Checked and unpacked to a place that is gone afterwards."""
    # msgspec's decoders and the schema: only these commands need them.
    from orchgit.replication.archive import read_archive

    archive.seek(0)
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state.db"
        yield read_archive(archive, state), state


def _row_counts(state: Path) -> dict[str, int]:
    connection = sqlite3.connect(f"file:{state}?mode=ro", uri=True)
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
            for (name,) in names.fetchall()
            if name not in _OWN_TABLES
        }
    finally:
        connection.close()


def _described(meta: ArchiveMeta, counts: dict[str, int]) -> dict[str, Any]:
    origin = meta.origin
    return {
        "ID": meta.id,
        "Index": meta.index,
        "Term": meta.term,
        "Size": meta.size,
        "GitSize": sum(one.size for one in origin.repositories),
        "Version": meta.version,
        "Taken": _taken(meta),
        "ClusterID": origin.cluster_id,
        "Region": origin.region,
        "Build": origin.build,
        "StateVersion": origin.schema_version,
        "Redacted": "yes" if origin.redacted else "no",
        "Repositories": {one.name: one.size for one in origin.repositories},
        "Tables": counts,
    }


def _taken(meta: ArchiveMeta) -> str:
    return datetime_of_ns(meta.origin.taken_ns).isoformat(timespec="seconds")
