"""Three members and their RPC under certificates made by `orchgit tls`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from orchgit.errors import UnavailableError
from orchgit.wire import methods
from orchgit.wire.channel import Channel
from orchgit.wire.messages import Empty, EvalTokenRequest
from orchgit.wire.serve import GrpcServer
from orchgit.wire.tls import TlsFiles
from tests.support.raft_processes import process_cluster


def made_files(directory: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> TlsFiles:
    directory.mkdir()
    monkeypatch.chdir(directory)
    for line in ("tls ca create", "tls cert create -server " + " ".join(words)):
        answer = CliRunner().invoke(cli, line.split())
        assert answer.exit_code == 0, answer.output
    stem = directory / "global-server-orchgit"
    return TlsFiles(
        directory / "orchgit-agent-ca.pem", Path(f"{stem}.pem"), Path(f"{stem}-key.pem")
    )


def test_members_with_certificates_of_the_command_line_replicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with process_cluster(tmp_path, files) as cluster:
            leader = await cluster.leader()
            await leader.ask("write", "secured")
            assert "secured" in await leader.ask("read")

    files = made_files(tmp_path / "tls", monkeypatch)
    asyncio.run(scenario())


def test_rpc_accepts_certificates_of_its_authority_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ack(request: EvalTokenRequest) -> Empty:
        return Empty()

    async def scenario() -> None:
        server = GrpcServer("127.0.0.1:0", ours)
        server.add_unary(methods.ACK, ack)
        await server.start()
        known, stranger = Channel(server.address, ours), Channel(server.address, theirs)
        try:
            assert await known.call(methods.ACK, EvalTokenRequest()) == Empty()
            with pytest.raises(UnavailableError):
                await stranger.call(methods.ACK, EvalTokenRequest(), timeout_s=2.0)
        finally:
            await known.close()
            await stranger.close()
            await server.stop()

    ours = made_files(tmp_path / "ours", monkeypatch)
    theirs = made_files(tmp_path / "theirs", monkeypatch)
    asyncio.run(scenario())
