"""Sends recorded requests: `python -m tests.scenarios.run_http_golden DIR [--addr URL]`.

A directory with `answers.json` holds shapes of answers; any other holds files of steps, which make
the state that they read. Without an address a server and an agent are started. What differs on
purpose, and what only says when the recording was read, is named with its reason. The last line is
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

from tests.compat.golden_answers import ON_PURPOSE as OTHER_ANSWERS
from tests.compat.golden_answers import answer_differences
from tests.compat.golden_fixtures import Fixtures
from tests.support.api_rig import ApiRig
from tests.support.golden_steps import print_result, step_differences, without_intended
from tests.support.recorded_agent import recorded_agent
from tests.support.recorded_scenario import RecordedScenario
from tests.support.server_rig import server_rig

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

_BUSY = "the recorded evaluation of the revert was not processed yet"
_NEW = "recorded before an allocation without checks was healthy, 10 s after its start"
_STOPPED = "a task that is replaced at once was stopped before it started, or after"
_TIES = "changes of one moment are listed in the order of random ids"
_NODE_EVAL = "the recorded node was updated meanwhile, which made an evaluation"
_META = "a node tells its new metadata with its next update, which here came sooner"
_DRAINED = "recorded while a drained allocation was still ending"
_GONE = "a version that failed at once was replaced before its status was derived, or after"
_READ_EARLY = "recorded before usage was measured, and before the drain"
_ALLOCATIONS = r"allocations(\?[a-z_]+=[a-z]+)?$"
MOMENTS = (
    (r"plan unchanged$", r"\.g\.(Ignore|InPlaceUpdate): |\.Updates\.(ignore|in-place)", _BUSY),
    (r"/jobs/statuses", r"Allocs\[\d+\]\.JobVersion: |ClientStatus: 'complete' expected", _TIES),
    (r"/jobs/statuses", r"\.DeploymentStatus\.Healthy: ", _NEW),
    (
        r"/jobs/statuses",
        r"LatestDeployment\.(AllAutoPromote|IsActive): True expected, got False"
        r"|LatestDeployment\.Status(Description)?: '(running'|Deployment is running)",
        _NEW,
    ),
    (r"/v1/job/\w+/scale$", r"\.Healthy: 0 expected, got 1", _NEW),
    (r"/v1/job/\w+$", r"^\$\.Stable: False expected, got True", _NEW),
    (r"/job/rev/versions$", r"\.Status: 'running' expected, got '(pending|dead)'", _GONE),
    (_ALLOCATIONS, r"TaskStates\.t\.(Events: \d items|StartedAt: None)", _STOPPED),
    (_ALLOCATIONS, r"\.DeploymentStatus: None expected", _NEW),
    (r"/v1/allocation/", r"\.DeploymentStatus: not expected", _NEW),
    (
        r"/v1/deployment",
        r"\.Status(Description)?: '(running'|Deployment is running)|\.HealthyAllocs: 0 expected",
        _NEW,
    ),
    (
        r"/evaluation/<eval:rev\.2>",
        r"^\$(: 0 items|\.(Node(ID|ModifyIndex): missing|TriggeredBy|JobModifyIndex: not expected"
        r"|PlanAnnotations\.DesiredTGUpdates))",
        _NODE_EVAL,
    ),
    (
        r"/allocation/<alloc:web\.0>/stats$",
        r"\.Measured: None|Stats\.(RSS|Usage): 0 expected|Tasks\.\w+: not expected|Timestamp: 0",
        _READ_EARLY,
    ),
    (
        r"/v1/node/<node>/allocations$",
        r"Client(Status|Description): |TaskStates|FinishedAt: None|State: 'running'"
        r"|NetworkStatus: not|DesiredTransition\.\w+: False expected, got None",
        f"{_STOPPED}; {_DRAINED}",
    ),
    (
        r"/v1/node/<node>/allocations$",
        r"Job\.(Stable|Status): |DeploymentStatus: not|VersionTag: None|\.Scores\.",
        f"{_NEW}; {_TIES}",
    ),
    (r"drain off$", r"^\$\.EvalIDs: 3 items expected", _DRAINED),
    (r"/node/pool/default/jobs$", r"Summary\.g\.(Complete|Running|Starting): ", _STOPPED),
    (r"node (while draining|after the drain)$", r"\.Meta\.(rack: missing|dyn: not)", _META),
    (
        r"/v1/agent/self$",
        r"last_heartbeat: '<n>ms' expected, got '[\d.]+s'|num_allocations: '\d+' expected",
        _READ_EARLY,
    ),
    (r"/volume/host/<volume:dyn>$", r"\.Allocations: 2 items expected, got 1", _DRAINED),
    (r"delete a volume in use$", r"in use by allocations: \[[0-9a-f-]{36}\]'$", _DRAINED),
)
"""What only says when an answer was read: in which step, in which line, and what went on then."""


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
        found[f"{file}: {step['name']}"] = _sent(scenario, _with_path(scenario, step))
        if request["path"].endswith("/drain") and (request.get("body") or {}).get("DrainSpec"):
            scenario.wait_until_drain_began()
    return found


def _with_path(scenario: RecordedScenario, step: dict[str, Any]) -> dict[str, Any]:
    """Returns the step; a path of which only the name says what it was is written anew."""
    if step["request"]["path"] != "<string>" or step["name"] != "allocation by a prefix of 8":
        return step
    path = f"/v1/allocation/{scenario.labels['alloc:web.0'][:8]}"
    return {**step, "request": {**step["request"], "path": path}}


def run_answers(directory: Path, rig: ApiRig) -> dict[str, list[str]]:
    """Returns the differences of a directory with `answers.json`, by the name of the check."""
    checks = json.loads((directory / "answers.json").read_text(encoding="utf-8"))["checks"]
    fixtures = Fixtures(rig)
    return {
        name: answer_differences(name, checks[name], fixtures)
        for name in sorted(checks.keys() - OTHER_ANSWERS)
    }


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


def has_answers(directory: Path) -> bool:
    return (directory / "answers.json").exists()


def _found(directory: Path, http: httpx.Client, data_dir: str) -> dict[str, list[str]]:
    if has_answers(directory):
        return run_answers(directory, ApiRig(http))
    return run(directory, http, data_dir)


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
                found = _found(given.directory, http, directory)
        elif has_answers(given.directory):
            with server_rig(Path(directory)) as rig:
                found = run_answers(given.directory, rig)
        else:
            with recorded_agent(Path(directory)) as http:
                found = run(given.directory, http, directory)
    unwanted, reasons = without_intended(found, (*ON_PURPOSE, *MOMENTS))
    return print_result(unwanted, reasons)


if __name__ == "__main__":
    sys.exit(main())
