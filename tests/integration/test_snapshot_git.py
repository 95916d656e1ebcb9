"""A backup with its git repositories: a new cluster shows, compares and goes back, with nothing
left of the old one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from tests.support.git_repos import WorkTree, batch_job
from tests.support.polling import until_blocking
from tests.support.server_cluster import MemberServer, ServerCluster, server_cluster

PATH = "/v1/operator/snapshot"


@dataclass(frozen=True)
class Saved:
    """Of a cluster that is no more: two commits were pushed and applied, another branch, a tag."""

    file: Path
    without_git: bytes
    first: str
    second: str
    other: str
    work: WorkTree


def command(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["operator", "snapshot", *words])
    assert done.exit_code == code, f"{done.output} {done.exception!r}"
    return done.output + str(done.exception or "")


def push(work: WorkTree, member: MemberServer, ref: str = "HEAD:refs/heads/main") -> None:
    answer = asyncio.run(work.push(f"{member.url}/git/demo.git", "detach", ref=ref))
    assert answer.returncode == 0, answer.output


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    directory = tmp_path_factory.mktemp("old")
    with server_cluster(directory / "cluster", 1) as cluster:
        (server,) = cluster.members
        server.put("/v1/gitops/source/demo", {"Name": "demo"})
        work = WorkTree(directory / "work")
        first = work.commit({"a.hcl": batch_job("a")}, "One")
        push(work, server)
        second = work.commit({"a.hcl": batch_job("a", text="two")}, "Two")
        push(work, server)
        work.git("tag", "-a", "v2", "-m", "Two")
        push(work, server, "v2")
        other = work.commit({"README": "not applied"}, "Other")
        push(work, server, "HEAD:refs/heads/other")
        work.git("reset", "--quiet", "--hard", second)
        file = directory / "with.snap"
        command("save", "-address", server.url, str(file))
        return Saved(file, server.http.get(PATH).content, first, second, other, work)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServerCluster]:
    with server_cluster(tmp_path / "new") as found:
        yield found


def restore(member: MemberServer, content: bytes) -> None:
    """Forced, as it has another key file."""
    answer = member.http.put(f"{PATH}?force", content=content)
    assert answer.status_code == 200, answer.text


def names(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return tar.getnames()


def test_restored_cluster_has_the_repositories_on_every_server(
    saved: Saved, cluster: ServerCluster, tmp_path: Path
) -> None:
    restore(cluster.followers()[0], saved.file.read_bytes())
    leader = cluster.leader()
    for member in cluster.members:
        mirror = member.directory / "git" / "demo.git"
        until_blocking(lambda mirror=mirror: (mirror / "refs" / "heads" / "main").exists() or None)
        clone = WorkTree(tmp_path / f"clone-{member.number}")
        clone.git("pull", "--quiet", "--tags", f"{member.url}/git/demo.git", "main")
        assert clone.head() == clone.git("rev-parse", "v2^{commit}") == saved.second
        listed = clone.git("ls-remote", f"{member.url}/git/demo.git", "refs/heads/other")
        assert listed.split()[0] == saved.other
        objects = clone.git(f"--git-dir={mirror}", "cat-file", "-t", saved.other)
        assert objects == "commit"

    text = base64.b64encode(batch_job("a", text="new").encode()).decode()
    files = [{"Path": "a.hcl", "Content": text}]
    planned = leader.put("/v1/gitops/source/demo/plan", {"Files": files})
    assert [(job["JobID"], job["Action"]) for job in planned["Jobs"]] == [("a", "update")]
    rollouts: list[dict[str, Any]] = leader.get("/v1/gitops/rollouts", source="demo")
    newest = max(rollouts, key=lambda rollout: rollout["CreateIndex"])
    assert newest["Commit"]["ID"] == saved.second
    leader.put(f"/v1/gitops/rollout/{newest['ID']}/revert")
    clone.git("pull", "--quiet", f"{leader.url}/git/demo.git", "main")
    tree = saved.work.git("rev-parse", f"{saved.first}^{{tree}}")
    assert clone.git("rev-parse", "HEAD^{tree}") == tree


def test_repositories_of_a_backup_are_listed_and_may_be_left_out(saved: Saved) -> None:
    content = saved.file.read_bytes()
    assert "git/demo.pack" in names(content)
    assert names(saved.without_git) == ["meta.json", "state.bin", "SHA256SUMS"], "for Nomad's tools"
    shown = command("inspect", str(saved.file))
    assert "Repositories" in shown
    assert "demo" in shown
    assert '"GitSize": 0' not in command("inspect", "-json", str(saved.file))


def test_command_line_saves_a_backup_without_repositories(
    cluster: ServerCluster, tmp_path: Path
) -> None:
    leader = cluster.leader()
    leader.put("/v1/gitops/source/demo", {"Name": "demo"})
    work = WorkTree(tmp_path / "work")
    work.commit({"a.hcl": batch_job("a")}, "One")
    push(work, leader)
    for words, has_git in (([], True), (["-no-git"], False)):
        file = tmp_path / f"{has_git}.snap"
        command("save", "-address", cluster.followers()[0].url, *words, str(file))
        assert ("git/demo.pack" in names(file.read_bytes())) is has_git


def test_damaged_or_incomplete_pack_changes_nothing(saved: Saved, cluster: ServerCluster) -> None:
    leader = cluster.leader()
    content = saved.file.read_bytes()
    damaged = repacked(content, lambda pack: pack[:-30] + bytes(30), right_sums=False)
    answer = leader.http.put(f"{PATH}?force", content=damaged)
    assert answer.status_code == 400
    assert "the checksum of git/demo.pack does not match" in answer.text
    broken = repacked(content, lambda pack: pack[:-30] + bytes(30))
    answer = leader.http.put(f"{PATH}?force", content=broken)
    assert answer.status_code == 400
    assert "cannot receive the git objects of 'demo' in the snapshot" in answer.text
    assert leader.http.get("/v1/gitops/source/demo").status_code == 404
    assert leader.http.get("/v1/job/a").status_code == 404


def repacked(content: bytes, change: Any, right_sums: bool = True) -> bytes:
    """With another pack, and checksums to match."""
    parts: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            parts[member.name] = file.read()
    parts["git/demo.pack"] = change(parts["git/demo.pack"])
    sums = parts.pop("SHA256SUMS")
    if right_sums:
        lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in parts.items()]
        sums = "".join(lines).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in {**parts, "SHA256SUMS": sums}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()
