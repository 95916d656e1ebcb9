"""Defaults, the typed job and the server's rules on jobs that clients send."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import JobFileErrors
from jobspec.files import CurrentDirectory
from jobspec.parse import parse_job
from jobspec.validate import ClusterFacts, validate_job
from orchgit.errors import InvalidInputError
from tests.support.jobspec_mutations import golden_texts, mutate

SMALL: dict[str, Any] = {
    "ID": "j",
    "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "exec"}]}],
}


def group_of(**fields: Any) -> dict[str, Any]:
    return {"ID": "j", "TaskGroups": [{**SMALL["TaskGroups"][0], **fields}]}


def test_names_are_taken_in_any_case_and_unknown_ones_dropped() -> None:
    job = to_job(
        {"id": "j", "TASKGROUPS": [{"name": "g", "count": 3, "Nope": 1}], "zzz": {"a": None}}
    )
    assert (job.id, job.name, job.task_groups[0].count) == ("j", "j", 3)


def test_server_fills_what_a_client_left_out() -> None:
    job = to_job(SMALL)
    assert (job.datacenters, job.node_pool, job.type, job.priority) == (
        ["*"],
        "default",
        "service",
        50,
    )
    group = job.task_groups[0]
    assert group.update is not None
    assert group.update.max_parallel == 1
    assert group.migrate is not None
    assert group.reschedule_policy is not None
    assert group.reschedule_policy.unlimited
    assert group.tasks[0].resources.memory_mb == 300


def test_batch_job_has_no_update_or_migrate_block() -> None:
    group = to_job({**SMALL, "Type": "batch"}).task_groups[0]
    assert group.update is None
    assert group.migrate is None
    assert group.restart_policy.attempts == 3


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"MaxClientDisconnect": 5}, (5, None, True)),
        ({"StopAfterClientDisconnect": 7}, (0, 7, True)),
        ({"PreventRescheduleOnLost": True}, (0, None, False)),
        ({"MaxClientDisconnect": 5, "PreventRescheduleOnLost": True}, (5, None, False)),
    ],
)
def test_older_disconnect_fields_become_the_block(
    fields: dict[str, Any], expected: tuple[int, int | None, bool]
) -> None:
    disconnect = to_job(group_of(**fields)).task_groups[0].disconnect
    assert disconnect is not None
    assert (
        disconnect.lost_after_ns,
        disconnect.stop_on_client_after_ns,
        disconnect.replace,
    ) == expected


def test_own_disconnect_block_is_kept() -> None:
    job = to_job(group_of(Disconnect={"LostAfter": 9}, MaxClientDisconnect=5))
    assert job.task_groups[0].disconnect is not None
    assert job.task_groups[0].disconnect.lost_after_ns == 9
    assert to_job(SMALL).task_groups[0].disconnect is None


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ([], "Job"),
        ({"TaskGroups": 3}, "Job.TaskGroups"),
        ({"TaskGroups": [3]}, "Job.TaskGroups[0]"),
        (group_of(Count="x"), "Job.TaskGroups[0].Count"),
        (group_of(Tasks=[{"Resources": {"CPU": 1.5}}]), "Tasks[0].Resources.CPU"),
        (group_of(Tasks=[{"Templates": [{"ChangeSignal": 5}]}]), "Templates[0].ChangeSignal"),
        (group_of(Meta={"a": 1}), "Job.TaskGroups[0].Meta"),
        ({"Datacenters": [1]}, "Job.Datacenters[0]"),
    ],
)
def test_wrong_type_names_its_path(spec: Any, path: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        to_job(spec)
    assert path in str(caught.value)


def test_canonical_and_typed_jobs_stay_as_they_are() -> None:
    for name, text in golden_texts():
        try:
            spec = parse_job(text.encode(), filename=name, files=CurrentDirectory()).spec
        except JobFileErrors:
            continue
        once = canonicalize(spec)
        assert canonicalize(once) == once, name
        job = to_job(spec)
        assert to_job(json.loads(msgspec.json.encode(job))) == job, name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["ID", "TaskGroups", "Tasks", "Name", "Update", "Networks", "Services", "Checks",
             "Connect", "Periodic", "Volumes", "Meta", "Config", "Vault", "Identities", "Scaling",
             "Templates", "Wait", "Constraints", "Type", "Count", "Ingress", "Gateway"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_json_is_a_job_or_a_clear_refusal(spec: Any) -> None:
    try:
        job = to_job(spec)
    except InvalidInputError:
        return
    assert validate_job(job, ClusterFacts(namespaces=frozenset())).problems


def test_each_mistake_is_found_at_its_place() -> None:
    text = (
        'job "j" {\n  group "g" {\n    count = -1\n    restart {\n      mode = "forever"\n    }\n'
        '    task "t" {\n      driver = "exec"\n      resources {\n        memory = 1\n      }\n'
        '      constraint {\n        attribute = "x"\n        operator = "~="\n'
        '        value = "y"\n'
        "      }\n    }\n  }\n}\n"
    )
    parsed = parse_job(text.encode(), filename="j.nomad.hcl")
    result = validate_job(to_job(parsed.spec))
    assert [line.split(": ")[0] for line in result.located(parsed.positions)] == [
        "j.nomad.hcl:3:5",
        "j.nomad.hcl:5:7",
        "j.nomad.hcl:10:9",
        "j.nomad.hcl:14:9",
    ]
    assert len(result.problems) == 1
    assert result.error_text.startswith("1 error occurred:\n\t* Task group g validation failed: 3")


def test_rules_of_the_cluster_need_its_facts() -> None:
    job = to_job({**SMALL, "Namespace": "nope"})
    assert validate_job(job).problems == []
    facts = ClusterFacts(namespaces=frozenset({"default"}))
    assert validate_job(job, facts).problems == ['job "j" is in nonexistent namespace "nope"']


def test_numa_affinity_is_refused_by_clusters_without_numa() -> None:
    spec = copy.deepcopy(SMALL)
    spec["TaskGroups"][0]["Tasks"][0]["Resources"] = {"Cores": 2, "NUMA": {"Affinity": "require"}}
    refused = "numa scheduling requires Nomad Enterprise"
    assert validate_job(to_job(spec), ClusterFacts()).problems == [refused]
    assert validate_job(to_job(spec), ClusterFacts(numa=True)).problems == []


def _mutations(count: int, seed: int) -> None:
    """Mutated files end in a job or in problems with places; never in anything else."""
    rng = random.Random(seed)
    texts = golden_texts()
    for _ in range(count):
        name, text = rng.choice(texts)
        mutated = mutate(text, rng)
        try:
            parsed = parse_job(
                mutated.encode(errors="replace"), filename=name, env={"NOMAD_VAR_x": "1"}
            )
            job = to_job(parsed.spec)
        except InvalidInputError as refusal:
            placed = getattr(refusal, "details", ())
            bad = [problem for problem in placed if problem.line < 1 or problem.column < 1]
            if bad:
                pytest.fail(f"{bad[0]}\n{mutated}")
            continue
        validate_job(job).located(parsed.positions)


def test_mutated_files_never_end_in_a_traceback() -> None:
    _mutations(2_000, seed=11)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_mutated_files_never_end_in_a_traceback() -> None:
    _mutations(100_000, seed=12)
