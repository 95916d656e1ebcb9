"""Servers and an agent that serve HTTPS, with certificates that `orchgit tls` made."""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from orchgit.cli.main import cli
from tests.support.joining_servers import JoiningServer, joining_servers

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Papers:
    """An authority, and a certificate of it."""

    ca: Path
    cert: Path
    key: Path

    def section(self, **more: Any) -> dict[str, Any]:
        """`tls` of an agent's configuration."""
        files = {"ca_file": self.ca, "cert_file": self.cert, "key_file": self.key}
        return {**{name: str(path) for name, path in files.items()}, **more}

    def context(self, shown: bool = True) -> ssl.SSLContext:
        """Of a client that trusts the authority, and shows the certificate if `shown`."""
        context = ssl.create_default_context(cafile=self.ca)
        if shown:
            context.load_cert_chain(self.cert, self.key)
        return context

    def environment(self, shown: bool = True) -> dict[str, str]:
        """Nomad's variables of the same."""
        own = {"NOMAD_CLIENT_CERT": str(self.cert), "NOMAD_CLIENT_KEY": str(self.key)}
        return {"NOMAD_CACERT": str(self.ca), **(own if shown else {})}

    def git_environment(self) -> dict[str, str]:
        return {
            "GIT_SSL_CAINFO": str(self.ca),
            "GIT_SSL_CERT": str(self.cert),
            "GIT_SSL_KEY": str(self.key),
        }


class Office:
    """An authority in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True)
        self._run("ca", "create")

    def issue(self, role: str, *words: str) -> Papers:
        """`role`: server, client or cli."""
        out = f"{role}-{len(list(self._directory.iterdir()))}"
        self._run("cert", "create", f"-{role}", "-out", out, *words)
        here = self._directory
        return Papers(here / "orchgit-agent-ca.pem", here / f"{out}.pem", here / f"{out}-key.pem")

    def _run(self, *words: str) -> None:
        with contextlib.chdir(self._directory):
            done = CliRunner().invoke(cli, ["tls", *words])
        assert done.exit_code == 0, done.output


@dataclass(slots=True)
class SecureCluster:
    """`papers` are those of a person with the command line."""

    servers: list[JoiningServer]
    agent: JoiningServer
    papers: Papers

    def command(self, server: JoiningServer, *words: str) -> subprocess.Popen[str]:
        """A command that asks this server, under way."""
        given = {"NOMAD_ADDR": server.url, "PYTHONUNBUFFERED": "1", **self.papers.environment()}
        return subprocess.Popen(
            [sys.executable, "-m", "orchgit", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **given},
        )


@contextlib.contextmanager
def secure_cluster(directory: Path, office: Office) -> Iterator[SecureCluster]:
    """Three servers and an agent, not started, that answer only who has a certificate."""
    person = office.issue("cli")
    context = person.context()
    with joining_servers(directory, 4, bootstrap_expect=3) as members:
        *servers, agent = members
        for one in members:
            role = "client" if one is agent else "server"
            one.settings["tls"] = office.issue(role).section(http=True, verify_https_client=True)
            secure(one, context)
        agent.settings |= {
            "server": {"enabled": False},
            "client": {
                "enabled": True,
                "servers": [one.rpc for one in servers],
                "network_interface": "lo",
            },
            "plugin": {"raw_exec": {"config": {"enabled": True}}},
        }
        yield SecureCluster(servers, agent, person)


def secure(member: JoiningServer, context: ssl.SSLContext) -> None:
    """From now on it is asked by HTTPS."""
    member.http.close()
    member.url = f"https://{member.http_address}"
    member.http = httpx.Client(base_url=member.url, verify=context, timeout=30.0, trust_env=False)
