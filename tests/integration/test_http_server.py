"""A server's life: starting, stopping with readers waiting, starting again on the same data."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchgit.cli.main import cli
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.server.config import ServerConfig
from orchgit.server.http.server import HttpServer
from orchgit.server.server import Server
from tests.support.http_listener import on_uvloop
from tests.support.server_rig import server_rig

JOB = {
    "ID": "kept",
    "Type": "batch",
    "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}],
}


def test_acknowledged_write_survives_a_restart(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        done = rig.register(JOB)
        server_id = rig.server.facts.server_id
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        assert rig.http.get("/v1/job/kept").json()["JobModifyIndex"] == done["JobModifyIndex"]
        assert rig.server.facts.server_id == server_id


def test_server_and_agent_meet_over_ipv6(tmp_path: Path) -> None:
    anywhere = {"http_bind": "[::1]:0", "rpc_bind": "[::1]:0", "raft_bind": "[::1]:0"}
    with server_rig(tmp_path, num_schedulers=0, **anywhere) as rig:
        rig.wait_ready_node()
        assert rig.server.http_address.startswith("[::1]:")
        address = str(rig.http.base_url)
        shown = CliRunner().invoke(cli, ["server", "members"], env={"ORCHGIT_ADDR": address})
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[1].split()[4] == "true"  # it leads


def test_stop_does_not_wait_for_blocking_readers_and_streams(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        index = rig.http.get("/v1/jobs").headers["x-nomad-index"]
        base = f"http://{rig.server.http_address}"
        began = threading.Barrier(3)

        def wait_for(path: str) -> None:
            began.wait()
            try:
                with httpx.stream("GET", base + path, timeout=400) as answer:
                    answer.read()
            except httpx.TransportError:
                return

        paths = (f"/v1/jobs?index={index}&wait=5m", "/v1/event/stream")
        readers = [threading.Thread(target=wait_for, args=(path,)) for path in paths]
        for reader in readers:
            reader.start()
        began.wait()
        rig.http.get("/v1/jobs")
        began_s = time.monotonic()
    took_s = time.monotonic() - began_s
    # The readers would wait for five minutes, or for ever.
    assert took_s < rig.server.config.stop_timeout_s + 60
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()


def test_port_in_use_is_refused_by_name(tmp_path: Path) -> None:
    with server_rig(tmp_path / "one", with_agent=False, num_schedulers=0) as rig:
        config = ServerConfig(data_dir=tmp_path / "two", http_bind=rig.server.http_address)
        with pytest.raises(InvalidInputError, match=rig.server.http_address):
            asyncio.run(Server(config).start())


def test_two_servers_cannot_share_a_data_directory(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, num_schedulers=0) as rig:
        other = ServerConfig(
            data_dir=rig.server.config.data_dir,
            http_bind="127.0.0.1:0",
            rpc_bind="127.0.0.1:0",
            num_schedulers=0,
        )
        with pytest.raises(RefusedError, match="is running in it"):
            rig.run(Server(other).start())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"http_bind": "nowhere"}, "http"),
        ({"rpc_bind": "127.0.0.1:99999"}, "rpc"),
        ({"num_schedulers": -1}, "num_schedulers"),
        ({"enabled_schedulers": ("magic",)}, "magic"),
    ],
)
def test_invalid_config_is_refused(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        ServerConfig(data_dir=tmp_path, **change)  # type: ignore[arg-type]


def test_answer_that_the_stop_cuts_leaves_no_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = asyncio.Event()

    async def endless(request: Request) -> Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing ends it")

    async def run() -> None:
        server = HttpServer(Starlette(routes=[Route("/", endless)]), "127.0.0.1:0")
        await server.start()
        async with httpx.AsyncClient(
            base_url=f"http://{server.address}", trust_env=False
        ) as client:
            asking = asyncio.ensure_future(client.get("/", timeout=60))
            await asked.wait()
            await server.stop(0.1)
            with pytest.raises(httpx.TransportError):
                await asking

    on_uvloop(run)
    assert "Exception in ASGI application" not in caplog.text
