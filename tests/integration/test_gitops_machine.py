"""Sources under all that people do: the registered jobs are those of an independent model."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from orchgit.model.source import Source
from orchgit.services.gitops.sources import create_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from tests.support.gitops_machine import GitopsMachine
from tests.support.simulated_server import FAILS, HANGS, RUNS, JobContent, SimulatedServer, job_text


def test_registered_jobs_are_those_of_the_model_after_each_step() -> None:
    run_state_machine_as_test(
        GitopsMachine,
        settings=settings(
            max_examples=40,
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
