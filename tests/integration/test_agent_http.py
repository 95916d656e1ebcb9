"""The agent's HTTP routes, served by uvicorn, on a task that runs."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from agent.agent import Agent
from agent.serve import client_app
from orchgit.model.allocation import Allocation
from orchgit.model.job import Job
from tests.integration.test_agent import allocation, end_everything, new_agent, raw_task
from tests.support.gitops_rig import ServerWithoutSignals
from tests.support.polling import until
from tests.support.stub_server import StubServer
from tests.support.websocket import websocket

Scenario = Callable[["Node"], Coroutine[Any, Any, None]]


class Node:
    """A started agent with its HTTP server."""

    def __init__(self, server: StubServer, agent: Agent, port: int) -> None:
        self.server, self.agent, self.port = server, agent, port
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20)

    async def run(self, script: str, status: str = "running", **fields: Any) -> Allocation:
        alloc, job = allocation(self.agent, raw_task(script), type="batch", **fields)
        return await self.deliver(alloc, job, status)

    async def deliver(self, alloc: Allocation, job: Job, status: str) -> Allocation:
        self.server.deliver((alloc, job))
        await self.server.until_status(alloc.id, status)
        return alloc

    def files(self, alloc: Allocation) -> Path:
        return self.agent.config.alloc_root / alloc.id


class _SaysWhenUp(ServerWithoutSignals):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[int]:
    config = uvicorn.Config(client_app(agent), port=0, log_level="warning", lifespan="off")
    web = _SaysWhenUp(config)
    task = asyncio.create_task(web.serve())
    await web.up.wait()
    try:
        yield web.servers[0].sockets[0].getsockname()[1]
    finally:
        web.should_exit = web.force_exit = True
        await task


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    def go(scenario: Scenario) -> None:
        async def whole() -> None:
            server = StubServer()
            await server.start()
            agent = new_agent(server, tmp_path)
            await agent.start()
            await agent.connected.wait()
            async with serving(agent) as port:
                node = Node(server, agent, port)
                try:
                    await scenario(node)
                finally:
                    await node.http.aclose()
            await agent.stop()
            await end_everything(tmp_path)
            await server.stop()

        asyncio.run(whole())

    return go


def test_files_are_listed_and_read(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("echo content > local/f.txt", "complete")
        listing = (await node.http.get(f"/v1/client/fs/ls/{alloc.id}?path=/")).json()
        assert {entry["Name"]: entry["IsDir"] for entry in listing} == {"alloc": True, "web": True}
        path = f"{alloc.id}?path=web/local/f.txt"
        assert (await node.http.get(f"/v1/client/fs/cat/{path}")).text == "content\n"
        assert (await node.http.get(f"/v1/client/fs/readat/{path}&offset=3&limit=2")).text == "te"
        stat = (await node.http.get(f"/v1/client/fs/stat/{path}")).json()
        assert (stat["Size"], stat["IsDir"]) == (8, False)
        assert stat["ContentType"].startswith("text/plain")

    run(scenario)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("../../..", 403, id="dot-dot"),
        pytest.param("no/such", 404, id="missing"),
        pytest.param("web/local/out/passwd", 403, id="link-to-directory"),
        pytest.param("web/local/file", 403, id="link-to-file"),
        pytest.param("web/secrets/key", 403, id="secrets"),
        pytest.param("web/\0/key", 400, id="nul"),
        pytest.param("web/" + "x" * 5000, 404, id="long-name"),
    ],
)
def test_path_outside_the_allocation_is_refused(
    run: Callable[[Scenario], None], path: str, status: int
) -> None:
    async def scenario(node: Node) -> None:
        script = "ln -s /etc local/out; ln -s /etc/passwd local/file; echo k > secrets/key"
        alloc = await node.run(script, "complete")
        for verb in ("cat", "stat", "stream"):
            answer = await node.http.get(f"/v1/client/fs/{verb}/{alloc.id}", params={"path": path})
            # What `cat` could not read is told by a body of status 200, as Nomad's clients know it.
            assert answer.status_code == (200 if verb == "cat" else status), answer.text
            assert "root:" not in answer.text
            assert "\nk\n" not in f"\n{answer.text}"

    run(scenario)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("stat/{}?path=%00", 400),
        ("readat/{}?path=web/local/f&offset=9223372036854775807&limit=9223372036854775807", 200),
        ("readat/{}?path=web/local/f&offset=9223372036854775808&limit=1", 200),
        ("stream/{}?path=web/local/f&offset=9223372036854775807&follow=false", 200),
        ("stream/{}?path=web/local/f&offset=9223372036854775807&origin=end&follow=false", 200),
        ("logs/{}?task=web&type=stdout&offset=9223372036854775807", 200),
        ("logs/{}?task=web&type=stdout&offset=%C2%B2", 400),
    ],
)
def test_read_at_an_offset_far_beyond_the_file_succeeds(
    run: Callable[[Scenario], None], query: str, status: int
) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("echo x > local/f", "complete")
        answer = await node.http.get("/v1/client/fs/" + query.format(alloc.id))
        assert answer.status_code == status, answer.text

    run(scenario)


def test_logs_are_answered_plain_and_framed(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("echo out; echo err >&2", "complete")
        base = f"/v1/client/fs/logs/{alloc.id}"
        plain = await node.http.get(base, params={"task": "web", "type": "stderr", "plain": "true"})
        assert plain.text == "err\n"
        framed = await node.http.get(base, params={"task": "web", "type": "stdout"})
        frame = json.loads(framed.text)
        assert base64.b64decode(frame["Data"]) == b"out\n"
        assert (frame["File"], frame["Offset"]) == ("alloc/logs/web.stdout.0", 4)
        tail = {"task": "web", "type": "stdout", "plain": "true", "origin": "end", "offset": 2}
        assert (await node.http.get(base, params=tail)).text == "t\n"

    run(scenario)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("type=stdout", "must provide task name"),
        ("task=web", "must provide log type (stdout/stderr)"),
        ("task=zz&type=stdout", 'unknown task name "zz"'),
    ],
)
def test_logs_with_wrong_parameters_are_refused(
    run: Callable[[Scenario], None], query: str, text: str
) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("true", "complete")
        answer = await node.http.get(f"/v1/client/fs/logs/{alloc.id}?{query}")
        assert (answer.status_code, answer.text) == (400, text)

    run(scenario)


def test_followed_logs_are_streamed_as_they_are_written(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        script = "echo first; while [ ! -e local/go ]; do sleep 0.02; done; echo second"
        alloc = await node.run(script)
        query = {"task": "web", "type": "stdout", "plain": "true", "follow": "true"}
        text = ""
        async with node.http.stream(
            "GET", f"/v1/client/fs/logs/{alloc.id}", params=query
        ) as answer:
            async for chunk in answer.aiter_text():
                text += chunk
                if text == "first\n":
                    (node.files(alloc) / "web/local/go").touch()
        assert text == "first\nsecond\n"

    run(scenario)


def test_task_is_restarted_and_signaled_and_its_stats_are_read(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(node: Node) -> None:
        script = "trap 'echo got >> local/s' USR1; echo up >> local/s; while :; do sleep 0.05; done"
        alloc = await node.run(script)
        base = f"/v1/client/allocation/{alloc.id}"
        said = node.files(alloc) / "web/local/s"
        await until(said.exists)
        answer = await node.http.put(f"{base}/signal", json={"Task": "web", "Signal": "SIGUSR1"})
        assert answer.status_code == 200, answer.text
        await until(lambda: "got" in said.read_text())
        stats = (await node.http.get(f"{base}/stats")).json()
        assert stats["Tasks"]["web"]["ResourceUsage"]["MemoryStats"]["RSS"] > 0
        first = node.agent.allocations.get(alloc.id).tasks["web"].handle
        answer = await node.http.put(f"{base}/restart", json={"TaskName": "web"})
        assert answer.json() == {"Index": 0}
        await node.server.until(
            lambda: node.agent.allocations.get(alloc.id).tasks["web"].handle not in (first, None)
        )
        answer = await node.http.put(f"{base}/restart", json={"TaskName": "zz"})
        assert (answer.status_code, answer.text) == (
            500,
            "Could not find task runner for task: zz",
        )

    run(scenario)


def test_unknown_allocation_is_answered_with_404(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        for path in ("allocation/x/stats", "fs/ls/x?path=/", "allocation/x/gc"):
            answer = await node.http.get(f"/v1/client/{path}")
            assert (answer.status_code, answer.text) == (404, 'Unknown allocation "x"')

    run(scenario)


def test_node_stats_are_read_and_metadata_is_changed(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        stats = (await node.http.get("/v1/client/stats")).json()
        assert stats["Memory"]["Total"] > 0
        answer = await node.http.put("/v1/client/metadata", json={"Meta": {"rack": "r1"}})
        assert answer.json()["Dynamic"] == {"rack": "r1"}
        await node.server.until(lambda: node.server.nodes[-1].meta.get("rack") == "r1")
        wrong = await node.http.get("/v1/client/stats?node_id=00000000")
        assert (wrong.status_code, wrong.text) == (404, "Unknown node 00000000")

    run(scenario)


def test_exec_sends_input_and_receives_output(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("exec sleep 300")
        command = json.dumps(["/bin/sh", "-c", "read x; echo $x-$NOMAD_TASK_NAME; exit 7"])
        path = httpx.URL(
            f"/v1/client/allocation/{alloc.id}/exec", params={"command": command, "task": "web"}
        )
        stdin = base64.b64encode(b"hello\n").decode()
        frames, _ = await websocket(node.port, str(path), [{"stdin": {"data": stdin}}])
        out = b"".join(
            base64.b64decode(frame["stdout"]["data"])
            for frame in frames
            if frame.get("stdout", {}).get("data")
        )
        assert out == b"hello-web\n"
        assert frames[-1] == {"exited": True, "result": {"exit_code": 7}}

    run(scenario)


def test_exec_in_an_unknown_task_is_refused(run: Callable[[Scenario], None]) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("exec sleep 300")
        path = f"/v1/client/allocation/{alloc.id}/exec?command=%5B%22true%22%5D&task=zz"
        frames, close = await websocket(node.port, path, [])
        assert (frames, close) == ([], 1008)

    run(scenario)


def test_exec_is_refused_where_the_configuration_disables_it(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(node: Node) -> None:
        alloc = await node.run("exec sleep 300")
        node.agent.config = replace(node.agent.config, disable_remote_exec=True)
        path = f"/v1/client/allocation/{alloc.id}/exec?command=%5B%22true%22%5D&task=web"
        assert await websocket(node.port, path, []) == ([], 1011)

    run(scenario)
