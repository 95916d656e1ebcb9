"""Compares who may do what with the recorded authorization matrices of a directory.

    python -m tests.scenarios.run_acl_matrix DIR [--addr URL]

Without `--addr` a server with access control starts for each file. With it, the server must be
fresh and have a node with raw_exec; `ORCHGIT_TOKEN` is its management token, or it is bootstrapped.
The last line is `N passed, N failed`; a cell is one request with one token.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.compat.acl_matrix import read_matrices
from tests.compat.acl_matrix_run import Difference, MatrixRun, summary
from tests.compat.acl_scenario import AclScenario
from tests.support.recorded_agent import recorded_agent

_MOST_SHOWN = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--addr", default="")
    parser.add_argument("--token", action="append", help="only this token; may be repeated")
    parser.add_argument("--shown", type=int, default=_MOST_SHOWN)
    options = parser.parse_args()
    passed, differences = 0, list[Difference]()
    for matrix in read_matrices(options.directory):
        with _client(options.addr) as http:
            run = MatrixRun(http.base_url.netloc.decode(), AclScenario(http, matrix))
            asyncio.run(run.run(matrix, options.token))
        print(f"{matrix.file}: {run.passed} passed, {len(run.differences)} failed")
        passed += run.passed
        differences += run.differences
    for line in summary(differences, options.shown):
        print(line)
    print(f"{passed} passed, {len(differences)} failed")
    return 1 if differences else 0


@contextmanager
def _client(address: str) -> Iterator[httpx.Client]:
    """Yields a client that sends a management token."""
    if not address:
        with tempfile.TemporaryDirectory() as directory, recorded_agent(Path(directory)) as http:
            yield http
        return
    with httpx.Client(base_url=address, timeout=60.0, trust_env=False) as http:
        token = os.environ.get("ORCHGIT_TOKEN") or os.environ.get("NOMAD_TOKEN")
        if not token:
            answer = http.put("/v1/acl/bootstrap")
            if answer.status_code != 200:
                sys.exit(f"cannot bootstrap, and ORCHGIT_TOKEN is not set: {answer.text}")
            token = answer.json()["SecretID"]
        http.headers["X-Nomad-Token"] = token
        yield http


if __name__ == "__main__":
    sys.exit(main())
