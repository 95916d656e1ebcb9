"""Taking data over from another node's agent: room, and faults of that agent."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent.hooks import alloc_dir
from agent.migration.remote_data import RemoteData, why_no_room
from agent.migration.snapshot import DATA_SIZE_HEADER, data_size_bytes, write_snapshot
from agent.paths import AllocPaths
from orchgit.clock import FakeClock
from orchgit.errors import UnavailableError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.wire.messages import MigrationSourceReply
from tests.support.factories import make_allocation, make_group, make_job, make_task
from tests.support.http_listener import listening, on_uvloop
from tests.support.small_disk import small_disk

GROUP = make_group(tasks=[make_task(name="t")])
ALLOC = make_allocation(make_job(task_groups=[GROUP]))


class QuickClock(FakeClock):
    """Every sleep ends at once, and is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await super().sleep(0)


class OldNode:
    """The other node's agent: answers each request by the next of `answers`, the last for good."""

    def __init__(self, root: Path, *answers: Callable[[OldNode], Response]) -> None:
        self.root = root
        self.answers = list(answers)
        self.asked = 0
        (root / "alloc/data").mkdir(parents=True)
        (root / "alloc/data/f").write_bytes(b"x" * 5000)
        (root / "t/local/deep").mkdir(parents=True)
        (root / "t/local/deep/g").write_bytes(b"y" * 70)
        (root / "t/local/l").symlink_to("/etc/hostname")

    async def serve(self, request: Request) -> Response:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return answer(self)

    def tar(self) -> bytes:
        out = io.BytesIO()
        write_snapshot(self.root, ["t"], out)
        return out.getvalue()


def whole(node: OldNode) -> Response:
    size = data_size_bytes(node.root, ["t"])
    return Response(node.tar(), headers={DATA_SIZE_HEADER: str(size)})


