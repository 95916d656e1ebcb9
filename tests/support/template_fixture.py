"""The server, the agent and the state around recorded cases of templates."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent.config import GarbageConfig
from tests.scenarios.run_task_env import AGENT, DRIVERS, HOST_ENV
from tests.support.process_state import environment
from tests.support.server_rig import ServerRig, server_rig

FIXTURE = Path(__file__).parent.parent / "golden/agent/template-fixture.json"
_SMALL_LOGS = {"MaxFiles": 1, "MaxFileSizeMB": 1}


@dataclass(frozen=True, slots=True)
class TemplateRig:
    rig: ServerRig
    files_url: str
    files_dir: Path
    """Served below `files_url`, for artifacts."""

    @property
    def agent_dir(self) -> Path:
        return self.rig.data_dir / "agent"

    def put_variable(self, path: str, items: Mapping[str, str]) -> None:
        answer = self.rig.http.put(f"/v1/var/{path}", json={"Path": path, "Items": items})
        assert answer.status_code == 200, answer.text


@contextlib.contextmanager
def template_rig(data_dir: Path) -> Iterator[TemplateRig]:
    """Yields a server and an agent as in the recordings, with the fixture's variables and
    services."""
    many = GarbageConfig(max_allocs=10_000, disk_usage_percent=99.9)
    config = {**AGENT, "drivers": DRIVERS, "garbage": many}
    files_dir = data_dir / "www"
    files_dir.mkdir(parents=True)
    with (
        environment(HOST_ENV),
        served(files_dir) as url,
        server_rig(data_dir, agent_config=config) as rig,
    ):
        rig.wait_ready_node()
        given = TemplateRig(rig, url, files_dir)
        fixture = json.loads(FIXTURE.read_text())
        for path, items in fixture["variables"].items():
            given.put_variable(path, items)
        rig.register(fixture["job"])
        for name, instances in fixture["services"].items():
            wanted = len(instances)
            rig.wait_for(f"/v1/service/{name}", lambda found, n=wanted: len(found) == n)
        yield given


@contextlib.contextmanager
def served(directory: Path) -> Iterator[str]:
    """Yields the address of an HTTP server of the directory's files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def one_task_job(job_id: str, task: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A job in the API's JSON with group `g`; `fields` are the job's, or `TaskGroup` the
    group's."""
    group = {
        "Name": "g",
        "Count": 1,
        "EphemeralDisk": {"SizeMB": 10},
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
        "Tasks": [task],
        **fields.pop("TaskGroup", {}),
    }
    return {
        "ID": job_id,
        "Name": job_id,
        "Type": "batch",
        "Datacenters": ["dc1"],
        "TaskGroups": [group],
        **fields,
    }


def task_of(**fields: Any) -> dict[str, Any]:
    return {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", "exit 0"]},
        "Resources": {"CPU": 20, "MemoryMB": 10},
        "LogConfig": _SMALL_LOGS,
        **fields,
    }
