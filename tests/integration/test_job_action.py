"""Actions of jobs run over a websocket, as `nomad action` runs them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.server_rig import ServerRig, server_rig
from tests.support.websocket import websocket

JOB = {
    "ID": "acts",
    "Type": "service",
    "TaskGroups": [
        {
            "Name": "g",
            "Tasks": [
                {
                    "Name": "t",
                    "Driver": "raw_exec",
                    "Config": {"command": "/bin/sh", "args": ["-c", "exec sleep 1000"]},
                    "Env": {"WORD": "from-env", "TOOL": "/bin/echo"},
                    "Templates": [
                        {
                            "EmbeddedTmpl": "OTHER=from-template",
                            "DestPath": "local/e",
                            "Envvars": True,
                        }
                    ],
                    "Actions": [
                        {"Name": "hi", "Command": "/bin/echo", "Args": ["hello", "you"]},
                        {
                            "Name": "words",
                            "Command": "${TOOL}",
                            "Args": ["${WORD}", "${OTHER}", "${NOMAD_TASK_NAME}", "${none}"],
                        },
                    ],
                    "Resources": {"CPU": 20, "MemoryMB": 16},
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerRig, str]]:
    """A server, and the allocation that runs on it."""
    with server_rig(tmp_path_factory.mktemp("action")) as rig:
        rig.wait_ready_node()
        rig.register(JOB)
        found = rig.wait_for(
            "/v1/job/acts/allocations",
            lambda found: any(each["ClientStatus"] == "running" for each in found),
        )
        yield rig, found[0]["ID"]


def run(rig: ServerRig, **query: str) -> tuple[list[dict[str, Any]], int]:
    port = int(rig.server.http_address.rpartition(":")[2])
    path = f"/v1/job/acts/action?{urlencode({'group': 'g', 'tty': 'false', **query})}"
    return asyncio.run(websocket(port, path, [{"stdin": {"close": True}}]))


@pytest.mark.parametrize(
    ("action", "expected"),
    [("hi", b"hello you\n"), ("words", b"from-env from-template t ${none}\n")],
)
def test_action_runs_its_command_in_the_task(
    running: tuple[ServerRig, str], action: str, expected: bytes
) -> None:
    rig, alloc_id = running
    frames, code = run(rig, allocID=alloc_id, task="t", action=action)
    told = b"".join(
        base64.b64decode(each["stdout"]["data"])
        for each in frames
        if each.get("stdout", {}).get("data")
    )
    assert (told, code) == (expected, 1000)
    assert frames[-1] == {"exited": True, "result": {"exit_code": 0}}


@pytest.mark.parametrize(
    "query",
    [
        {"task": "t", "action": "nosuch"},
        {"task": "nosuch", "action": "hi"},
        {"task": "t"},
        {"task": "t", "action": "hi", "allocID": "00000000-1111-2222-3333-444444444444"},
    ],
)
def test_action_that_is_not_there_is_refused(
    running: tuple[ServerRig, str], query: dict[str, str]
) -> None:
    rig, alloc_id = running
    assert run(rig, **{"allocID": alloc_id, **query}) == ([], 1011)
