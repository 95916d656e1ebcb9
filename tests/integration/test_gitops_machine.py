"""Sources under all that people do: the registered jobs are those of an independent model."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from orchgit.model.source import Source
from orchgit.services.gitops.sources import create_source
from tests.support.gitops_machine import GitopsMachine
from tests.support.simulated_server import HANGS, JobContent, SimulatedServer, job_text


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
