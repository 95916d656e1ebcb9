"""Pages of other sites, in Chromium and as a browser sends their requests, change nothing here."""

from __future__ import annotations

import asyncio
import http.server
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.serve import client_app
from orchgit.server.http.server import HttpServer
from tests.support.crowding import crowding
from tests.support.hostile.requests_http import BROWSER_REQUESTS
from tests.support.raw_http import RawConnection
from tests.support.server_rig import ServerRig, server_rig

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36"
EXEC = "/v1/client/allocation/{}/exec?task=main&command=%5B%22true%22%5D"
_UPGRADE = (
    "GET {} HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("browsers")) as running:
        running.wait_ready_node()
        task = {"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/sleep"}}
        task["Config"]["args"] = ["1000"]  # type: ignore[index]
        groups = [{"Name": "main", "Tasks": [task]}]
        running.register({"ID": "kept", "Type": "batch", "TaskGroups": groups})
        running.wait_for("/v1/job/kept/allocations", _runs)
        yield running


def _runs(found: Any) -> bool:
    return bool(found) and found[0]["ClientStatus"] == "running"


@pytest.mark.parametrize(("method", "path", "headers"), BROWSER_REQUESTS)
def test_server_refuses_requests_of_a_foreign_page(
    rig: ServerRig, method: str, path: str, headers: dict[str, str]
) -> None:
    assert rig.http.request(method, path, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("path", "done", "refused"),
    [("/v1/client/gc", 200, 403), ("/v1/client/allocation/none/gc", 404, 404)],
)
def test_garbage_collection_by_get_is_refused_to_browsers(
    rig: ServerRig, path: str, done: int, refused: int
) -> None:
    program = rig.http.get(path, headers={"User-Agent": "Go-http-client/1.1"})
    assert program.status_code == done
    page = {"User-Agent": CHROME, "Sec-Fetch-Site": "none"}
    assert rig.http.get(path, headers=page).status_code == refused
    page["Origin"] = f"http://{rig.server.http_address}"
    assert rig.http.put(path, headers=page).status_code == done


def test_agent_refuses_requests_of_a_foreign_page(rig: ServerRig) -> None:
    async def scenario() -> list[str]:
        server = HttpServer(client_app(rig.agent), "127.0.0.1:0")
        await server.start()
        host, _, port = server.address.rpartition(":")
        (alloc_id,) = (each.context.alloc.id for each in rig.agent.allocations)
        found = []
        restart = f"POST /v1/client/allocation/{alloc_id}/restart HTTP/1.1\r\nHost:"
        for head in (
            f"{restart} rebound.example\r\n\r\n",
            f"{restart} {host}\r\nOrigin: https://other.example\r\n\r\n",
            _UPGRADE.format(EXEC.format(alloc_id), host, "https://other.example"),
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head.encode())
            found.append((await reader.readline()).decode().split()[1])
            writer.close()
        await server.stop(1.0)
        return found

    assert rig.run(scenario()) == ["403", "403", "403"]


def test_foreign_page_opens_no_shell(rig: ServerRig) -> None:
    alloc_id = rig.http.get("/v1/allocations").json()[0]["ID"]

    async def first_line(origin: str) -> str:
        host, _, port = rig.server.http_address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(_UPGRADE.format(EXEC.format(alloc_id), f"{host}:{port}", origin).encode())
        line = (await reader.readline()).decode()
        writer.close()
        return line

    assert " 403 " in asyncio.run(first_line("https://other.example"))
    assert " 101 " in asyncio.run(first_line(f"http://{rig.server.http_address}"))


def test_client_is_answered_under_any_address_of_the_machine(rig: ServerRig) -> None:
    async def ask() -> int:
        host, _, port = rig.server.http_address.rpartition(":")
        connection = await RawConnection.open((host, int(port)))
        connection.host = b"192.0.2.77:4646"
        return (await connection.request("PUT", "/v1/system/gc")).status

    assert asyncio.run(ask()) == 200


PAGE = """<!doctype html><title>other site</title><script>
const found = {}
const put = (name, work) => work.then(v => found[name] = String(v), e => found[name] = "error")
const socket = url => new Promise(done => {
  const made = new WebSocket(url)
  made.onopen = () => done("open"); made.onerror = () => done("refused") })
const post = {method: "POST", mode: "no-cors", body: JSON.stringify(JOB)}
Promise.all([
  put("job", fetch("http://SERVER/v1/jobs", post)),
  put("restart", fetch("http://SERVER/v1/client/allocation/ALLOC/restart", post)),
  put("rebound", fetch("http://rebound.example:PORT/v1/jobs", {mode: "no-cors", ...post})),
  put("shell", socket("ws://SERVER" + "EXEC")),
  put("rebound shell", socket("ws://rebound.example:PORT" + "EXEC")),
  put("garbage", new Promise(done => {
    const image = new Image(); image.onerror = () => done("loaded no image")
    image.src = "http://SERVER/v1/client/gc" })),
]).then(() => fetch("/found", {method: "POST", body: JSON.stringify(found)}))
</script>"""


@contextmanager
def site(page: str) -> Iterator[tuple[int, queue.Queue[dict[str, str]]]]:
    """Serves the page; its port, and what the page sends back when it is done."""
    found: queue.Queue[dict[str, str]] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            found.put(json.loads(body))

        def log_message(self, *_: Any) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], found
        server.shutdown()


@contextmanager
def chromium(directory: Path, url: str) -> Iterator[None]:
    """Shows the page until the block ends."""
    arguments = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        *("--disable-dev-shm-usage", f"--user-data-dir={directory}"),
        "--host-resolver-rules=MAP *.example 127.0.0.1",
        # Chromium's own guard between public and local addresses is not what is tested.
        "--disable-features=PrivateNetworkAccessSendPreflights,LocalNetworkAccessChecks",
        url,
    ]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as shown:
        try:
            yield
        finally:
            shown.terminate()


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_page_of_another_site_in_chromium_changes_nothing(rig: ServerRig, tmp_path: Path) -> None:
    address, alloc = rig.server.http_address, rig.http.get("/v1/allocations").json()[0]
    groups = [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]
    foreign = {"Job": {"ID": "foreign", "Type": "batch", "TaskGroups": groups}}
    page = PAGE.replace("JOB", json.dumps(foreign)).replace("SERVER", address)
    page = page.replace("EXEC", EXEC.format(alloc["ID"])).replace("ALLOC", alloc["ID"])
    page = page.replace("PORT", address.rpartition(":")[2])
    with site(page) as (port, answers), chromium(tmp_path, f"http://other.example:{port}/"):
        found = answers.get(timeout=60 * crowding())
    assert (found["shell"], found["rebound shell"]) == ("refused", "refused")
    assert rig.http.get("/v1/job/foreign").status_code == 404
    now = rig.http.get(f"/v1/allocation/{alloc['ID']}").json()
    assert now["TaskStates"]["main"]["Restarts"] == 0
