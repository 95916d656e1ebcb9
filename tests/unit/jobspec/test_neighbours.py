"""Job files and expressions beside the recorded ones, with what Nomad 1.10 said of them.

`jobspec-neighbours.json`: job files with the errors and warnings of the validate endpoint.
`function-neighbours.json`: expressions with their JSON, or the column that their error points at.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import JobFileErrors
from jobspec.parse import parse_job
from jobspec.validate import ClusterFacts, validate_job

GOLDEN = Path(__file__).parents[2] / "golden"
JOBS = json.loads((GOLDEN / "jobspec-neighbours.json").read_text(encoding="utf-8"))
EXPRESSIONS = json.loads((GOLDEN / "function-neighbours.json").read_text(encoding="utf-8"))
CLUSTER = ClusterFacts(namespaces=frozenset({"default"}), node_pools=frozenset({"default", "all"}))


@pytest.mark.parametrize("name", JOBS)
def test_job_file_is_accepted_or_refused_as_recorded(name: str) -> None:
    case = JOBS[name]
    spec = parse_job(case["job"].encode(), filename="job.hcl").spec
    result = validate_job(to_job(spec), CLUSTER)
    assert (result.problems or None, result.warning_text) == (case["errors"], case["warnings"])


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_expression_gives_what_was_recorded(source: str) -> None:
    wanted = EXPRESSIONS[source]
    text = f'job "j" {{\n meta = {{ v = jsonencode(\n{source}\n) }}\n}}\n'
    if isinstance(wanted, str):
        assert parse_job(text.encode(), filename="j.hcl").spec["Meta"]["v"] == wanted
        return
    with pytest.raises(JobFileErrors) as refused:
        parse_job(text.encode(), filename="j.hcl")
    assert (3, wanted) in [(problem.line, problem.column) for problem in refused.value.details]


UPDATE = {"MaxParallel": 1, "HealthCheck": "checks", "ProgressDeadline": 600_000_000_000}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("service", UPDATE), ("system", UPDATE), ("batch", None), ("sysbatch", None)],
)
def test_update_block_is_implied_for_jobs_that_roll_out(
    kind: str, wanted: dict[str, object] | None
) -> None:
    job = canonicalize({"ID": "a", "Type": kind, "TaskGroups": [{"Name": "g"}]})
    for block in (job["Update"], job["TaskGroups"][0]["Update"]):
        assert (block and {key: block[key] for key in UPDATE}) == wanted


def test_system_job_keeps_its_own_update_and_fills_the_rest() -> None:
    group = {"Name": "g", "Update": {"MaxParallel": 3}}
    job = canonicalize({"ID": "a", "Type": "system", "TaskGroups": [group]})
    assert job["Update"]["MaxParallel"] == 1
    assert job["TaskGroups"][0]["Update"]["MaxParallel"] == 3
    assert job["TaskGroups"][0]["Update"]["Stagger"] == 30_000_000_000


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ("/csi", "/local/csi", 30_000_000_000)),
        ({"MountDir": "/x"}, ("/x", "/local/csi", 30_000_000_000)),
        ({"StagePublishBaseDir": "/s", "HealthTimeout": 5}, ("/csi", "/s", 5)),
        ({"MountDir": ""}, ("/csi", "/local/csi", 30_000_000_000)),
    ],
)
def test_csi_plugin_has_directories_by_default(
    given: dict[str, object], wanted: tuple[object, ...]
) -> None:
    task = {"Name": "t", "CSIPluginConfig": {"ID": "p", "Type": "node", **given}}
    job = canonicalize({"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [task]}]})
    plugin = job["TaskGroups"][0]["Tasks"][0]["CSIPluginConfig"]
    found = (plugin["MountDir"], plugin["StagePublishBaseDir"], plugin["HealthTimeout"])
    assert found == wanted


@pytest.mark.parametrize("disk_mb", [-1, 0, 100])
def test_disk_of_a_task_is_left_out(disk_mb: int) -> None:
    task = {"Name": "t", "Driver": "raw_exec", "Resources": {"DiskMB": disk_mb}}
    job = to_job({"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [task]}]})
    assert job.task_groups[0].tasks[0].resources.disk_mb == 0
    assert validate_job(job).problems == []


@pytest.mark.parametrize(
    ("weights", "wanted"), [({"Passing": 0, "Warning": -1}, (1, 1)), ({"Passing": 3}, (3, 1))]
)
def test_weights_of_a_service_are_at_least_one(
    weights: dict[str, int], wanted: tuple[int, int]
) -> None:
    group = {"Name": "g", "Services": [{"Name": "s", "Weights": weights}]}
    found = canonicalize({"ID": "a", "TaskGroups": [group]})["TaskGroups"][0]["Services"][0]
    assert (found["Weights"]["Passing"], found["Weights"]["Warning"]) == wanted
