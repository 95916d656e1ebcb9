"""Drift: found from the state's changes on a real state with real git, with who and what."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.drift import JobDrift
from orchgit.model.job import ChangedBy, Job
from orchgit.model.source import DriftPolicy
from orchgit.services.gitops.pauses import pause_source
from orchgit.services.gitops.sources import change_source, release_job, remove_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import RegisterOptions, register_job
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]


def ada(via: str) -> ChangedBy:
    return ChangedBy(via=via, user="ada", address="10.0.0.5", client="orchgit/1")


def service(name: str, count: int = 0, level: str = "info", scaling: str = "") -> str:
    return f"""job "{name}" {{
  group "web" {{
    count = {count}
    {scaling}
    task "server" {{
      driver = "raw_exec"
      env {{
        LEVEL = "{level}"
      }}
      config {{
        command = "/bin/sleep"
        args    = ["1000"]
      }}
    }}
  }}
}}
"""


def drifts(rig: GitopsRig) -> list[JobDrift]:
    with rig.context.snapshot() as snapshot:
        return snapshot.drifted_jobs.all()


async def only_drift(rig: GitopsRig) -> JobDrift:
    await rig.until(lambda: len(drifts(rig)) == 1)
    return drifts(rig)[0]


def registered(rig: GitopsRig, job_id: str) -> Job:
    job = rig.job(job_id)
    assert job is not None
    return job


def with_pushed(
    directory: Path, body: Body, files: dict[str, str | bytes | None], **settings: object
) -> None:
    """Runs `body` on a server whose source `demo` has these files applied."""

    async def run() -> None:
        async with gitops_rig(directory / "data") as rig:
            work = WorkTree(directory / "work")
            await rig.add_source("demo", **settings)
            work.commit(files, "First")
            assert (await work.push(rig.url("demo"))).returncode == 0
            await body(rig, work)

    asyncio.run(run())


async def scale(rig: GitopsRig, job_id: str, count: int) -> None:
    await scale_job(
        rig.context, "default", job_id, ScaleRequest("web", count, changed_by=ada("scale"))
    )


def test_scaled_job_is_shown_with_who_and_what_until_it_is_as_its_file_says(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await scale(rig, "web", 3)
        found = await only_drift(rig)
        assert (found.job_id, found.source, found.kind) == ("web", "demo", "changed")
        assert (found.changed_by, found.changed_via) == ("ada (claimed) from 10.0.0.5", "scale")
        assert [(each.path, each.old, each.new) for each in found.fields] == [
            ("group.web.count", "0", "3")
        ]
        assert (found.file, found.line, found.commit_id) == ("web.hcl", 1, work.head())
        assert found.job_version == registered(rig, "web").version
        await scale(rig, "web", 0)
        await rig.until(lambda: not drifts(rig))

    with_pushed(tmp_path, body, {"web.hcl": service("web")})


def test_registered_stopped_and_purged_jobs_drift_and_the_purge_tells_who(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        changed = replace(registered(rig, "web"), meta={"owner": "me"})
        await register_job(rig.context, changed, RegisterOptions(changed_by=ada("register")))
        found = await only_drift(rig)
        assert [each.path for each in found.fields] == ["meta.owner"]
        since_ns = found.since_ns
        options = DeregisterOptions(changed_by=ada("stop"))
        await deregister_job(rig.context, "default", "web", options)
        await rig.until(lambda: drifts(rig)[0].kind == "stopped")
        assert drifts(rig)[0].changed_via == "stop"
        options = DeregisterOptions(purge=True, changed_by=ada("purge"))
        await deregister_job(rig.context, "default", "web", options)
        await rig.until(lambda: drifts(rig)[0].kind == "missing")
        missing = drifts(rig)[0]
        assert (missing.changed_by, missing.changed_via) == ("ada (claimed) from 10.0.0.5", "purge")
        assert missing.since_ns == since_ns
        # The next commit, whatever it is about, brings the job back.
        work.commit({"README.md": "hello"}, "Second")
        assert (await work.push(rig.url("demo"))).returncode == 0
        await rig.until(lambda: not drifts(rig))
        assert not registered(rig, "web").stop

    with_pushed(tmp_path, body, {"web.hcl": service("web")})


def test_counts_of_scaling_policies_and_ignored_paths_are_no_drift(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await scale(rig, "auto", 4)
        both = replace(registered(rig, "web"), meta={"owner": "me"})
        both.task_groups[0] = replace(both.task_groups[0], count=2)
        await register_job(rig.context, both, RegisterOptions(changed_by=ada("register")))
        found = await only_drift(rig)
        assert found.job_id == "web"
        assert [each.path for each in found.fields] == ["meta.owner"]
        await change_source(
            rig.context,
            "demo",
            lambda source: replace(source, drift=replace(source.drift, ignore=["group", "meta"])),
        )
        await rig.until(lambda: not drifts(rig))

    policy = "scaling {\n  enabled = true\n  min = 0\n  max = 9\n}"
    files: dict[str, str | bytes | None] = {
        "web.hcl": service("web"),
        "auto.hcl": service("auto", scaling=policy),
    }
    with_pushed(tmp_path, body, files, drift=DriftPolicy(ignore=["group.*.count"]))


def test_released_jobs_and_jobs_of_removed_sources_have_not_drifted(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await scale(rig, "web", 3)
        await scale(rig, "api", 3)
        await rig.until(lambda: len(drifts(rig)) == 2)
        await release_job(rig.context, "default", "web")
        await rig.until(lambda: len(drifts(rig)) == 1)
        await pause_source(rig.context, "demo", "ada", "a look at it", 0)
        await remove_source(rig.context, "demo")
        await rig.until(lambda: not drifts(rig))

    with_pushed(tmp_path, body, {"web.hcl": service("web"), "api.hcl": service("api")})


def test_completed_batch_jobs_that_are_stopped_or_purged_have_not_drifted(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        options = DeregisterOptions(purge=True, changed_by=ada("purge"))
        await deregister_job(rig.context, "default", "migrate", options)
        await scale(rig, "web", 3)
        assert (await only_drift(rig)).job_id == "web"

    with_pushed(tmp_path, body, {"migrate.hcl": batch_job("migrate"), "web.hcl": service("web")})


def test_drift_while_no_server_leads_is_found_after_the_restart(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source("demo")
            work.commit({"web.hcl": service("web"), "api.hcl": service("api")}, "First")
            assert (await work.push(rig.url("demo"))).returncode == 0
            await rig.gitops.stop()
            await scale(rig, "web", 3)
            assert drifts(rig) == []
        async with gitops_rig(tmp_path / "data") as rig:
            found = await only_drift(rig)
            assert (found.job_id, found.changed_via) == ("web", "scale")
            assert rig.parser.parsed == []
            await scale(rig, "api", 1)
            await rig.until(lambda: len(drifts(rig)) == 2)

    asyncio.run(run())
