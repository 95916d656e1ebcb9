"""Servers started as people start them: `orchgit agent -config FILE`, which find each other."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from orchgit.cli.main import cli
from tests.support.lost_disk import lose
from tests.support.polling import until_blocking
from tests.support.ports import free_addresses
from tests.support.server_cluster import write_key


class JoiningServer:
    """Its configuration file can be changed between starts (`settings`)."""

    def __init__(self, name: str, directory: Path, key: Path) -> None:
        self.name = name
        self.directory = directory / name
        self.http_address, self.rpc, self.raft = free_addresses(3)
        self.url = f"http://{self.http_address}"
        self.server: dict[str, Any] = {"enabled": True, "cluster_key_file": str(key)}
        self.settings: dict[str, Any] = {
            "name": name,
            "data_dir": str(self.directory / "data"),
            "ports": {
                kind: int(address.rpartition(":")[2])
                for kind, address in zip(
                    ("http", "rpc", "serf"), (self.http_address, self.rpc, self.raft), strict=True
                )
            },
            "server": self.server,
        }
        self.http = httpx.Client(base_url=self.url, timeout=30.0, trust_env=False)
        self.process: subprocess.Popen[bytes] | None = None
        self._started_at = 0

    def start(self, *options: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "agent.json"
        file.write_text(json.dumps(self.settings))
        with (self.directory / "log").open("ab") as log:
            self._started_at = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "orchgit", "agent", "-config", str(file), *options],
                stdout=log,
                stderr=log,
            )

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    @property
    def log_since_start(self) -> str:
        return (self.directory / "log").read_bytes()[self._started_at :].decode()

    def lose_disk(self) -> None:
        """Killed, and all its data gone."""
        self.end(signal.SIGKILL)
        lose(self.directory / "data")

    def force_peers(self, *servers: JoiningServer) -> None:
        """Of a lost majority, as `Lose the quorum` in the manual has it."""
        file = self.directory / "data" / "server" / "raft" / "peers.json"
        file.write_text(json.dumps([{"id": one.raft, "address": one.raft} for one in servers]))

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def cli(self, *words: str, code: int = 0) -> str:
        """A command that asks this server."""
        done = CliRunner().invoke(cli, [*words, "-address", self.url])
        text = done.output + str(done.exception or "")
        assert done.exit_code == code, text
        return text

    def peers(self) -> dict[str, bool]:
        """Name -> vote, as this server knows them; empty while it does not answer."""
        with contextlib.suppress(httpx.TransportError):
            answer = self.http.get("/v1/operator/raft/configuration", params={"stale": ""})
            if answer.status_code == 200:
                servers = answer.json()["Servers"]
                return {each["Node"].partition(".")[0]: each["Voter"] for each in servers}
        return {}

    def wait_for_peers(self, **wanted: bool) -> None:
        until_blocking(lambda: self.peers() == wanted or None, 120.0)

    def wait_for_log(self, text: str, since_start: bool = False) -> None:
        until_blocking(
            lambda: text in (self.log_since_start if since_start else self.log) or None, 120.0
        )


@contextlib.contextmanager
def joining_servers(directory: Path, count: int, **server: Any) -> Iterator[list[JoiningServer]]:
    """Not started. Each names the first two of them to join; `server`: more of that section."""
    write_key(directory / "cluster.key")
    servers = [
        JoiningServer(f"s{number}", directory, directory / "cluster.key")
        for number in range(1, count + 1)
    ]
    for one in servers:
        named = [other.rpc for other in servers[:2]]
        one.server |= {"server_join": {"retry_join": named, "retry_interval": "200ms"}, **server}
    try:
        yield servers
    finally:
        for one in servers:
            one.http.close()
            if one.runs:
                one.end(signal.SIGKILL)
