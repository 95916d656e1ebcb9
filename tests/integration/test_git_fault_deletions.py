"""Whatever a git server answers, no job is deleted: faults made by chance before a commit that
deletes nearly everything."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.limits import GitLimits
from tests.support.git_repos import WorkTree, batch_job
from tests.support.git_servers import LOGIN_PAGE, GitHttpServer
from tests.support.gitops_rig import GitopsRig, gitops_rig

FAULTS = 25
LIMITS = GitLimits(list_timeout_s=60.0, fetch_timeout_s=60.0, silence_timeout_s=10.0)
NAMES = ("a", "b", "c")


def break_by_chance(server: GitHttpServer, chance: random.Random) -> str:
    """Breaks the server in one way; returns which."""
    kind = chance.choice(["status", "cut", "page", "redirect", "empty", "login", "root"])
    match kind:
        case "status":
            server.status = chance.choice([400, 401, 403, 404, 410, 418, 429, 500, 502, 503, 504])
        case "cut":
            server.cut_after = chance.randint(1, 600)
        case "page":
            server.page = chance.choice(
                [LOGIN_PAGE, b"", b"0000", b"001e# service=git-upload-pack"]
            )
        case "redirect":
            server.redirect = "http://127.0.0.1:1"
        case "empty":
            server.empty = True
        case "login":
            server.login = ("ada", "secret")
        case "root":
            server.root = server.root / "gone"
    return kind


def registered(rig: GitopsRig) -> dict[str, tuple[int, bool]]:
    found = {name: rig.job(name) for name in NAMES}
    return {name: (job.job_modify_index, job.stop) for name, job in found.items() if job}


def test_no_fault_of_a_git_server_deletes_or_changes_a_job(tmp_path: Path) -> None:
    async def run() -> None:
        root, chance = tmp_path / "repos", random.Random(20_260_101)
        work = WorkTree(root / "jobs.git")
        work.commit({f"{name}.hcl": batch_job(name) for name in NAMES})
        config = GitopsConfig(limits=LIMITS)
        async with GitHttpServer(root).running() as server:
            async with gitops_rig(tmp_path / "data", config) as rig:
                url = server.url("jobs.git/.git")
                hour_ns = 3_600_000_000_000
                await rig.add_source("demo", kind="remote", url=url, poll_interval_ns=hour_ns)
                await rig.gitops.sync("demo")
                before = registered(rig)
                assert len(before) == len(NAMES)
                gone = {"b.hcl": None, "c.hcl": None}
                newest = work.commit(gone, "Fewer\n\nOrchgit-Delete: b, c")
                for _ in range(FAULTS):
                    kind = break_by_chance(server, chance)
                    await rig.gitops.sync("demo")
                    assert rig.source().status.last_error.startswith("cannot "), kind
                    assert registered(rig) == before, kind
                    server.mend()
                    server.root = root
                await rig.gitops.sync("demo")
                assert rig.source().status.applied_commit == newest
                assert [name for name, (_, stop) in registered(rig).items() if stop] == ["b", "c"]

    asyncio.run(run())
