"""A cluster's state is saved, and restored onto another one, which goes on with it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from orchgit.clock import SystemClock
from orchgit.errors import OrchgitError, RefusedError
from orchgit.ids import RandomIds
from orchgit.model.node import Namespace
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.servers import PutServer
from orchgit.replication.commands.settings import UpsertNamespaces
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.replication.versions import COMMAND_VERSION
from orchgit.services.cluster.snapshots import restore_snapshot, save_snapshot
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from tests.support.polling import until, until_blocking
from tests.support.ports import free_addresses
from tests.support.server_rig import ServerRig, server_rig
from tests.support.state import check_invariants
from tests.unit.replication.test_determinism import dump

PATH = "/v1/operator/snapshot"


def sleeping_job(job_id: str) -> dict[str, object]:
    task = {"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep", "args": ["99"]}}
    group = {"Name": "g", "Count": 1, "Tasks": [{**task, "Resources": {"CPU": 1, "MemoryMB": 10}}]}
    return {"ID": job_id, "Name": job_id, "Type": "service", "TaskGroups": [group]}


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "cluster.key"
    path.write_bytes(base64.b64encode(os.urandom(32)))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> httpx.Response:
    """A snapshot of a cluster that ran a job on a node of its own."""
    with server_rig(tmp_path_factory.mktemp("old"), cluster_key_file=key_file) as rig:
        rig.wait_ready_node()
        rig.register(sleeping_job("web"))
        rig.wait_for("/v1/job/web/allocations", lambda found: _runs(found))
        for number in range(100):
            rig.http.put("/v1/namespace/old", json={"Name": "old", "Description": str(number)})
        rig.http.put("/v1/var/app/db", json={"Items": {"password": "s3cret"}})
        answer = rig.http.get(PATH)
        assert answer.status_code == 200, answer.text
        return answer


def _runs(found: list[dict[str, object]]) -> bool:
    return any(each["ClientStatus"] == "running" for each in found)


@pytest.fixture
def fresh(tmp_path: Path, key_file: Path) -> Iterator[ServerRig]:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0, cluster_key_file=key_file) as rig:
        yield rig


def test_saved_snapshot_has_the_digest_that_nomads_client_checks(saved: httpx.Response) -> None:
    digest = base64.b64encode(hashlib.sha256(saved.content).digest()).decode()
    assert saved.headers["digest"] == f"sha-256={digest}"
    assert saved.headers["content-type"] == "application/x-gzip"
    assert int(saved.headers["x-nomad-index"]) > 100
    assert saved.headers["x-nomad-knownleader"] == "true"


def test_new_cluster_continues_with_the_restored_state(
    tmp_path: Path, key_file: Path, saved: httpx.Response
) -> None:
    """Its own agent registers again and gets work; what waits for a change is woken. (The node of
    the snapshot counts as ready until it has missed its heartbeats.)"""
    with server_rig(tmp_path, cluster_key_file=key_file) as rig:
        own_node = rig.wait_ready_node()
        rig.http.put("/v1/namespace/mine", json={"Name": "mine"})
        waiting: list[httpx.Response] = []
        index = rig.http.get("/v1/namespaces").headers["x-nomad-index"]
        query = {"index": index, "wait": "20s"}
        waiter = threading.Thread(
            target=lambda: waiting.append(rig.http.get("/v1/namespaces", params=query))
        )
        waiter.start()
        answer = rig.http.put(PATH, content=saved.content)
        assert answer.status_code == 200, answer.text
        waiter.join(10)
        assert {one["Name"] for one in waiting[0].json()} == {"default", "old"}
        assert int(waiting[0].headers["x-nomad-index"]) > int(saved.headers["x-nomad-index"])
        items = rig.http.get("/v1/var/app/db").json()["Items"]
        assert items == {"password": "s3cret"}
        rig.wait_for(
            "/v1/nodes",
            lambda found: (own_node, "ready") in {(one["ID"], one["Status"]) for one in found},
        )
        there = {"LTarget": "${node.unique.id}", "Operand": "=", "RTarget": own_node}
        rig.register({**sleeping_job("later"), "Constraints": [there]})
        rig.wait_for("/v1/job/later/allocations", _runs)
        later = rig.http.get("/v1/job/later").json()
        assert later["ModifyIndex"] > int(saved.headers["x-nomad-index"])


def test_pending_evaluations_of_a_restored_snapshot_are_processed(
    tmp_path: Path, key_file: Path
) -> None:
    """The leader's queues are filled anew: nothing else tells them of restored evaluations."""
    settings = {"num_schedulers": 0, "cluster_key_file": key_file}
    with server_rig(tmp_path / "old", with_agent=False, **settings) as old:
        old.register(sleeping_job("waiting"))
        waiting = old.http.get(PATH).content
    with server_rig(tmp_path / "new", cluster_key_file=key_file) as rig:
        rig.wait_ready_node()
        assert rig.http.put(PATH, content=waiting).status_code == 200
        rig.wait_for("/v1/job/waiting/allocations", _runs)


