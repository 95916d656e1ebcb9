"""Three whole servers as processes on loop-back, to be killed, stopped and started again."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from orchgit.services.secrets.sealing import new_key
from tests.support.polling import until_blocking
from tests.support.ports import free_addresses

T = TypeVar("T")
START_S = 90.0
_POLL_S = 0.02


class MemberServer:
    """One server. `http` speaks to it and to no other."""

    def __init__(self, number: int, directory: Path, settings: dict[str, Any]) -> None:
        self.number = number
        self.directory = directory
        self.settings = settings
        self.url = f"http://{settings['http_bind']}"
        self.rpc = settings["rpc_bind"]
        self.raft = settings["raft_bind"]
        self.http = httpx.Client(base_url=self.url, timeout=30.0, trust_env=False)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.server_member", json.dumps(self.settings)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def ended(self) -> int:
        """Wait until it ends by itself; its exit code."""
        assert self.process is not None
        return self.process.wait(START_S)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.ended()
        self._close_input()

    def stop(self) -> None:
        """Properly; also after it was killed or stopped."""
        if self.process is None:
            return
        if self.runs:
            self.signal(signal.SIGCONT)
        self._close_input()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _close_input(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def put(self, path: str, body: Any = None, **params: Any) -> Any:
        answer = self.http.put(path, json=body, params=params)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


class ServerCluster:
    def __init__(self, members: list[MemberServer]) -> None:
        self.members = members

    @property
    def alive(self) -> list[MemberServer]:
        return [one for one in self.members if one.runs]

    def leader(self, among: list[MemberServer] | None = None) -> MemberServer:
        """Wait until all of them (those that run, by default) say that the same one leads, and it
        answers."""
        asked = among if among is not None else self.alive

        def agreed() -> MemberServer | None:
            said = {_leader_of(one) for one in asked}
            found = [one for one in asked if said == {one.rpc}]
            return found[0] if found and _answers(found[0]) else None

        return until_blocking(agreed)

    def followers(self) -> list[MemberServer]:
        leader = self.leader()
        return [one for one in self.alive if one is not leader]

    def rpc_addresses(self) -> list[str]:
        return [one.rpc for one in self.members]


def _leader_of(member: MemberServer) -> str:
    try:
        return str(member.http.get("/v1/status/leader", timeout=2.0).json())
    except httpx.TransportError:
        return ""


def _answers(member: MemberServer) -> bool:
    with contextlib.suppress(httpx.TransportError):
        answer = member.http.get("/v1/jobs", params={"consistent": ""}, timeout=7.0)
        # Refused: without a token, where access control is on. It was answered by a leader too.
        return answer.status_code in (200, 403)
    return False


@contextlib.contextmanager
def server_cluster(
    directory: Path, count: int = 3, *, agents: bool = False, late: int = 0, **settings: Any
) -> Iterator[ServerCluster]:
    """All started but the `late` last ones, with a leader. `agents`: each has one beside it;
    `settings`: of all servers."""
    raft = free_addresses(count)
    key = directory / "cluster.key"
    write_key(key)
    members = []
    for number in range(count):
        home = directory / f"server-{number}"
        http, rpc = free_addresses(2)
        own: dict[str, Any] = {
            "data_dir": str(home),
            "name": f"server-{number}",
            "http_bind": http,
            "rpc_bind": rpc,
            "raft_bind": raft[number],
            "peers": [one for one in raft if one != raft[number]],
            "cluster_key_file": str(key),
            "num_schedulers": 0,
            **settings,
        }
        if agents:
            own["agent"] = str(directory / f"agent-{number}")
        members.append(MemberServer(number, home, own))
    cluster = ServerCluster(members)
    try:
        early = members[: count - late]
        for member in early:
            member.start()
        for member in early:
            until_blocking(lambda member=member: _leader_of(member) or None, START_S)
        cluster.leader()
        for member in early:
            until_blocking(
                lambda member=member: len(member.get("/v1/status/peers")) == len(early) or None
            )
        yield cluster
    finally:
        for member in members:
            member.http.close()
            member.stop()


def write_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(base64.b64encode(new_key()))
