"""No read of the API, and no collection of garbage, does work on the event loop that grows with the
state."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextvars import Context
from types import FrameType
from typing import Any

import pytest

from tests.support.many_objects import fill, reads
from tests.support.server_rig import ServerRig

JOBS, ALLOCATIONS, NODES = 500, 1000, 500
MOST_CALLS = 4 * JOBS
"""What reads one object makes a few hundred calls; one that reads all of a kind on the loop makes
several for each of them."""
_TRIES = 3


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the calls of functions that each of its callbacks makes."""

    most_calls = 0

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._counted, callback, *args, context=context)

    def _counted(self, callback: Callable[..., object], *args: Any) -> None:
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            callback(*args)
        finally:
            sys.setprofile(before)
        self.most_calls = max(self.most_calls, calls)


@pytest.fixture(scope="module")
def loop() -> CountingLoop:
    return CountingLoop()


@pytest.fixture(scope="module")
def rig(loop: CountingLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    directory = tmp_path_factory.mktemp("server")
    rig = ServerRig(directory, with_agent=False, loop=loop, num_schedulers=0)
    rig.start()
    try:
        rig.run(fill(rig.server.services.context, JOBS, ALLOCATIONS, NODES))
        yield rig
    finally:
        rig.stop()


def test_what_looks_at_many_objects_does_not_run_on_the_loop(
    rig: ServerRig, loop: CountingLoop
) -> None:
    with rig.server.services.context.snapshot() as snapshot:
        asked = list(reads(snapshot))
    assert _costly(rig, loop, asked, (200, 204, 400, 404)) == {}


def test_write_of_a_volume_looks_at_the_nodes_beside_the_loop(
    rig: ServerRig, loop: CountingLoop
) -> None:
    writer = {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
    csi = {"ID": "v", "PluginID": "none", "RequestedCapabilities": [writer]}
    asked: list[Request] = [
        ("PUT", "/v1/volume/csi/v", {"Volumes": [csi]}),
        ("PUT", "/v1/volume/csi/v/create", {"Volumes": [csi]}),
        ("GET", "/v1/volumes/external?plugin_id=none", None),
        ("PUT", "/v1/volume/host/create", {"Volume": {"Name": "v", "NodePool": "none"}}),
    ]
    assert _costly(rig, loop, asked, (500,)) == {}


Request = tuple[str, str, dict[str, Any] | None]


def _costly(
    rig: ServerRig, loop: CountingLoop, asked: list[Request], statuses: tuple[int, ...]
) -> dict[str, int]:
    """Returns the requests that make too many calls on the loop, each time that they are sent: what
    else the server does meanwhile counts too."""
    calls: dict[str, int] = {}
    for method, path, body in asked:
        rig.http.request(method, path, json=body)  # this one may import
        counts: list[int] = []
        while not counts or (counts[-1] > MOST_CALLS and len(counts) < _TRIES):
            loop.most_calls = 0
            answer = rig.http.request(method, path, json=body)
            assert answer.status_code in statuses, (path, answer.text)
            counts.append(loop.most_calls)
        calls[f"{method} {path} {body}"[:120]] = min(counts)
    return {path: count for path, count in calls.items() if count > MOST_CALLS}