def test_restored_state_survives_a_restart(
    tmp_path: Path, key_file: Path, saved: httpx.Response
) -> None:
    settings = {"with_agent": False, "num_schedulers": 0, "cluster_key_file": key_file}
    with server_rig(tmp_path, **settings) as rig:
        assert rig.http.put(PATH, content=saved.content).status_code == 200
        before = rig.run(_dumped(rig))
    with server_rig(tmp_path, **settings) as rig:
        after = rig.run(_dumped(rig))
        assert rig.http.get("/v1/var/app/db").json()["Items"] == {"password": "s3cret"}
    assert {name: after[name] for name in before if name not in ("meta", "servers")} == {
        name: before[name] for name in before if name not in ("meta", "servers")
    }


async def _dumped(rig: ServerRig) -> dict[str, list[tuple[object, ...]]]:
    rows = dump(rig.server.state.store)
    rows["table_indexes"] = [row for row in rows["table_indexes"] if row[0] != "servers"]
    return rows


def test_damaged_snapshot_is_refused_and_changes_nothing(
    fresh: ServerRig, saved: httpx.Response
) -> None:
    fresh.http.put("/v1/namespace/mine", json={"Name": "mine"})
    for data, status, words in (
        (b"", 500, "failed to decompress snapshot"),
        (b"rubbish", 500, "failed to decompress snapshot"),
        (saved.content[:-100], 400, "damaged or no snapshot"),
        (saved.content[:5000], 400, "damaged or no snapshot"),
    ):
        answer = fresh.http.put(PATH, content=data)
        assert answer.status_code == status
        assert words in answer.text
    assert {one["Name"] for one in fresh.http.get("/v1/namespaces").json()} == {"default", "mine"}
    directory = fresh.server.state.store.path.parent
    assert not [path.name for path in directory.iterdir() if "operator" in path.name]


def test_snapshot_of_another_cluster_key_is_refused_unless_forced(
    tmp_path: Path, saved: httpx.Response
) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        answer = rig.http.put(PATH, content=saved.content)
        assert answer.status_code == 500
        assert "server.cluster_key_file" in answer.text
        assert "-force" in answer.text
        assert rig.http.put(f"{PATH}?force", content=saved.content).status_code == 200
        assert rig.http.get("/v1/namespace/old").status_code == 200
        assert rig.http.get("/v1/var/app/db").status_code == 503
        assert rig.http.put("/v1/operator/keyring/rotate").status_code == 200
        assert rig.http.put("/v1/var/new", json={"Items": {"a": "b"}}).status_code == 200


