"""Sources under all that people do: the registered jobs are those of an independent model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from orchgit.errors import RefusedError
from orchgit.model.source import Source
from orchgit.services.gitops.sources import (
    create_source,
    give_back_job,
    release_job,
    remove_source,
)
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from tests.support.gitops_machine import GitopsMachine
from tests.support.simulated_server import (
    FAILS,
    HANGS,
    RUNS,
    JobContent,
    SimulatedServer,
    job_text,
    parsed,
)


def test_registered_jobs_are_those_of_the_model_after_each_step() -> None:
    run_state_machine_as_test(
        GitopsMachine,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # Shrinking takes minutes: `python -m tests.benchmarks.gitops_machine --shrink` does it.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            report_multiple_bugs=False,
        ),
    )


def test_new_job_of_a_purged_id_runs_though_the_purged_job_was_complete(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        await create_source(server.context, Source(name="demo"))
        for number in (1, 2):
            await server.push(
                "demo", {"a.hcl": job_text("a", "batch", JobContent(number)).encode()}
            )
            await server.settle()
            assert server.started["a", str(number)] == 1
            assert server.rollouts("demo")[0].jobs[0].description == "1 complete"
            await deregister_job(server.context, "default", "a", DeregisterOptions(purge=True))
        await server.stop()

    asyncio.run(run())


def test_failed_deployment_of_a_purged_job_is_not_that_of_the_new_one(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        await create_source(server.context, Source(name="demo"))
        for number, does in ((1, FAILS), (2, RUNS)):
            text = job_text("a", "service", JobContent(number, does))
            await server.push("demo", {"a.hcl": text.encode()})
            await server.settle()
            verdict = "healthy" if does == RUNS else "failed"
            assert server.rollouts("demo")[0].jobs[0].status == verdict
            await deregister_job(server.context, "default", "a", DeregisterOptions(purge=True))
        await server.stop()

    asyncio.run(run())


def test_last_progress_of_a_rollout_is_recorded_while_it_waits_for_another_job(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        await create_source(server.context, Source(name="demo"))
        files = {"a.hcl": JobContent(1), "b.hcl": JobContent(2, HANGS)}
        texts = {
            path: job_text(path[0], "service", content).encode() for path, content in files.items()
        }
        await server.push("demo", texts)
        await server.settle()
        (rollout,) = server.rollouts("demo")
        assert [(job.job_id, job.status) for job in rollout.jobs] == [
            ("a", "healthy"),
            ("b", "progressing"),
        ]
        await server.stop()

    asyncio.run(run())


def test_job_stopped_by_hand_stays_its_sources(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        for name in ("demo", "shop"):
            await create_source(server.context, Source(name=name))
        await server.push("demo", {"a.hcl": job_text("a", "service", JobContent(1)).encode()})
        await deregister_job(server.context, "default", "a", DeregisterOptions())
        await server.until(lambda: _drifts(server) != {}, lambda: _drifts(server))
        await server.push("shop", {"a.hcl": job_text("a", "service", JobContent(2)).encode()})
        problem = server.rollouts("shop")[0].problems[0]
        assert "belongs to source 'demo'" in problem
        await server.push("demo", {"a.hcl": None}, "Gone\n\nOrchgit-Delete: a\n")
        await server.until(lambda: not _drifts(server), lambda: _drifts(server))
        await server.gitops.sync("shop")
        assert server.jobs()["a"].origin.source == "shop"
        await server.stop()

    asyncio.run(run())


def test_drift_of_a_job_that_another_source_has_a_file_of_is_found(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        for name in ("demo", "shop"):
            await create_source(server.context, Source(name=name))
        text = job_text("a", "service", JobContent(1)).encode()
        await server.push("demo", {"a.hcl": text})
        await release_job(server.context, "default", "a")
        await server.push("shop", {"a.hcl": text})
        await server.push("demo", {"note.txt": b"1"})
        await server.settle()
        await register_job(server.context, parsed(job_text("a", "service", JobContent(2))))
        found = {"a": ("shop", "changed")}
        await server.until(lambda: _drifts(server) == found, lambda: _drifts(server))
        await server.push("demo", {"note.txt": b"2"})
        await server.settle()
        assert _drifts(server) == found
        await server.stop()

    asyncio.run(run())


def test_stopped_job_of_a_removed_source_has_no_owner_when_it_runs_again(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        await create_source(server.context, Source(name="demo"))
        await server.push("demo", {"a.hcl": job_text("a", "service", JobContent(1)).encode()})
        await deregister_job(server.context, "default", "a", DeregisterOptions())
        await remove_source(server.context, "demo")
        await register_job(server.context, parsed(job_text("a", "service", JobContent(2))))
        origin = server.jobs()["a"].origin
        assert (origin.source, origin.former_source) == ("", "demo")
        await server.stop()

    asyncio.run(run())


def test_release_from_a_removed_source_cannot_be_undone(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimulatedServer(tmp_path)
        await server.start()
        await create_source(server.context, Source(name="demo"))
        await server.push("demo", {"a.hcl": job_text("a", "service", JobContent(1)).encode()})
        await release_job(server.context, "default", "a")
        await remove_source(server.context, "demo")
        with pytest.raises(RefusedError, match='source "demo" was removed'):
            await give_back_job(server.context, "default", "a")
        await server.stop()

    asyncio.run(run())


def _drifts(server: SimulatedServer) -> dict[str, tuple[str, str]]:
    with server.snapshot() as snapshot:
        return {each.job_id: (each.source, each.kind) for each in snapshot.drifted_jobs.all()}
