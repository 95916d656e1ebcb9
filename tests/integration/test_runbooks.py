"""The runbooks of docs/operations.md, run word by word on servers in a network of their own.

Only addresses and paths are replaced. `test_cluster_life.py` has what these leave out: a server
that joins, one that is lost and makes room, one that is taken out.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import sys
from pathlib import Path

import pytest

from tests.support.cluster_net import FaultyNetwork
from tests.support.lost_disk import lose
from tests.support.netns import missing
from tests.support.real_cluster import HostProcess, server_names, until
from tests.support.runbook import Runbook

pytestmark = pytest.mark.skipif(bool(missing()), reason=str(missing()))

NAMES = server_names(3)


class Site:
    """Three machines, and the person who looks after them."""

    def __init__(self, directory: Path, network: FaultyNetwork) -> None:
        self._directory = directory
        self._network = network
        self.servers: dict[str, HostProcess] = {}
        self.books: list[Runbook] = []
        self.token = ""

    def open(self, title: str) -> Runbook:
        book = Runbook.read(title)
        self.books.append(book)
        return book

    def here(self, text: str, server: str = "s1") -> str:
        """With this site's addresses and paths, for that server."""
        place = str(self._directory / server)
        text = text.replace("0.0.0.0", self._network.address(server))
        text = text.replace("/var/lib/orchgit", f"{place}/data").replace("/etc/orchgit", place)
        for number, name in enumerate(NAMES, 1):
            text = text.replace(f"10.0.0.{number}", self._network.address(name))
        return text.replace("server-1", f"server-{server[1:]}")

    async def run(self, command: str, ask: str = "s1", code: int = 0) -> str:
        """A command line of a shell, in the person's directory, who says yes; its output."""
        asked = self.servers.get(ask)
        host, port = asked.http if asked else ("", 0)
        scheme, papers = "http", {}
        if asked is not None and asked.tls is not None:
            scheme, papers = "https", self._papers
        python = f"{sys.executable} -m orchgit"
        process = await asyncio.create_subprocess_exec(
            *self._network.command_at_hub("sh", "-c", command.replace("orchgit ", python + " ", 1)),
            cwd=self._directory,
            env={
                **os.environ,
                "ORCHGIT_ADDR": f"{scheme}://{host}:{port}",
                "ORCHGIT_TOKEN": self.token,
                **papers,
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate(b"y\n")
        assert process.returncode == code, f"{command}: {process.returncode} {out.decode()}"
        return out.decode()

    @property
    def _papers(self) -> dict[str, str]:
        files = {
            "ORCHGIT_CACERT": "orchgit-agent-ca.pem",
            "ORCHGIT_CLIENT_CERT": "me.pem",
            "ORCHGIT_CLIENT_KEY": "me-key.pem",
        }
        return {name: str(self._directory / file) for name, file in files.items()}

    def context(self) -> ssl.SSLContext:
        """Of a client with the person's certificate."""
        papers = self._papers
        context = ssl.create_default_context(cafile=papers["ORCHGIT_CACERT"])
        context.load_cert_chain(papers["ORCHGIT_CLIENT_CERT"], papers["ORCHGIT_CLIENT_KEY"])
        return context

    def use_token(self, token: str) -> None:
        """From now on the person and the tests have this token."""
        self.token = token
        for server in self.servers.values():
            server.token = token

    async def run_until(self, command: str, ask: str = "s1") -> str:
        """Until it ends with 0; its output then."""

        async def well() -> str | None:
            try:
                return await self.run(command, ask) or "nothing"
            except AssertionError:
                return None

        return await until(well, 120, f"{command} does not end with 0")

    async def shown(self, command: str, word: str, times: int) -> None:
        """Until it shows the word so often."""

        async def often() -> bool:
            return (await self.run(command)).count(word) == times

        await until(often, 120, f"{command} does not show {times} times {word}")

    async def leader(self) -> str:
        async def known() -> str | None:
            for server in self.servers.values():
                if server.is_running and (await server.stats())["nomad"]["leader"] == "true":
                    return server.host
            return None

        return await until(known, 120, "there is no leader")


@pytest.mark.long
def test_runbook_commands_work_as_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = FaultyNetwork(tmp_path / "net", 3, 0, seed=1)
        site = Site(tmp_path, network)
        try:
            await start_a_cluster(site, tmp_path, network)
            await back_up(site)
            await change_certificates_and_upgrade(site, tmp_path)
            await lose_the_quorum(site, tmp_path)
            await restore(site)
            await without_https(site, tmp_path)
            await serve_https(site, tmp_path)
            for book in site.books:
                assert not book.left, f"{book.title!r} has steps that were not run: {book.left}"
        finally:
            for server in site.servers.values():
                if server.is_running:
                    await server.kill()
            await network.close()

    asyncio.run(scenario())


async def start_a_cluster(site: Site, directory: Path, network: FaultyNetwork) -> None:
    book = site.open("Start a cluster of three")
    await site.run(book.command(1))
    for name in NAMES:
        of_one = book.command(1, 1).replace("10.0.0.1", network.address(name))
        await site.run(of_one.replace("server-1", f"server-{name[1:]}"))
    await site.run(book.command(1, 2))
    await site.run(book.command(2))
    for name in NAMES:
        place = directory / name
        place.mkdir()
        number = name[1:]
        for file in (f"server-{number}.pem", f"server-{number}-key.pem"):
            shutil.move(directory / file, place)
        for file in ("orchgit-agent-ca.pem", "cluster.key"):
            shutil.copy(directory / file, place)
        # The machines of the runbook have names of their own; here all of them are one.
        (place / "agent.hcl").write_text(f'name = "{name}"\n{site.here(book.block(3), name)}')
        arguments = site.here(book.command(4), name).split()
        server = site.servers[name] = HostProcess(network, name, place, arguments)
        server.tls = site.context()
        await server.start()
    await asyncio.gather(*(one.answers() for one in site.servers.values()))
    commands = site.here(book.block(5))
    made = await site.run_until(commands + book.command(5))
    members = book.command(6)
    assert "Permission denied" in await site.run(commands + members, code=1)
    found = re.search(r"Secret ID\s*=\s*(\S+)", made)
    assert found is not None, made
    site.use_token(found[1])
    await site.shown(commands + members, "alive", 3)
    await site.shown(commands + book.command(6, 1), "true", 3)
    await site.run_until(commands + book.command(6, 2))
    (directory / "team-a.hcl").write_text('namespace "default" { policy = "write" }')
    await site.run(commands + book.command(7))
    assert "Secret ID" in await site.run(commands + book.command(7, 1))
    await site.run(commands + book.command(7, 2))


async def back_up(site: Site) -> None:
    book = site.open("Back up")
    await site.run("orchgit var put kept/one value=before")
    await site.run(book.command(1))
    assert "kept/one" not in await site.run(book.command(2)), "secrets are not shown"


async def change_certificates_and_upgrade(site: Site, directory: Path) -> None:
    """Both restart one server after the other: here once for both."""
    certificates = site.open("Change certificates")
    upgrade = site.open("Upgrade without a stop")
    await site.run(upgrade.command(1))
    leader = await site.leader()
    first, second = (name for name in NAMES if name != leader)
    for name in (first, second, leader):
        await site.run(site.here(certificates.command(1), name))
        new = site.here(certificates.command(2).replace("10.0.0.1", f"10.0.0.{name[1:]}"), name)
        await site.run(new)
        number = name[1:]
        for kind in (".pem", "-key.pem"):
            shutil.move(
                directory / f"server-{number}b{kind}", directory / name / f"server-{number}{kind}"
            )
        if name == leader:
            hand_over = upgrade.command(3).replace("10.0.0.2", f"10.0.0.{first[1:]}")
            await site.run(site.here(hand_over))
        assert await site.servers[name].stop() == 0
        await site.servers[name].start()
        await site.servers[name].answers()
        await site.run_until(upgrade.command(2), ask=name)
    assert (await site.run(upgrade.command(4))).count("alive") == 3
    assert "before" in await site.run("orchgit var get kept/one")


async def lose_the_quorum(site: Site, directory: Path) -> None:
    book = site.open("Lose the quorum")
    assert "last_log_index" in await site.run(book.command(2))
    await site.run("orchgit var put kept/two value=after")
    await asyncio.gather(*(site.servers[name].kill() for name in ("s2", "s3")))
    await until(lambda: refused(site.servers["s1"]), 120, "writes are not refused")
    await site.servers["s1"].stop()
    peers = directory / "s1" / "data" / "server" / "raft" / "peers.json"
    peers.write_text(site.here(book.block(3)))
    await site.servers["s1"].start()
    await site.servers["s1"].answers()
    await site.run_until(book.command(5, 1))
    assert (await site.run(book.command(5))).count("true") >= 1
    assert peers.with_name("peers.json.used").exists()
    assert "after" in await site.run("orchgit var get kept/two")
    for name in ("s2", "s3"):
        lose(directory / name / "data")
        await site.servers[name].start()
        await site.servers[name].answers()
    await site.run_until("orchgit operator autopilot health")


async def refused(server: HostProcess) -> bool:
    """The first of them may have been under way when the leader was lost."""
    answer = await server.ask("PUT", "/v1/var/no", b'{"Items":{"a":"b"}}', 20.0)
    return "No cluster leader" in answer.text


async def restore(site: Site) -> None:
    book = site.open("Restore")
    await site.run(book.command(2))
    await site.run(book.command(3))
    assert "before" in await site.run("orchgit var get kept/one")
    await site.run("orchgit var get kept/two", code=1)
    await site.run(book.command(3, 1))
    for number in range(3):
        await site.run(book.command(4, number))


async def without_https(site: Site, directory: Path) -> None:
    """As a cluster is that was started so."""
    for name in NAMES:
        file = directory / name / "agent.hcl"
        lines = file.read_text().splitlines(keepends=True)
        kept = [each for each in lines if "http  " not in each and "verify_https" not in each]
        file.write_text("insecure_http = true\n" + "".join(kept))
        assert await site.servers[name].stop() == 0
    for file in ("me.pem", "me-key.pem"):
        (directory / file).unlink()
    for server in site.servers.values():
        server.tls = None
        await server.start()
    await asyncio.gather(*(server.answers() for server in site.servers.values()))
    await site.leader()


async def serve_https(site: Site, directory: Path) -> None:
    book = site.open("Serve HTTPS")
    for name in NAMES:
        await site.run(site.here(book.command(1), name))
    await site.run(book.command(1, 1))
    await site.run(book.command(2))
    await site.run("orchgit source add site")
    commands = book.block(5) + book.command(5)
    for name in NAMES:
        file = directory / name / "agent.hcl"
        rest, _, _ = file.read_text().partition("tls {")
        rest = rest.replace("insecure_http = true\n", "")
        file.write_text(rest + site.here(book.block(3), name))
        assert await site.servers[name].stop() == 0
        await site.servers[name].start()
        here = site.here(commands.replace("10.0.0.1", f"10.0.0.{name[1:]}"), name)
        await site.run_until(here)
        await site.shown(here, "alive", 3)
    assert "403" in await site.run(site.here(_without_certificate(commands)), code=1)
    (git,) = re.findall(r"`(git ls-remote [^`]+)`", book.steps[6])
    git = git.replace("https://", "https://git:$ORCHGIT_TOKEN@")
    await site.run(site.here(book.block(6) + git))


def _without_certificate(commands: str) -> str:
    return "".join(line for line in commands.splitlines(True) if "CLIENT" not in line)