def test_redacted_snapshot_is_refused_and_tokens_stay(fresh: ServerRig, tmp_path: Path) -> None:
    file = tmp_path / "redacted.snap"
    address = str(fresh.http.base_url)
    words = ["operator", "snapshot", "save", "-redact", "-address", address, str(file)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    # A new leader makes the first key after it began to answer.
    keys = until_blocking(lambda: fresh.http.get("/v1/operator/keyring/keys").json())
    for query in ("", "?force"):
        answer = fresh.http.put(f"{PATH}{query}", content=file.read_bytes())
        assert answer.status_code == 500
        assert "cannot restore a redacted snapshot" in answer.text
    assert fresh.http.get("/v1/operator/keyring/keys").json() == keys


def test_command_line_saves_inspects_and_restores_a_snapshot(
    fresh: ServerRig, saved: httpx.Response, tmp_path: Path
) -> None:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(cli, ["operator", "snapshot", *words])
        assert done.exit_code == code, f"{done.output} {done.exception!r}"
        return done.output + str(done.exception or "")

    at = ("-address", str(fresh.http.base_url))
    file, own = tmp_path / "old.snap", tmp_path / "own.snap"
    file.write_bytes(saved.content)
    assert "State file written to" in run("save", *at, str(own))
    assert own.stat().st_mode & 0o777 == 0o600
    assert "it is there already" in run("save", *at, str(own), code=1)
    assert "Build " in run("inspect", str(own))
    assert '"jobs": 1' in run("inspect", "-json", str(file))
    assert "Aborted" in run("restore", *at, str(file), code=1)
    assert "Snapshot restored" in run("restore", *at, "-yes", str(file))
    assert fresh.http.get("/v1/job/web").status_code == 200
    assert "Snapshot restored" in run("restore", *at, "-yes", str(own))
    assert fresh.http.get("/v1/job/web").status_code == 404
    file.write_bytes(saved.content[:-1])
    assert "damaged" in run("inspect", str(file), code=1)
    assert "damaged" in run("restore", *at, "-yes", str(file), code=1)
    assert sorted(path.name for path in tmp_path.glob("*.snap*")) == ["old.snap", "own.snap"]


# -- several servers -----------------------------------------------------------------------------


class Members:
    """Three servers' states in this process, over loop-back."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.names = free_addresses(3)
        self.states: dict[str, ReplicatedState] = {}

    async def start(self, name: str) -> None:
        config = ReplicationConfig(
            self._directory / name.rpartition(":")[2],
            *(name, name, tuple(one for one in self.names if one != name)),
            snapshot_log_bytes=64 << 10,
            segment_bytes=16 << 10,
        )
        state = ReplicatedState(config, SystemClock(), RandomIds())
        await state.start()
        self.states[name] = state

    async def tell_versions(self) -> None:
        """As whole servers do: before that, nobody knows that all understand a restore."""
        leader = await self.leader()
        for name in self.names:
            record = ServerRecord(name, id=name, command_version=COMMAND_VERSION)
            await leader.propose(PutServer(server=record))

    async def stop(self, name: str) -> None:
        await self.states.pop(name).stop()

    async def leader(self) -> UseCaseContext:
        async def found() -> ReplicatedState | None:
            return next((one for one in self.states.values() if one.cluster.is_leader), None)

        return UseCaseContext(await until(found), SystemClock(), RandomIds())

    async def equal(self) -> None:
        """All have applied the same, byte for byte."""

        async def same() -> bool:
            indexes = {one.store.watch.applied_index for one in self.states.values()}
            return len(indexes) == 1

        await (await self.leader()).state.writer.barrier()
        await until(same)
        one, *others = (dump(state.store) for state in self.states.values())
        assert all(one == other for other in others)
        for state in self.states.values():
            with state.store.snapshot() as snapshot:
                check_invariants(snapshot)

    async def close(self) -> None:
        for name in list(self.states):
            await self.stop(name)


@asynccontextmanager
async def three_members(directory: Path) -> AsyncIterator[Members]:
    members = Members(directory)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(members.close)
        for name in members.names:
            await members.start(name)
        await members.tell_versions()
        yield members


async def restore(context: UseCaseContext, archive: bytes) -> int:
    keyring = Keyring(context, bytes(32))
    return (await restore_snapshot(context, keyring, io.BytesIO(archive), force=True)).index


def test_every_server_has_the_same_state_after_a_restore(
    tmp_path: Path, saved: httpx.Response
) -> None:
    """Those that were away too: one gets the entries later, one a snapshot of the state."""

    async def scenario() -> None:
        async with three_members(tmp_path) as members:
            leader = await members.leader()
            away = next(one for one, state in members.states.items() if not state.cluster.is_leader)
            await members.stop(away)
            index = await restore(leader, saved.content)
            assert index > int(saved.headers["x-nomad-index"])
            await members.start(away)
            await members.equal()
            await members.stop(away)
            for number in range(60):
                big = Namespace(f"ns-{number}", "x" * 4000)
                await leader.propose(UpsertNamespaces(namespaces=[big]))
            await members.start(away)
            await members.equal()
            for name in members.names:
                await members.stop(name)
            for name in members.names:
                await members.start(name)
            await members.equal()
            again = await (await members.leader()).state.writer.barrier()
            assert again > index

    asyncio.run(scenario())


def test_follower_saves_only_stale_snapshots_and_restores_none(
    tmp_path: Path, saved: httpx.Response
) -> None:
    async def scenario() -> None:
        async with three_members(tmp_path) as members:
            leader = await members.leader()
            await members.equal()
            state = next(one for one in members.states.values() if not one.cluster.is_leader)
            follower = UseCaseContext(state, SystemClock(), RandomIds())
            with pytest.raises(OrchgitError, match="is not the leader"):
                await save_snapshot(follower, "global")
            stale = await save_snapshot(follower, "global", stale=True)
            assert stale.meta.index <= leader.state.store.watch.applied_index
            stale.file.close()
            with pytest.raises(OrchgitError, match="is not the leader"):
                await restore(follower, saved.content)

    asyncio.run(scenario())


def test_concurrent_restores_leave_one_restored_state_on_all_members(
    tmp_path: Path, saved: httpx.Response
) -> None:
    async def scenario() -> None:
        async with three_members(tmp_path) as members:
            leader = await members.leader()
            archive = io.BytesIO(saved.content)
            first, second = await asyncio.gather(
                restore(leader, archive.getvalue()),
                restore(leader, archive.getvalue()),
                return_exceptions=True,
            )
            done = [one for one in (first, second) if isinstance(one, int)]
            assert len(done) >= 1, (first, second)
            await members.equal()
            with leader.snapshot() as snapshot:
                assert snapshot.meta.restore_in_progress() is None
                assert snapshot.jobs.get("default", "web") is not None

    asyncio.run(scenario())


def test_unreadable_root_key_is_refused_before_any_write(
    tmp_path: Path, saved: httpx.Response
) -> None:
    async def scenario() -> None:
        async with three_members(tmp_path) as members:
            leader = await members.leader()
            before = await leader.state.writer.barrier()
            with pytest.raises(RefusedError, match="root key"):
                await restore_snapshot(
                    leader, Keyring(leader, bytes(32)), io.BytesIO(saved.content)
                )
            assert await leader.state.writer.barrier() == before + 1

    asyncio.run(scenario())


def test_restore_that_an_older_member_cannot_apply_is_refused(
    tmp_path: Path, saved: httpx.Response
) -> None:
    async def scenario() -> None:
        async with three_members(tmp_path) as members:
            leader = await members.leader()
            old = next(one for one, state in members.states.items() if not state.cluster.is_leader)
            record = ServerRecord(old, id=old, name="old", build="0.0.9", command_version=1)
            await leader.propose(PutServer(server=record))
            with pytest.raises(RefusedError, match=f"server old .{old}, orchgit 0.0.9. would not"):
                await restore(leader, saved.content)
            await leader.propose(UpsertNamespaces(namespaces=[Namespace("goes-on")]))
            upgraded = ServerRecord(old, id=old, name="old", command_version=COMMAND_VERSION)
            await leader.propose(PutServer(server=upgraded))
            await restore(leader, saved.content)
            await members.equal()

    asyncio.run(scenario())
