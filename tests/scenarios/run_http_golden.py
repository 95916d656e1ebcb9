"""Sends recorded requests: `python -m tests.scenarios.run_http_golden DIR [--addr URL]`.

A directory with `answers.json` holds shapes of answers; any other holds files of steps, which make
the state that they read. Without an address a server and an agent are started. The last line is
`N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.golden_steps import print_result, step_differences
from tests.support.recorded_agent import recorded_agent
from tests.support.recorded_scenario import RecordedScenario

FIRST = ("jobs-write", "jobs-read", "evals-allocs-deployments", "nodes")
"""The files that make the state, and those that read it before others change it."""
FAILING_S = 90.0
"""A failing deployment fails after its progress deadline of a minute."""
NEEDS_REST = re.compile(r"/scale$|/revert$|/stable$|/stop$|/v1/jobs$")
"""Writes to what earlier ones registered, which runs by then."""
MACHINE = (
    # What a node is made of, and what its server is called.
    r"Attributes(\.|:)|NodeResources|\.Version:|\.Links|unique\.|CgroupParent",
    r"Memory\.Total:|\.Size:|^\$\.OS:|x00|CPU\[\d+\]|config\.Ports|Tags\.port|\]\.Port:",
    r"Tags\.build|config\.Version|schedulers: \d items|num_schedulers",
    r"member\.Port|stats\.runtime\.(version|goroutines)|stats\.raft\.(term|last_log_term|logstore_backend)",
    # The file may have another name.
    r"\.ConfigPaths|\.Files",
)
"""Places in answers that say something about the machine of the recording, not about the API."""


_PAGES = "Nomad's CLI would print links to pages that are not here"
_SECRETS = "secrets of a task cannot be read"
_LOCK = "a write without a length of time keeps the lock's"
_NAMESPACE = "a variable of a namespace that does not exist is refused"
_MODES = "the directories of an allocation are not everybody's to write"
ON_PURPOSE = (
    (r"/v1/agent/(self|members)$", r"Tags\.(raft_addr|command_version): not", "two tags more"),
    (r"/v1/agent/self$", r"config\.UI\.Enabled|stats\.broker: not", _PAGES + "; more statistics"),
    (r"/v1/operator/raft/configuration$", r"RPCAddress: not expected", "an address more"),
    (r"/v1/quotas$", r"status 501 expected, got 200", "quotas are for everybody"),
    (r"/v1/metrics\?format=prometheus$", r"status 415 expected, got 200", "needs no setting"),
    (r"/ui/nosuch\.js$", r"status 200 expected, got 404", "an unknown page is told as one"),
    (r"/v1/client/fs/ls/[^/]*(\?path=/)?$", r"\.FileMode: ", _MODES),
    (r"/t/secrets", r"Reading secret file prohibited", _SECRETS),
    (r"put: namespace unknown$", r"got 500: .*nonexistent namespace", _NAMESPACE),
    (r"/v1/vars\?namespace=\*$", r"5 items expected, got 4", _NAMESPACE),
    (r": (write with the lock|renew)$", r"\.Lock\.(TTL|LockDelay): ", _LOCK),
    (r"promote unknown group$", r"the deployment has no such groups", "it would promote nothing"),
)
"""What differs on purpose: in which step, in which line, and why (docs/from-nomad.md)."""


def without_intended(
    found: Mapping[str, list[str]],
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns the differences that nobody wants, and the reasons of steps that have only others."""
    unwanted, reasons = {}, {}
    for name, lines in found.items():
        rows = [row for row in ON_PURPOSE if re.search(row[0], name)]
        left = [each for each in lines if not any(re.search(row[1], each) for row in rows)]
        if lines and not left:
            reasons[name] = "; ".join(row[2] for row in rows)
        else:
            unwanted[name] = left
    return unwanted, reasons


def steps_of(directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    files = {file.stem: file for file in directory.glob("*.json")}
    order = [each for each in FIRST if each in files]
    for name in [*order, *sorted(files.keys() - set(order))]:
        recorded = json.loads(files[name].read_text(encoding="utf-8"))
        for step in recorded.get("steps") or ():
            yield name, step


def run(directory: Path, http: httpx.Client, data_dir: str) -> dict[str, list[str]]:
    """Returns the differences by the name of the step."""
    http.headers["Accept-Encoding"] = "identity"
    scenario = RecordedScenario(http, data_dir)
    found: dict[str, list[str]] = {}
    last = ""
    for file, step in steps_of(directory):
        request = step["request"]
        if file != last or (request["method"] != "GET" and NEEDS_REST.search(request["path"])):
            scenario.settle(timeout_s=FAILING_S if last == FIRST[0] != file else 15.0)
        if scenario.missing_labels(step):
            scenario.settle()
        last = file
        found[f"{file}: {step['name']}"] = _sent(scenario, step)
    return found


def _sent(scenario: RecordedScenario, step: Mapping[str, Any]) -> list[str]:
    if missing := scenario.missing_labels(step):
        return [f"nothing is known that {', '.join(missing)} names"]
    try:
        answer = scenario.send(step)
    except httpx.TimeoutException as error:
        if "frames" in step["response"]:
            return []
        return [f"no answer: {error!r}"]
    lines = step_differences(step, answer)
    return [line for line in lines if not any(re.search(each, line) for each in MACHINE)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--addr", help="of a server with an agent; without it, one is started")
    parser.add_argument("--token", default=os.environ.get("NOMAD_TOKEN", ""))
    given = parser.parse_args()
    headers = {"X-Nomad-Token": given.token} if given.token else {}
    with tempfile.TemporaryDirectory(prefix="http-golden-") as directory:
        if given.addr:
            with httpx.Client(
                base_url=given.addr, headers=headers, timeout=30.0, trust_env=False
            ) as http:
                found = run(given.directory, http, directory)
        else:
            with recorded_agent(Path(directory)) as http:
                found = run(given.directory, http, directory)
    unwanted, reasons = without_intended(found)
    for name, reason in reasons.items():
        print(f"{name}: different on purpose: {reason}")
    print(f"{len(reasons)} different on purpose")
    return print_result(unwanted)


if __name__ == "__main__":
    sys.exit(main())
