"""A source that gets another health is an event, and its status says since when."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orchgit.model.source_health import SourceHealthChange
from orchgit.replication.commands.gitops import RecordSourceHealth
from orchgit.services.gitops.pauses import pause_source
from orchgit.services.gitops.sources import remove_source
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig


def recorded(rig: GitopsRig) -> SourceHealthChange | None:
    with rig.context.snapshot() as snapshot:
        return snapshot.source_health.get("demo")


async def until_recorded(rig: GitopsRig, status: str) -> SourceHealthChange:
    await rig.until(lambda: (found := recorded(rig)) is not None and found.status == status)
    found = recorded(rig)
    assert found is not None
    return found


def test_each_change_of_health_is_one_event_with_what_it_was_before_and_why(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            feed = rig.state.subscribe()
            await rig.add_source()
            first = await until_recorded(rig, "pending")
            assert (first.before, first.reasons[0].text[:13]) == ("", "no commit yet")
            work = WorkTree(tmp_path / "work")
            work.commit({"web.nomad": batch_job("web")})
            assert (await work.push(rig.url("demo"))).returncode == 0
            healthy = await until_recorded(rig, "healthy")
            assert healthy.since_ns > first.since_ns
            with rig.context.snapshot() as snapshot:
                report = rig.gitops.statuses.report(snapshot, rig.source())
            assert report.health.since_ns == healthy.since_ns
            await pause_source(rig.context, "demo", "ada", "a look at it", 0)
            paused = await until_recorded(rig, "paused")
            assert paused.before == "healthy"
            assert "ada" in paused.reasons[0].text
            # What is recorded already is no event again.
            same = [SourceHealthChange("demo", status="paused")]
            await rig.state.propose(RecordSourceHealth(now_ns=1, changes=same))
            assert recorded(rig) == paused
            await remove_source(rig.context, "demo")
            assert recorded(rig) is None
            told = []
            async for batch in feed:
                told += [e for e in batch.events if e.type == "SourceHealthChanged"]
                if any(event.type == "SourceDeleted" for event in batch.events):
                    break
            statuses = [event.payload["SourceHealthChange"].status for event in told]  # type: ignore[attr-defined]
            assert [each for each in statuses if each != "progressing"] == [
                "pending",
                "healthy",
                "paused",
            ]
            assert {(event.key, event.namespace) for event in told} == {("demo", "default")}

    asyncio.run(run())
