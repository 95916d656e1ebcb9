"""Why allocations failed, from the events of their tasks."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.gitops.rollouts.task_failures import failure_lines, last_lines, task_failures
from orchgit.model.allocation import Allocation, AllocDeploymentStatus, TaskEvent, TaskState


def event(kind: str, **fields: object) -> TaskEvent:
    return TaskEvent(type=kind, **fields)  # type: ignore[arg-type]


def alloc(alloc_id: str, *events: TaskEvent, index: int = 1, **fields: object) -> Allocation:
    states = {"main": TaskState(state="dead", failed=True, restarts=2, events=list(events))}
    return Allocation(
        id=alloc_id,
        node_name="n1",
        job_version=2,
        task_states=states if events else None,
        create_index=index,
        **fields,  # type: ignore[arg-type]
    )


def reasons(*allocations: Allocation) -> list[str]:
    return [failure.reason for failure in task_failures(allocations, 2)]


def test_exit_code_and_signal_are_named() -> None:
    assert reasons(alloc("a", event("Terminated", exit_code=7))) == ["exit code 7"]
    assert reasons(alloc("a", event("Terminated", exit_code=139, signal=11))) == [
        "killed by SIGSEGV"
    ]
    assert reasons(alloc("a", event("Terminated", exit_code=1, signal=99))) == [
        "killed by signal 99"
    ]


def test_task_killed_for_memory_names_the_limit() -> None:
    killed = event("Terminated", exit_code=137, signal=9, details={"oom_killed": "true"})
    assert reasons(alloc("a", killed)) == [
        "killed by SIGKILL: it used more memory than resources.memory allows"
    ]


def test_setup_failure_gives_its_message_and_no_output() -> None:
    failed = event("Driver Failure", display_message="cannot find image web:2")
    [found] = task_failures([alloc("a", event("Received"), failed)], 2)
    assert (found.reason, found.has_output) == ("cannot find image web:2", False)
    assert "orchgit alloc status a" in failure_lines(found)[-1]


def test_task_killed_on_purpose_did_not_fail() -> None:
    stopped = (event("Started"), event("Killing"), event("Terminated", exit_code=143, signal=15))
    assert reasons(alloc("a", *stopped)) == []
    crashed = (*stopped, event("Started"), event("Terminated", exit_code=3))
    assert reasons(alloc("a", *crashed)) == ["exit code 3"]


def test_successful_end_is_no_failure() -> None:
    assert reasons(alloc("a", event("Terminated", exit_code=0))) == []


def test_other_versions_do_not_count() -> None:
    assert task_failures([alloc("a", event("Terminated", exit_code=7))], 3) == []


def test_equal_failures_are_counted_under_the_newest_allocation() -> None:
    several = [alloc(f"a{n}", event("Terminated", exit_code=7), index=n) for n in range(5)]
    [found] = task_failures(several, 2)
    assert (found.alloc_id, found.alike) == ("a4", 5)
    assert "4 more allocations failed the same way" in failure_lines(found)[0]


def test_at_most_three_different_failures_are_shown() -> None:
    several = [alloc(f"a{n}", event("Terminated", exit_code=n + 1), index=n) for n in range(9)]
    assert reasons(*several) == ["exit code 9", "exit code 8", "exit code 7"]


def test_allocation_without_a_failed_task_fails_as_a_whole() -> None:
    unhealthy = AllocDeploymentStatus(healthy=False)
    assert reasons(alloc("a", client_status="failed", client_description="no room")) == ["no room"]
    assert reasons(alloc("a", client_status="lost")) == ["its node was lost"]
    assert reasons(alloc("a", client_status="running", deployment_status=unhealthy)) == [
        "not healthy by its healthy_deadline"
    ]
    assert reasons(alloc("a", client_status="running")) == []


def test_lines_show_the_task_its_output_and_the_command() -> None:
    [found] = task_failures([alloc("12345678-aa", event("Terminated", exit_code=7))], 2)
    assert failure_lines(replace(found, output="no database\nbye")) == [
        "     allocation 12345678 on n1: task main: exit code 7 (2 restarts)",
        "     | no database",
        "     | bye",
        "     look further: orchgit alloc logs -stderr 12345678 main",
    ]


def test_task_of_an_unhealthy_allocation_has_output_and_names_its_namespace() -> None:
    unhealthy = alloc(
        "12345678-aa", namespace="ops", deployment_status=AllocDeploymentStatus(healthy=False)
    )
    unhealthy.task_states = {"main": TaskState(state="running")}
    [found] = task_failures([unhealthy], 2)
    assert (found.task, found.reason) == ("main", "not healthy by its healthy_deadline")
    assert failure_lines(found)[-1] == (
        "     look further: orchgit alloc logs -namespace ops -stderr 12345678 main"
    )
    found = replace(found, stream="stdout", output="listening on 8081")
    assert failure_lines(found)[-1].endswith("alloc logs -namespace ops 12345678 main")


def test_output_is_cut_to_its_last_lines_and_width() -> None:
    assert last_lines(b"") == ""
    assert last_lines(b"a\nb\n\xff\n", max_lines=2) == "b\n\N{REPLACEMENT CHARACTER}"
    assert last_lines(b"x" * 500) == "x" * 197 + "..."


def test_task_that_its_agent_failed_names_the_reason() -> None:
    killed = event("Killing", display_message="Template failed: no function x", fails_task=True)
    assert reasons(alloc("a", killed)) == ["Template failed: no function x"]
    hook = event("Task hook failed", display_message="validate: user root is disallowed")
    assert reasons(alloc("a", hook)) == ["validate: user root is disallowed"]
