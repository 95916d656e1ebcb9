"""Children are the same on both event loops."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from orchgit.child import DEVNULL, PIPE, STDOUT, ChildInput, RunAs, start_child

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def on_loop(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return on_loop


def test_child_reads_stdin_and_its_output_and_exit_code_are_returned(run: Run) -> None:
    async def work() -> None:
        child = await start_child("sh", "-c", "cat; echo no >&2; exit 3", **_pipes())
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.returncode is None
        data = os.urandom(1 << 20)

        async def feed() -> None:
            assert child.stdin is not None
            child.stdin.write(data)
            await child.stdin.drain()
            child.stdin.close()

        _, echoed = await asyncio.gather(feed(), child.stdout.read())
        assert echoed == data
        assert await child.stderr.read() == b"no\n"
        assert await child.wait() == child.returncode == 3

    run(work())


def test_write_to_a_child_that_closed_stdin_raises_connection_error(run: Run) -> None:
    async def work() -> None:
        child = await start_child("sh", "-c", "exec 0<&-; echo closed; read x <&1", **_pipes())
        assert child.stdin is not None
        assert child.stdout is not None
        assert await child.stdout.readline() == b"closed\n"
        with pytest.raises(ConnectionError):
            await _tell(child.stdin)
        child.stdin.write(b"more")
        child.stdin.close()
        child.kill()
        await child.wait()

    run(work())


def test_write_to_an_ended_child_raises_connection_error(run: Run) -> None:
    async def work() -> None:
        child = await start_child("true", **_pipes())
        assert child.stdin is not None
        assert await child.wait() == 0
        with pytest.raises(ConnectionError):
            await _tell(child.stdin)

    run(work())


def test_every_waiter_gets_the_signal_that_ended_the_child(run: Run) -> None:
    async def work() -> None:
        child = await start_child("sleep", "60", stdin=DEVNULL)
        waiting = [asyncio.create_task(child.wait()) for _ in range(3)]
        child.kill()
        assert await asyncio.gather(*waiting) == [-9, -9, -9]
        child.kill()

    run(work())


def test_child_merges_its_outputs_and_gets_directory_and_environment(
    run: Run, tmp_path: Path
) -> None:
    async def work() -> None:
        child = await start_child(
            *(sys.executable, "-c", "import os; os.write(1, b'o'); os.write(2, os.getcwdb())"),
            stdout=PIPE,
            stderr=STDOUT,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        assert child.stdout is not None
        assert await child.stdout.read() == b"o" + bytes(tmp_path)
        assert await child.wait() == 0

    run(work())


def test_closed_child_ends_reads_though_a_grandchild_holds_the_pipe(run: Run) -> None:
    """Though a child of the child holds it open."""

    async def work() -> None:
        child = await start_child("sh", "-c", "sleep 60 & echo $!", stdout=PIPE)
        assert child.stdout is not None
        sleeper = int(await child.stdout.readline())
        assert await child.wait() == 0
        assert not child.stdout.at_eof()
        child.close()
        assert await child.stdout.read() == b""
        os.kill(sleeper, signal.SIGKILL)

    run(work())


@pytest.mark.skipif(os.getuid() != 0, reason="only root starts children as somebody else")
def test_child_runs_as_another_user(run: Run) -> None:
    async def work() -> None:
        child = await start_child(
            *("sh", "-c", "id -u; id -g; id -G"),
            stdout=PIPE,
            run_as=RunAs(user=65533, group=65532, extra_groups=[65531]),
        )
        assert child.stdout is not None
        assert (await child.stdout.read()).split() == [b"65533", b"65532", b"65532", b"65531"]
        assert await child.wait() == 0

    run(work())


def test_missing_command_raises_file_not_found(run: Run) -> None:
    async def work() -> None:
        with pytest.raises(FileNotFoundError):
            await start_child("/no/such/command", **_pipes())

    run(work())


async def _tell(stdin: ChildInput) -> None:
    """Without end."""
    while True:
        stdin.write(b"x" * 100_000)
        await stdin.drain()


def _pipes() -> dict[str, Any]:
    return {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}


_CLOSING = """
import asyncio, sys, uvloop
from orchgit.child import PIPE, start_child

async def work():
    child = await start_child("sh", "-c", "cat; echo no >&2", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    child.stdin.write(b"yes")
    child.stdin.close()
    print(await child.stdout.read(), await child.stderr.read(), await child.wait())
    child.close()

loop_factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[sys.argv[1]]
with asyncio.Runner(loop_factory=loop_factory) as runner:
    runner.run(work())
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_pipes_of_a_child_are_closed_once(loop: str, tmp_path: Path) -> None:
    """Between two closes another thread may have opened a file at the same number."""
    library = tmp_path / "closed_twice.so"
    source = Path(__file__).parents[1] / "support" / "closed_twice.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", _CLOSING, loop],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("b'yes' b'no\\n' 0\n", "", 0)
