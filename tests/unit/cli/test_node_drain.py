"""What a drain that nothing happens to waits for."""

from __future__ import annotations

from typing import Any

from orchgit.cli.commands.node_drain import awaited_lines


def held(job_id: str, kind: str, status: str = "running") -> dict[str, Any]:
    return {"JobID": job_id, "Job": {"Type": kind}, "ClientStatus": status}


HELD = [
    held("web", "service"),
    held("web", "service"),
    held("web", "service", "complete"),
    held("nightly", "batch"),
    held("logger", "system"),
    held("gone", "service", "lost"),
]


def test_drain_tells_which_jobs_it_waits_for_and_when_they_are_stopped() -> None:
    strategy = {"IgnoreSystemJobs": False, "ForceDeadline": "2026-11-24T00:02:47.678725Z"}
    assert awaited_lines(HELD, strategy) == [
        "    Waiting for job logger, 1 here (goes last)",
        "    Waiting for job nightly, 1 here (ends by itself)",
        "    Waiting for job web, 2 here (healthy elsewhere first: orchgit job status web)",
        "    The deadline, 2026-11-24T00:02:47Z, stops what is left",
    ]


def test_drain_without_a_deadline_tells_how_to_stop_what_is_left() -> None:
    strategy = {"IgnoreSystemJobs": True, "ForceDeadline": "0001-01-01T00:00:00Z"}
    assert awaited_lines(HELD[3:], strategy) == [
        "    Waiting for job nightly, 1 here (ends by itself)",
        "    No deadline stops what is left: orchgit node drain -enable -force does",
    ]
    assert awaited_lines(HELD[4:], strategy) == []
