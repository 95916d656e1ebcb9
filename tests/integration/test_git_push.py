"""git push to the built-in remote: real git, real HTTP, real log and state."""

import asyncio
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from orchgit.clock import SystemClock
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.maintenance import WRITES_BETWEEN, Maintenance
from orchgit.replication.commands.gitops import MoveRefs, RefMove
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from tests.support.git_repos import WorkTree, batch_job
from tests.support.gitops_rig import GitopsRig, gitops_rig

Body = Callable[[GitopsRig, WorkTree], Awaitable[None]]


def with_rig(
    directory: Path, body: Body, config: GitopsConfig | None = None, evaluate: bool = True
) -> None:
    """A built-in source `demo` and a work tree of its own."""

    async def run() -> None:
        async with gitops_rig(directory / "data", config, evaluate) as rig:
            await rig.add_source()
            await body(rig, WorkTree(directory / "work"))

    asyncio.run(run())


def lines(output: str) -> list[str]:
    return [
        line.removeprefix("remote: ").rstrip()
        for line in output.splitlines()
        if line.startswith("remote: ")
    ]


def test_push_deploys_and_shows_its_plan_and_rollout(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        commit = work.commit({"web.hcl": batch_job("web"), "d/b.hcl": batch_job("b")}, "Say hello")
        answer = await work.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        said = lines(answer.output)
        assert said[0] == f'Plan for {commit[:8]} "Say hello"'
        assert said[1:3] == ["  + b: place 0", "  + web: place 0"]
        assert re.fullmatch(r"Healthy after [0-9.]+ ?s.*", said[-1]), said[-1]
        job = rig.job("web")
        assert job is not None
        assert job.origin is not None
        origin = job.origin
        assert (origin.commit_id, origin.author, origin.subject) == (commit, "Ada", "Say hello")
        assert (origin.file, origin.line, origin.source) == ("web.hcl", 1, "demo")
        assert rig.source().status.applied_commit == commit
        (rollout,) = rig.rollouts()
        assert (rollout.status, rollout.trigger, rollout.commit.id) == ("healthy", "push", commit)

    with_rig(tmp_path, body)


def test_push_parses_and_updates_only_changed_files(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({f"j{n}.hcl": batch_job(f"j{n}") for n in range(12)})
        await work.push(rig.url("demo"))
        before = {n: rig.job(f"j{n}") for n in range(12)}
        rig.parser.parsed.clear()
        work.commit({"j3.hcl": batch_job("j3", text="new")})
        answer = await work.push(rig.url("demo"))
        assert "  = 11 unchanged" in lines(answer.output)
        assert rig.parser.parsed == ["j3.hcl"]
        changed = [n for n in range(12) if rig.job(f"j{n}") != before[n]]
        assert changed == [3]
        job = rig.job("j3")
        assert job is not None
        assert job.version == 1

    with_rig(tmp_path, body)


def test_push_with_problems_shows_them_all_and_changes_nothing(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        good = work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("demo"))
        bad = {
            "web.hcl": batch_job("web", text="new"),
            "x/a.hcl": batch_job("a").replace("count", "cuont"),
            "y.hcl": batch_job("y") + "}",
        }
        work.commit(bad, "Break it")
        answer = await work.push(rig.url("demo"))
        assert answer.returncode != 0
        said = lines(answer.output)
        assert any(line.startswith("x/a.hcl:4:") for line in said), answer.output
        assert any(line.startswith("y.hcl:") for line in said), answer.output
        assert "nothing was changed" in answer.output
        assert rig.source().status.applied_commit == good
        assert rig.job("a") is None
        refused, applied = rig.rollouts()
        assert (refused.status, refused.jobs) == ("failed", [])
        assert len(refused.problems) == len([line for line in said if ".hcl:" in line])
        assert applied.commit.id == good
        assert rig.gitops.mirrors.get("demo").open().resolve("refs/heads/main") == good
        assert (await work.push(rig.url("demo"))).returncode != 0

    with_rig(tmp_path, body)


def test_two_files_with_one_job_are_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"a.hcl": batch_job("web"), "b.hcl": batch_job("web")})
        answer = await work.push(rig.url("demo"))
        assert "b.hcl:1:1: job 'web' is also defined in a.hcl:1" in answer.output
        assert rig.job("web") is None

    with_rig(tmp_path, body)