def cut(node: OldNode) -> Response:
    """As an agent that is killed in the middle: less comes than was announced."""
    data = node.tar()
    response = Response(data[: len(data) // 2])
    response.headers["Content-Length"] = str(len(data))
    return response


def without_end(node: OldNode) -> Response:
    return Response(node.tar()[:2000])


def huge(node: OldNode) -> Response:
    return Response(node.tar(), headers={DATA_SIZE_HEADER: str(1 << 60)})


def status(code: int) -> Callable[[OldNode], Response]:
    return lambda node: PlainTextResponse("no", code)


def take_over(
    root: Path,
    node: OldNode,
    sources: Callable[[str, int], MigrationSourceReply] | None = None,
    group: TaskGroup = GROUP,
) -> tuple[str, QuickClock]:
    """Returns what was done. `sources` gives the servers' answer, from the URL of the old node and
    the number of the question."""
    clock, asked, done = QuickClock(), 0, ""
    paths = AllocPaths(root)
    alloc_dir.create(paths)

    async def scenario() -> None:
        app = Starlette(routes=[Route("/data", node.serve)])
        async with listening(app) as server:
            url = f"http://{server.address}/data"

            async def find(alloc_id: str) -> MigrationSourceReply:
                nonlocal asked
                assert alloc_id == ALLOC.id
                asked += 1
                found = MigrationSourceReply(node_id="old", url=url, proof="p")
                return found if sources is None else sources(url, asked)

            nonlocal done
            alloc: Allocation = ALLOC
            done = await RemoteData(find, clock, None).take_over(alloc, group, paths)

    on_uvloop(scenario)
    assert not (root / ".arriving").exists()
    return done, clock


def test_data_that_is_cut_off_or_refused_for_now_is_asked_for_again(tmp_path: Path) -> None:
    node = OldNode(tmp_path / "old", cut, status(503), status(500), whole)
    (tmp_path / "new/.arriving/alloc/data").mkdir(parents=True)
    (tmp_path / "new/.arriving/alloc/data/left").touch()  # by an agent that was killed
    done, clock = take_over(tmp_path / "new", node)
    assert done == "Moved 5070 bytes of data from node old"
    assert [path.name for path in (tmp_path / "new/alloc/data").iterdir()] == ["f"]
    assert (tmp_path / "new/alloc/data/f").read_bytes() == b"x" * 5000
    assert (tmp_path / "new/t/local/l").readlink() == Path("/etc/hostname")
    assert clock.slept_s == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("answer", [status(403), status(404), without_end])
def test_what_no_other_attempt_changes_is_not_tried_again(
    tmp_path: Path, answer: Callable[[OldNode], Response]
) -> None:
    node = OldNode(tmp_path / "old", answer)
    done, clock = take_over(tmp_path / "new", node)
    assert done.startswith("Cannot move data of the previous allocation: ")
    assert (node.asked, clock.slept_s) == (1, [])
    assert list((tmp_path / "new/alloc/data").iterdir()) == []


def test_agent_that_stays_away_is_waited_for_over_a_minute(tmp_path: Path) -> None:
    node = OldNode(tmp_path / "old", status(503))
    done, clock = take_over(tmp_path / "new", node)
    assert "node old answers 503: no" in done
    assert 60 < sum(clock.slept_s) < 120


def test_end_of_the_old_node_ends_the_attempts(tmp_path: Path) -> None:
    def sources(url: str, number: int) -> MigrationSourceReply:
        if number == 1:
            return MigrationSourceReply(runs=True)
        if number == 2:
            raise UnavailableError("no server")
        if number == 3:
            return MigrationSourceReply(node_id="old", url=url, proof="p")
        return MigrationSourceReply(gone="its node old is down or gone")

    node = OldNode(tmp_path / "old", status(503))
    done, _ = take_over(tmp_path / "new", node, sources)
    assert done.endswith("previous allocation: its node old is down or gone")
    assert node.asked == 1


def test_node_without_certificates_asks_no_agent_that_serves_https(tmp_path: Path) -> None:
    def sources(url: str, number: int) -> MigrationSourceReply:
        return MigrationSourceReply(node_id="old", url=url.replace("http:", "https:"), proof="p")

    node = OldNode(tmp_path / "old", whole)
    done, clock = take_over(tmp_path / "new", node, sources)
    assert "serves HTTPS, and this agent has no certificates to check it with" in done
    assert (node.asked, clock.slept_s) == (0, [])


def test_data_larger_than_the_disks_room_is_not_fetched(tmp_path: Path) -> None:
    done, clock = take_over(tmp_path / "new", OldNode(tmp_path / "old", huge))
    assert f"it has {1 << 60} bytes, and the disk of this node has room for" in done
    assert clock.slept_s == []
    assert (tmp_path / "new/alloc/data").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_disk_that_fills_up_meanwhile_is_left_as_it_was(tmp_path: Path) -> None:
    node = OldNode(tmp_path / "old", lambda node: Response(node.tar()))
    (node.root / "t/local/big").write_bytes(bytes(3 << 20))
    with small_disk(tmp_path / "disk", 2):
        before = os.statvfs(tmp_path / "disk").f_bavail
        done, clock = take_over(tmp_path / "disk/new", node)
        assert "No space left on device" in done
        assert clock.slept_s == []
        kept = os.statvfs(tmp_path / "disk").f_bavail
        assert before - kept < 16  # the empty directories


def test_a_part_of_the_disk_stays_free() -> None:
    disk = os.statvfs_result((4096, 4096, 100, 60, 50, 9, 9, 9, 0, 255))
    assert why_no_room(45 * 4096, disk) == ""
    assert "has room for 184320; make room" in why_no_room(45 * 4096 + 1, disk)
    full = os.statvfs_result((4096, 4096, 100, 3, 2, 9, 9, 9, 0, 255))
    assert why_no_room(0, full) == ""
    assert "has room for 0;" in why_no_room(1, full)


def test_size_counts_what_a_snapshot_has(tmp_path: Path) -> None:
    node = OldNode(tmp_path / "old", whole)
    (tmp_path / "old/alloc/logs").mkdir()
    (tmp_path / "old/alloc/logs/t.stdout.0").write_text("not moved")
    os.mkfifo(tmp_path / "old/t/local/pipe")
    assert data_size_bytes(node.root, ["t"]) == 5070
    (tmp_path / "old/alloc/data").rename(tmp_path / "elsewhere")
    (tmp_path / "old/alloc/data").symlink_to(tmp_path / "elsewhere")
    assert data_size_bytes(node.root, ["t"]) == 70
