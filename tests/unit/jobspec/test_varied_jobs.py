"""Job files of every block and feature, written for these tests: each step agrees with the others.

What Nomad says of a file is in the recorded cases; here more files, and what must hold for any.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from jobspec.blocks.table import TABLES
from jobspec.canonicalize import canonicalize, parsed_job, to_job
from jobspec.errors import Diagnostics
from jobspec.files import CurrentDirectory
from jobspec.parse import ParsedJob, parse_job, read_body, source_text
from jobspec.validate import ClusterFacts, validate_job
from jobspec.writing.same_job import difference
from jobspec.writing.write_job import write_job

FOLDER = Path(__file__).resolve().parents[2] / "support" / "varied_jobs"
FILES = sorted(FOLDER.iterdir())
CLUSTER = ClusterFacts(
    namespaces=frozenset(["default"]),
    node_pools=frozenset(["default", "all"]),
    memory_oversubscription=True,
)
REFUSED = {
    "multiregion": "Multiregion jobs are unlicensed.",
    "gw-ingress": "Missing tasks for task group",
    "resources": "numa scheduling requires Nomad Enterprise",
    "cores": "numa scheduling requires Nomad Enterprise",
    "vault": 'Vault "default" not enabled but used in the job',
    "vault-job": 'Vault "default" not enabled but used in the job',
    "vault-group": 'Vault "default" not enabled but used in the job',
    "network-all": 'collision may not be ignored on non-host network mode "bridge"',
    "schedule": "task schedules requires Nomad Enterprise",
    "svc-task": "cannot use a numeric port 1234 without setting address_mode",
}
"""What the server says no to; all other files are valid."""


def read(content: bytes, name: str = "x.nomad.hcl") -> ParsedJob:
    return parse_job(content, filename=name, files=CurrentDirectory())


@pytest.fixture(params=FILES, ids=lambda path: path.name.partition(".")[0])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_defaults_are_the_same_for_files_json_and_typed_jobs(path: Path) -> None:
    spec = read(path.read_bytes()).spec
    before = copy.deepcopy(spec)
    canonical = canonicalize(spec)
    assert canonicalize(canonical) == canonical
    job = parsed_job(spec)
    assert job == to_job(spec) == to_job(canonical)
    assert spec == before


def test_varied_job_is_valid_or_refused_for_its_reason(path: Path) -> None:
    parsed = read(path.read_bytes())
    found = validate_job(parsed_job(parsed.spec), CLUSTER)
    wanted = REFUSED.get(path.name.partition(".")[0])
    if wanted is None:
        assert found.problems == []
    else:
        (line,) = found.located(parsed.positions)
        assert wanted in line


@pytest.mark.parametrize("short", [True, False], ids=["short", "full"])
def test_varied_job_written_and_parsed_is_the_same_job(path: Path, short: bool) -> None:
    spec = read(path.read_bytes()).spec
    written = write_job(spec if short else canonicalize(spec), short)
    assert difference(spec, read(written.encode()).spec) == ""


def test_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    for path in FILES:
        content = path.read_bytes()
        spec = read(content).spec
        assert read(b"\xef\xbb\xbf" + content).spec == spec
        if b"<<" not in content:
            assert read(content.replace(b"\n", b"\r\n")).spec == spec


def test_every_block_is_in_some_file() -> None:
    seen: set[str] = set()

    def visit(body: Any, table: Any) -> None:
        for block in body.blocks:
            dynamic = block.type == "dynamic"
            field = table.blocks.get(block.labels[0].value if dynamic else block.type)
            if field is not None and field.table is not None:
                seen.add(field.table.name)
                visit(block.body.blocks[-1].body if dynamic else block.body, field.table)

    for path in FILES:
        source = source_text(path.read_bytes(), path.name)
        for block in read_body(source, Diagnostics(source)).blocks:
            if block.type == "job":
                visit(block.body, TABLES["job"])
    assert sorted(set(TABLES) - seen - {"job"}) == []
