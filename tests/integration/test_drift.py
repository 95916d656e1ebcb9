"""Drift: found from the state's changes on a real state with real git, with who and what."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from orchgit.model.base import NS_PER_S
from orchgit.model.drift import JobDrift
from orchgit.model.gates import GatePolicy, Window
from orchgit.model.job import ChangedBy, Job
from orchgit.model.server import ServerRecord
from orchgit.model.source import DriftPolicy, Source
from orchgit.replication.commands.drift import DriftNote
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.services.gitops.drift import note_drift
from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.gitops.sources import change_source, release_job, remove_source
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import RegisterOptions, register_job
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_cluster import gitops_cluster
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


def test_drift_that_ends_while_notes_of_it_are_written_is_forgotten(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await scale(rig, "web", 3)
        await only_drift(rig)

        async def write_notes() -> None:
            for number in range(100):
                await note_drift(rig.context, [DriftNote("default", "web", f"try {number}")])

        noting = asyncio.create_task(write_notes())
        await scale(rig, "web", 0)
        await noting
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


def test_jobs_whose_files_mean_another_job_by_new_settings_have_drifted_by_the_settings(
    tmp_path: Path,
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await change_source(
            rig.context, "demo", lambda source: replace(source, variables={"level": "debug"})
        )
        found = await only_drift(rig)
        assert (found.changed_via, found.changed_by) == ("settings", "")
        assert [(each.path, each.old, each.new) for each in found.fields] == [
            ("group.web.task.server.env.LEVEL", "debug", "info")
        ]
        work.commit({"README.md": "hello"}, "Second")
        assert (await work.push(rig.url("demo"))).returncode == 0
        await rig.until(lambda: not drifts(rig))

    text = 'variable "level" {}\n' + service("web").replace('"info"', "var.level")
    files: dict[str, str | bytes | None] = {"web.hcl": text, "api.hcl": service("api")}
    with_pushed(tmp_path, body, files, variables={"level": "info"})


HEAL = DriftPolicy(action="heal", delay_ns=1_000_000_000)
ADOPT = DriftPolicy(action="adopt", delay_ns=1_000_000_000)


def test_healed_jobs_run_as_their_files_say_in_a_rollout_that_changes_nothing_else(
    tmp_path: Path,
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        migrate = replace(registered(rig, "migrate"), meta={"by": "hand"})
        await register_job(rig.context, migrate, RegisterOptions(changed_by=ada("register")))
        await scale(rig, "web", 3)
        options = DeregisterOptions(purge=True, changed_by=ada("purge"))
        await deregister_job(rig.context, "default", "api", options)
        await rig.until(lambda: [each.job_id for each in drifts(rig)] == ["migrate"])
        assert registered(rig, "web").task_groups[0].count == 0
        assert registered(rig, "api").version == 0
        healed = [each for each in rig.rollouts() if each.trigger == "drift"]
        assert sorted(job.job_id for each in healed for job in each.jobs) == ["api", "web"]
        assert {each.commit.id for each in healed} == {work.head()}
        await rig.until(lambda: drifts(rig)[0].note != "")
        assert "it would run again" in drifts(rig)[0].note
        assert registered(rig, "migrate").meta == {"by": "hand"}

    files: dict[str, str | bytes | None] = {
        "migrate.hcl": batch_job("migrate"),
        "web.hcl": service("web"),
        "api.hcl": service("api"),
    }
    with_pushed(tmp_path, body, files, drift=HEAL)


def test_paused_source_heals_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await pause_source(rig.context, "demo", "ada", "a look at it", 0)
        await scale(rig, "web", 3)
        await scale(rig, "free", 3)
        await rig.until(lambda: len(drifts(rig)) == 2)
        await resume_source(rig.context, "demo", "ada", "")
        await rig.until(lambda: not drifts(rig))
        assert rig.rollouts()[0].trigger == "drift"

    with_pushed(
        tmp_path, body, {"web.hcl": service("web"), "free.hcl": service("free")}, drift=HEAL
    )


def test_window_that_denies_changes_is_waited_for_and_named_before_a_job_is_healed(
    tmp_path: Path,
) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        deny = Window("deny", "0 0 1 * *", 31 * 24 * 3600 * NS_PER_S)

        def with_window(source: Source) -> Source:
            return replace(source, drift=HEAL, gates=GatePolicy(windows=[deny]))

        await change_source(rig.context, "demo", with_window)
        await scale(rig, "web", 3)
        await rig.until(lambda: [each.note for each in drifts(rig)] != [""] and drifts(rig) != [])
        assert "not healed yet: a window denies changes" in drifts(rig)[0].note
        assert registered(rig, "web").task_groups[0].count == 3
        assert [each.trigger for each in rig.rollouts()] == ["push"]

    with_pushed(tmp_path, body, {"web.hcl": service("web")})


def test_adopted_change_is_a_commit_on_the_branch_and_makes_no_version(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        changed = replace(registered(rig, "web"), meta={"owner": "me"})
        group = changed.task_groups[0]
        task = replace(group.tasks[0], env={"LEVEL": "debug"}, kill_timeout_ns=60_000_000_000)
        changed.task_groups = [replace(group, count=2, tasks=[task])]
        await register_job(rig.context, changed, RegisterOptions(changed_by=ada("register")))
        options = DeregisterOptions(changed_by=ada("stop"))
        await deregister_job(rig.context, "default", "api", options)
        first = work.head()
        await rig.until(lambda: rig.source().status.applied_commit != first)
        await rig.until(lambda: [each.job_id for each in drifts(rig)] == ["api"])
        await rig.until(lambda: drifts(rig)[0].note.startswith("not adopted"))
        assert registered(rig, "api").stop
        assert registered(rig, "web").version == 1
        assert rig.rollouts()[0].trigger == "drift"
        assert [job.job_id for job in rig.rollouts()[0].jobs] == []
        answer = await work.run("pull", "--quiet", rig.url("demo"), "main")
        assert answer.returncode == 0, answer.output
        text = (work.path / "web.hcl").read_text()
        assert 'LEVEL = "debug"' in text
        assert 'kill_timeout = "1m"' in text
        message = work.git("log", "-1", "--format=%B")
        assert message.startswith("Adopt what was changed by hand: web")
        assert "ada (claimed) from 10.0.0.5" in message

    files: dict[str, str | bytes | None] = {"web.hcl": service("web"), "api.hcl": service("api")}
    with_pushed(tmp_path, body, files, drift=ADOPT)


def test_change_that_is_no_edit_of_a_plain_value_is_left_with_the_reason(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await scale(rig, "web", 3)
        await rig.until(lambda: bool(drifts(rig)) and drifts(rig)[0].note != "")
        assert "it is computed from var.count" in drifts(rig)[0].note
        patch = await rig.gitops.drift_patch("demo")
        assert patch.startswith("# web: not adopted: group.web.count: it is computed")
        blocked = registered(rig, "odd")
        assert blocked.constraints is not None
        rule = replace(blocked.constraints[0], r_target="v2.*")
        blocked = replace(blocked, constraints=[rule])
        await register_job(rig.context, blocked, RegisterOptions(changed_by=ada("register")))
        await rig.until(lambda: len(drifts(rig)) == 2 and drifts(rig)[0].note != "")
        note = "not adopted: constraint.value: an edit of the file does not set it"
        assert drifts(rig)[0].note == note
        secret = replace(registered(rig, "api"))
        group = secret.task_groups[0]
        task = replace(group.tasks[0], env={"LEVEL": "info", "DB_PASSWORD": "hunter2"})
        secret.task_groups = [replace(group, tasks=[task])]
        await register_job(rig.context, secret, RegisterOptions(changed_by=ada("register")))
        await rig.until(lambda: len(drifts(rig)) == 3 and drifts(rig)[0].note != "")
        assert "it may be a secret" in drifts(rig)[0].note
        assert "hunter2" not in repr(drifts(rig))

    computed = 'variable "count" {\n  default = 0\n}\n' + service("web").replace(
        "count = 0", "count = var.count"
    )
    short = 'constraint {\n    attribute = "${attr.os.name}"\n    regexp = "v1.*"\n  }\n  group'
    files: dict[str, str | bytes | None] = {
        "web.hcl": computed,
        "api.hcl": service("api"),
        "odd.hcl": service("odd").replace("group", short, 1),
    }
    with_pushed(tmp_path, body, files, drift=ADOPT)


def test_patch_of_a_remote_source_applies_to_its_work_tree(tmp_path: Path) -> None:
    async def run() -> None:
        async with gitops_rig(tmp_path / "data") as rig:
            work = WorkTree(tmp_path / "upstream")
            work.commit({"web.hcl": service("web")}, "First")
            url = f"file://{work.path}"
            await rig.add_source("demo", kind="remote", url=url, ref="main", drift=ADOPT)
            await rig.gitops.sync("demo")
            await scale(rig, "web", 3)
            await rig.until(lambda: bool(drifts(rig)) and drifts(rig)[0].note != "")
            assert "-patch" in drifts(rig)[0].note
            (tmp_path / "drift.patch").write_text(await rig.gitops.drift_patch("demo"))
            answer = await work.run("apply", str(tmp_path / "drift.patch"))
            assert answer.returncode == 0, answer.output
            work.git("commit", "--all", "--quiet", "--message", "Three of them")
            await rig.gitops.sync("demo")
            await rig.until(lambda: not drifts(rig))
            assert registered(rig, "web").task_groups[0].count == 3
            assert registered(rig, "web").version == 1

    asyncio.run(run())


def test_drift_is_found_after_an_upgrade_and_by_the_next_leader_and_healed_by_it(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with gitops_cluster(tmp_path / "cluster") as cluster:
            first = await cluster.leader()
            await first.rig.add_source("demo", drift=HEAL)
            work = WorkTree(tmp_path / "work")
            work.commit({"web.hcl": service("web"), "api.hcl": service("api")}, "First")
            answer = await work.push(first.rig.url("demo"))
            assert answer.returncode == 0, answer.output
            await scale(first.rig, "web", 2)
            by_hand = registered(first.rig, "web")
            assert (by_hand.version, drifts(first.rig)) == (1, [])
            # Until every server has told its version, the log cannot say who did it.
            assert by_hand.origin is not None
            assert by_hand.origin.changed_by is None
            for member in cluster.members:
                record = ServerRecord(address=member.raft, command_version=COMMAND_VERSION)
                await first.rig.state.propose(PutServer(now_ns=1, server=record))
            await first.rig.add_source("demo", drift=HEAL)
            await first.until(lambda: registered(first.rig, "web").version == 2)
            await pause_source(first.rig.context, "demo", "ada", "a look at it", 0)
            await scale(first.rig, "web", 3)
            await first.until(lambda: len(drifts(first.rig)) == 1)
            await cluster.caught_up()
            await first.stop()
            second = await cluster.leader()
            await scale(second.rig, "api", 2)
            await second.until(lambda: len(drifts(second.rig)) == 2)
            by = {each.job_id: each.changed_by for each in drifts(second.rig)}
            assert set(by.values()) == {"ada (claimed) from 10.0.0.5"}
            await resume_source(second.rig.context, "demo", "ada", "")
            await second.until(lambda: not drifts(second.rig))
            assert registered(second.rig, "web").task_groups[0].count == 0
            assert registered(second.rig, "api").task_groups[0].count == 0

    asyncio.run(run())


def test_jobs_that_a_heal_leaves_out_are_still_put_back_by_the_next_commit(tmp_path: Path) -> None:
    """The heal applies the commit again, which is no reason to take other jobs for applied."""

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        cron = replace(registered(rig, "once"), meta={"by": "hand"})
        await register_job(rig.context, cron, RegisterOptions(changed_by=ada("register")))
        await scale(rig, "web", 3)
        await rig.until(lambda: [each.job_id for each in drifts(rig)] == ["once"])
        work.commit({"README.md": "hello"}, "Second")
        assert (await work.push(rig.url("demo"))).returncode == 0
        await rig.until(lambda: not drifts(rig))
        assert registered(rig, "once").meta is None

    files: dict[str, str | bytes | None] = {
        "once.hcl": batch_job("once"),
        "web.hcl": service("web"),
    }
    with_pushed(tmp_path, body, files, drift=HEAL)