def test_dry_run_shows_the_plan_and_refuses_the_ref(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        answer = await work.push(rig.url("demo"), "dry-run")
        assert answer.returncode != 0
        assert "  + web: place 0" in lines(answer.output)
        assert "dry run: nothing was changed" in answer.output
        assert rig.job("web") is None
        assert rig.rollouts() == []
        assert (await work.push(rig.url("demo"))).returncode == 0

    with_rig(tmp_path, body)


def test_detach_returns_while_the_rollout_goes_on(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        answer = await work.push(rig.url("demo"), "detach")
        assert answer.returncode == 0
        assert "continues in the background: orchgit rollout watch" in answer.output
        (rollout,) = rig.rollouts()
        assert not rollout.is_terminal
        rig.tasks.append(asyncio.create_task(rig.evaluate_everything()))
        await rig.until(lambda: rig.rollouts()[0].status == "healthy")

    with_rig(tmp_path, body, evaluate=False)


def test_job_of_a_removed_file_stops_after_other_jobs_run(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"a.hcl": batch_job("a"), "b.hcl": batch_job("b")})
        await work.push(rig.url("demo"))
        work.commit({"a.hcl": None, "c.hcl": batch_job("c")})
        answer = await work.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        assert lines(answer.output)[1:3] == ["  + c: place 0", "  - a: stop"]
        gone = rig.job("a")
        assert gone is not None
        assert gone.stop
        work.commit({"b.hcl": None, "c.hcl": None})
        answer = await work.push(rig.url("demo"))
        assert "an empty tree deletes nothing" in answer.output
        work.commit({}, "Really\n\nOrchgit-Delete: b\nOrchgit-Delete: c\n")
        assert (await work.push(rig.url("demo"))).returncode == 0

    with_rig(tmp_path, body)


def test_clone_and_fetch_return_branches_and_tags(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        commit = work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("demo"))
        assert (await work.push(rig.url("demo"), ref="HEAD:refs/heads/idea")).returncode == 0
        assert (await work.push(rig.url("demo"), ref="HEAD:refs/tags/v1")).returncode == 0
        clone = await work.run("clone", "--quiet", rig.url("demo"), str(tmp_path / "clone"))
        assert clone.returncode == 0, clone.output
        other = WorkTree(tmp_path / "clone")
        assert other.head() == commit
        refs = (await work.run("ls-remote", rig.url("demo"))).output
        assert {line.split("\t")[1] for line in refs.splitlines()} == {
            "HEAD",
            "refs/heads/idea",
            "refs/heads/main",
            "refs/tags/v1",
        }
        assert (await work.push(rig.url("demo"), ref=":refs/heads/idea")).returncode == 0
        refused = await work.push(rig.url("demo"), ref=":refs/heads/main")
        assert "source demo follows this branch" in refused.output
        hidden = await work.push(rig.url("demo"), ref="HEAD:refs/orchgit/applied")
        assert "only refs/heads/" in hidden.output
        assert len(rig.rollouts()) == 1

    with_rig(tmp_path, body)


def test_rewritten_history_is_refused_unless_allowed(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("demo"))
        applied = rig.source().status.applied_commit
        work.git("commit", "--amend", "--quiet", "--message", "Rewritten")
        forced = await work.push(rig.url("demo"), ref="+HEAD:refs/heads/main")
        assert f"does not descend from the applied commit {applied[:8]}" in forced.output
        await rig.add_source("demo", allow_rewind=True)
        assert (await work.push(rig.url("demo"), ref="+HEAD:refs/heads/main")).returncode == 0
        assert rig.source().status.applied_commit == work.head()

    with_rig(tmp_path, body)


def test_one_of_two_concurrent_pushes_is_applied(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        await work.push(rig.url("demo"))
        await work.run("clone", "--quiet", rig.url("demo"), str(tmp_path / "other"))
        other = WorkTree(tmp_path / "other")
        work.commit({"a.hcl": batch_job("a")})
        other.commit({"b.hcl": batch_job("b")})
        answers = await asyncio.gather(work.push(rig.url("demo")), other.push(rig.url("demo")))
        assert sorted(answer.returncode == 0 for answer in answers) == [False, True]
        assert [rig.job("a") is None, rig.job("b") is None].count(True) == 1

    with_rig(tmp_path, body)


def test_push_above_a_limit_names_the_limit(tmp_path: Path) -> None:
    limits = GitLimits(max_push_bytes=100_000, max_file_bytes=50_000)

    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web"), "noise.bin": os.urandom(200_000)}, "Too much")
        answer = await work.push(rig.url("demo"))
        assert answer.returncode != 0
        assert "max_push_bytes" in answer.output
        objects = rig.gitops.mirrors.get("demo").path / "objects"
        assert not list(objects.glob("tmp_objdir*"))
        work.git("checkout", "--quiet", "--orphan", "fresh")
        work.commit({"noise.bin": None, "web.hcl": "#" * 60_000 + "\n" + batch_job("web")}, "Long")
        answer = await work.push(rig.url("demo"))
        assert "web.hcl:1:1: cannot read web.hcl: it has" in answer.output
        assert "max_file_bytes is 50000" in answer.output
        assert rig.rollouts()[0].status == "failed"

    with_rig(tmp_path, body, GitopsConfig(limits=limits))


def test_hundred_megabyte_file_is_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"big.hcl": b"\x00" * 100_000_000, "web.hcl": batch_job("web")})
        answer = await work.push(rig.url("demo"))
        assert "big.hcl:1:1: cannot read big.hcl: it has 100000000 bytes" in answer.output
        assert rig.job("web") is None

    with_rig(tmp_path, body)


