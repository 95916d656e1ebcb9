"""Hostile job files are refused by a limit that the refusal names, within seconds and megabytes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from orchgit.errors import OrchgitError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.file_functions import TreeFiles
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.port import Inputs, JobFile
from orchgit.gitops.parsing.process import ParseLimits
from orchgit.gitops.parsing.trees import MemoryTree
from tests.support.hostile.job_files import JOB_FILES

PATH = "hostile.nomad.hcl"
MAX_MEMORY_BYTES = 200 << 20


@pytest.fixture(scope="module")
def pool() -> Iterator[ParsePool]:
    # Time is not what ends any of them, on a busy machine either.
    pool = ParsePool(ParseLimits(parse_processes=1, parse_timeout_s=60.0, idle_s=60.0))
    yield pool
    pool.close()


@pytest.mark.parametrize("name", sorted(JOB_FILES))
def test_hostile_job_file_is_refused_by_a_named_limit(pool: ParsePool, name: str) -> None:
    text, words = JOB_FILES[name]
    content = text.encode()
    tree = MemoryTree({PATH: content}, GitLimits())
    began_s = time.process_time()
    (result,) = pool.parse([JobFile(PATH, lambda: content, TreeFiles(tree, ""))], Inputs())
    assert time.process_time() - began_s < 0.5  # what the server itself does for it
    refusal = str(result) if isinstance(result, OrchgitError) else ""
    assert words in refusal if words else not refusal, refusal
    (pid,) = pool.process_ids()  # the process is still there: no limit had to end it
    assert _peak_bytes(pid) < MAX_MEMORY_BYTES
    if refusal:
        assert f"{PATH}:" in refusal


def _peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