def test_links_and_submodules_are_not_followed(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"ok.hcl": batch_job("ok")})
        os.symlink("/etc/passwd", work.path / "web.hcl")
        head = work.head()
        work.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub.hcl")
        work.git("add", "web.hcl")
        work.git("commit", "--quiet", "--message", "Links")
        answer = await work.push(rig.url("demo"))
        assert "web.hcl:1:1: cannot read a symbolic link" in answer.output
        assert "root:" not in answer.output
        assert "sub.hcl" not in answer.output

    with_rig(tmp_path, body)


def test_malformed_object_is_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        tree = work.git("rev-parse", "HEAD^{tree}")
        raw = tmp_path / "commit"
        raw.write_text(f"tree {tree}\nauthor nobody\ncommitter nobody\n\nBad\n")
        bad = work.git("hash-object", "-t", "commit", "-w", "--literally", str(raw))
        answer = await work.push(rig.url("demo"), ref=f"{bad}:refs/heads/main")
        assert answer.returncode != 0
        assert "cannot receive this push" in answer.output
        assert rig.gitops.mirrors.get("demo").open().refs() == {}

    with_rig(tmp_path, body)


def test_malformed_push_requests_are_refused(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("mirror", kind="remote", url="file:///nowhere")
        async with httpx.AsyncClient(base_url=rig.http) as client:
            for path in ("/git/nope.git/info/refs", "/git/mirror.git/info/refs"):
                answer = await client.get(path, params={"service": "git-upload-pack"})
                assert answer.status_code == 404
            assert (await client.get("/git/demo.git/info/refs")).status_code == 403
            bad = [b"", b"zzzz", b"0003", b"ffff", b"0010not a push\n", b"0000"]
            codes = [
                (await client.post("/git/demo.git/git-receive-pack", content=body)).status_code
                for body in bad
            ]
            assert codes == [400, 400, 400, 400, 400, 200]
            command = b"0" * 40 + b" " + b"a" * 40 + b" refs/heads/main"
            broken = b"%04x" % (len(command) + 4 + 29) + command
            broken += b"\0report-status side-band-64k" + b"0000PACKgarbage"
            answer = await client.post("/git/demo.git/git-receive-pack", content=broken)
            assert answer.status_code == 400
        assert rig.rollouts() == []

    with_rig(tmp_path, body)


def test_paused_source_accepts_a_push_and_applies_it_when_resumed(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("demo", paused=True)
        work.commit({"web.hcl": batch_job("web")})
        answer = await work.push(rig.url("demo"))
        assert "is paused" in answer.output
        assert rig.job("web") is None
        await rig.add_source("demo", paused=False)
        await rig.until(lambda: rig.job("web") is not None)

    with_rig(tmp_path, body)


def test_crash_between_log_entry_and_ref_update_is_repaired(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            first = work.commit({"web.hcl": batch_job("web")})
            await work.push(rig.url("demo"))
            second = work.commit({"web.hcl": batch_job("web", text="two")})
            await work.push(rig.url("demo"))
            rig.gitops.mirrors.get("demo").open().set_ref("refs/heads/main", first)
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.gitops.sync("demo")
            mirror = rig.gitops.mirrors.get("demo")
            assert mirror.open().resolve("refs/heads/main") == second
            assert rig.source().status.applied_commit == second
            assert len(rig.rollouts()) == 2

    asyncio.run(run())


def test_local_refs_missing_in_the_log_are_added_to_it(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            commit = work.commit({"web.hcl": batch_job("web")})
            await work.push(rig.url("demo"))
            await work.push(rig.url("demo"), ref="HEAD:refs/heads/side")
            known = rig.gitops.synchronizer.refs("demo")
            moves = [RefMove(name, each, "") for name, each in known.items()]
            await rig.gitops.close()
            await rig.state.propose(MoveRefs(source="demo", moves=moves))
        async with gitops_rig(tmp_path / "data") as rig:
            assert rig.gitops.synchronizer.refs("demo") == {}
            await rig.gitops.sync("demo")
            assert rig.gitops.synchronizer.refs("demo") == known
            assert rig.source().status.applied_commit == commit
            listed = await work.run("ls-remote", rig.url("demo"))
            assert "refs/heads/side" in listed.output

    asyncio.run(run())


def test_history_lost_by_every_server_can_be_pushed_again(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.add_source()
            work.commit({"web.hcl": batch_job("web")})
            await work.push(rig.url("demo"))
        shutil.rmtree(tmp_path / "data" / "git")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.gitops.sync("demo")
            assert "lacks commit" in rig.source().status.last_error
            assert rig.job("web") is not None
            stranger = WorkTree(tmp_path / "stranger")
            stranger.commit({"web.hcl": batch_job("web", text="else")})
            refused = await stranger.push(rig.url("demo"))
            assert "does not descend from the applied commit" in refused.output
            again = await work.run("push", "--mirror", rig.url("demo"))
            assert again.returncode == 0, again.output
            commit = work.commit({"web.hcl": batch_job("web", text="two")})
            answer = await work.push(rig.url("demo"))
            assert answer.returncode == 0, answer.output
            assert rig.source().status.applied_commit == commit
            cloned = await work.run("clone", "-q", rig.url("demo"), str(tmp_path / "clone"))
            assert cloned.returncode == 0, cloned.output
            assert rig.source().status.last_error == ""

    asyncio.run(run())


def test_many_refs_move_in_one_push(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        work.git("branch", "side")
        work.git("branch", "prod/eu")
        answer = await work.run("push", rig.url("demo"), "main", "side", "prod/eu")
        assert answer.returncode == 0, answer.output
        refused = await work.run("push", rig.url("demo"), "main:prod", ":side", "main:new")
        assert "! [remote rejected] main -> prod (ref refs/heads/prod/eu exists" in refused.output
        assert "[new branch]      main -> new" in refused.output
        swapped = await work.run("push", rig.url("demo"), ":prod/eu", "main:prod")
        assert "[new branch]      main -> prod" in swapped.output, swapped.output
        assert list(rig.gitops.synchronizer.refs("demo")) == [
            "refs/heads/main",
            "refs/heads/new",
            "refs/heads/prod",
        ]
        listed = await work.run("ls-remote", "--heads", rig.url("demo"))
        assert [line.split()[1] for line in listed.output.splitlines()] == list(
            rig.gitops.synchronizer.refs("demo")
        )

    with_rig(tmp_path, body)


def test_interrupted_rollout_continues_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        work = WorkTree(tmp_path / "work")
        async with gitops_rig(tmp_path / "data", evaluate=False) as rig:
            await rig.add_source()
            work.commit({"web.hcl": batch_job("web")})
            await work.push(rig.url("demo"), "detach")
        async with gitops_rig(tmp_path / "data") as rig:
            await rig.until(lambda: rig.rollouts()[0].status == "healthy")
            assert rig.parser.parsed == []

    asyncio.run(run())


def test_job_changed_by_hand_is_shown_and_updated_by_the_next_push(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        files = {"web.hcl": batch_job("web"), "b.hcl": batch_job("b")}
        work.commit(dict(files))
        await work.push(rig.url("demo"))
        tree = {name: text.encode() for name, text in files.items()}
        assert not (await rig.gitops.preview_files("demo", tree)).jobs
        job = rig.job("web")
        assert job is not None
        other = msgspec.structs.replace(job, priority=80)
        await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(other)))
        (drifted,) = (await rig.gitops.preview_files("demo", tree)).jobs
        assert (drifted.job_id, drifted.action) == ("web", "update")
        work.commit({"c.hcl": batch_job("c")})
        answer = await work.push(rig.url("demo"))
        shown = lines(answer.output)
        assert "  ~ web: update 0 (not changed by this commit: changed by hand)" in shown
        assert "      overwrites version 1, changed by hand: Priority" in shown
        assert {each.job_id: each.cause for each in rig.rollouts()[0].jobs} == {
            "c": "commit",
            "web": "drift",
        }
        job = rig.job("web")
        assert job is not None
        assert job.priority == 50

    with_rig(tmp_path, body)


def test_policy_below_the_root_is_warned_of(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        text = "gate {\n  approvals = 2\n}\n"
        work.commit({"web.hcl": batch_job("web"), "team/orchgit.hcl": text})
        answer = await work.push(rig.url("demo"))
        assert (
            "  warning: team/orchgit.hcl:1:1: this orchgit.hcl has no effect: only the one at the "
            "repository's root has"
        ) in lines(answer.output)
        assert rig.job("web") is not None

    with_rig(tmp_path, body)


def test_job_registered_by_hand_is_adopted_unchanged(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("other")
        work.commit({"web.hcl": batch_job("web"), "keep.hcl": batch_job("keep")})
        await work.push(rig.url("other"))
        job = rig.job("web")
        assert job is not None
        by_hand = msgspec.structs.replace(job, origin=None, priority=50, meta={"a": "b"})
        await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(by_hand)))
        by_hand = msgspec.structs.replace(by_hand, meta=None)
        await rig.state.propose(RegisterJob(now_ns=1, upsert=JobUpsert(by_hand)))
        version = getattr(rig.job("web"), "version", None)
        mine = WorkTree(tmp_path / "mine")
        mine.commit({"web.hcl": batch_job("web"), "b.hcl": batch_job("b")})
        answer = await mine.push(rig.url("demo"))
        assert answer.returncode == 0, answer.output
        job = rig.job("web")
        assert job is not None
        assert (job.version, job.origin and job.origin.source) == (version, "demo")
        assert job.origin is not None
        mine.commit({"web.hcl": None})
        assert "  - web: stop" in lines((await mine.push(rig.url("demo"))).output)

    with_rig(tmp_path, body)


def test_followed_push_ends_when_the_server_stops_following(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"web.hcl": batch_job("web")})
        pushing = asyncio.create_task(work.push(rig.url("demo")))
        await rig.until(lambda: bool(rig.rollouts()))
        await rig.gitops.stop()
        answer = await pushing
        assert answer.returncode == 0, answer.output
        assert "stopped following" in answer.output
        assert rig.source().status.applied_commit == work.head()

    with_rig(tmp_path, body, evaluate=False)


def test_revert_restores_the_previous_commit_in_git_and_cluster(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        first = work.commit({"web.hcl": batch_job("web", text="one")}, "One")
        await work.push(rig.url("demo"))
        bad = work.commit({"web.hcl": batch_job("web", text="two"), "x.hcl": batch_job("x")}, "Two")
        await work.push(rig.url("demo"))
        rollout = await rig.gitops.revert(rig.rollouts()[0].id)
        assert rollout.reverts == rig.rollouts()[1].id
        await rig.until(lambda: rig.rollouts()[0].is_terminal)
        assert [each.status for each in rig.rollouts()] == ["healthy", "reverted", "healthy"]
        job, extra = rig.job("web"), rig.job("x")
        assert job is not None
        assert "one" in str(job.task_groups[0].tasks[0].config)
        assert extra is not None
        assert extra.stop
        assert rig.source().status.quarantined == [bad]
        pulled = await work.run("pull", "--quiet", "--ff-only", rig.url("demo"), "main")
        assert pulled.returncode == 0, pulled.output
        assert work.git("log", "-1", "--format=%s") == 'Revert "Two"'
        assert work.git("rev-parse", "HEAD^{tree}") == work.git("rev-parse", f"{first}^{{tree}}")
        work.commit({"web.hcl": batch_job("web", text="three")}, "Three")
        assert (await work.push(rig.url("demo"))).returncode == 0

    with_rig(tmp_path, body)


def test_many_pushes_are_repacked(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        for number in range(2 * WRITES_BETWEEN):
            work.commit({"web.hcl": batch_job("web", text=str(number))})
            answer = await work.push(rig.url("demo"), "detach")
            assert answer.returncode == 0, answer.output
        mirror = rig.gitops.mirrors.get("demo")
        await Maintenance(GitProcess(tmp_path / "data" / "git", GitLimits()), SystemClock()).pack(
            mirror
        )
        assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) <= WRITES_BETWEEN
        work.commit({"web.hcl": batch_job("web", text="after")})
        assert (await work.push(rig.url("demo"))).returncode == 0

    with_rig(tmp_path, body)


def test_demo_repository_is_seeded_once(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        files = {"hello.nomad.hcl": batch_job("hello").encode()}
        assert await rig.gitops.seed("demo", files, "Examples") is not None
        assert await rig.gitops.seed("demo", files, "Examples") is None
        assert rig.job("hello") is not None
        await work.run("clone", "--quiet", rig.url("demo"), str(tmp_path / "clone"))
        assert (tmp_path / "clone" / "hello.nomad.hcl").exists()

    with_rig(tmp_path, body)


def test_repository_of_a_source_that_follows_versions_is_not_seeded(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.add_source("released", ref="semver:>=1.0")
        with pytest.raises(InvalidInputError, match=r"follows 'semver:>=1\.0'.*follow a branch"):
            await rig.gitops.seed("released", {"hello.nomad.hcl": b""}, "Examples")

    with_rig(tmp_path, body)


def test_push_counts_as_the_last_check_of_its_source(tmp_path: Path) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        await rig.gitops.sync("demo")
        before_ns = rig.context.now_ns()
        work.commit({"web.hcl": batch_job("web")})
        assert (await work.push(rig.url("demo"), "detach")).returncode == 0
        with rig.context.snapshot() as snapshot:
            check = rig.gitops.statuses.report(snapshot, rig.source()).check
        assert min(check.last_check_ns, check.last_success_ns) > before_ns

    with_rig(tmp_path, body)


@pytest.mark.parametrize("base", [False, True])
def test_preview_shows_the_changes_of_unpushed_files(tmp_path: Path, base: bool) -> None:
    async def body(rig: GitopsRig, work: WorkTree) -> None:
        work.commit({"a.hcl": batch_job("a"), "b.hcl": batch_job("b")})
        await work.push(rig.url("demo"))
        old = {"a.hcl": batch_job("a").encode(), "b.hcl": batch_job("b").encode()}
        new = {"a.hcl": batch_job("a", text="x").encode(), "c.hcl": batch_job("c").encode()}
        preview = await rig.gitops.preview_files("demo", new, old if base else None)
        assert {job.job_id: job.action for job in preview.jobs} == {
            "a": "update",
            "b": "delete",
            "c": "create",
        }
        by_id = {job.job_id: job for job in preview.jobs}
        assert by_id["a"].diff is not None
        assert by_id["a"].diff.type == "Edited"
        assert not preview.problems
        same = await rig.gitops.preview_files("demo", old, old if base else None)
        assert not same.jobs
        assert same.unchanged == 2
        broken = await rig.gitops.preview_files("demo", {"a.hcl": b"job {"})
        assert broken.problems

    with_rig(tmp_path, body)
