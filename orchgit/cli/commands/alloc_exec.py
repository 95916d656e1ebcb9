"""`orchgit alloc exec`: a command in a running task, with a terminal if the caller has one."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.exchange import BrokenError
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_find import find_or_of_job, task_of
from orchgit.cli.completion import ALLOCATION, id_argument
from orchgit.cli.options import connected, option_field, options_of
from orchgit.cli.printing.terminal import raw_stream

_PIECE_BYTES = 32 * 1024
_LINE_ENDS = b"\r\n"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How standard input and the terminal are joined to the command."""

    interactive: bool = option_field(
        "i",
        is_flag=True,
        switchable=True,
        default=True,
        help="Pass standard input on.",
    )
    tty: bool | None = option_field(
        "t",
        is_flag=True,
        switchable=True,
        default=None,
        help="Give the command a terminal. Without -t: if standard input is one.",
    )
    escape: str = option_field(
        "e", default="~", help="First character of a line that, before '.', ends the session."
    )

    @property
    def has_terminal(self) -> bool:
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        return is_terminal if self.tty is None else self.tty


@dataclass(frozen=True, slots=True)
class AllocExecOptions(SessionOptions):
    task: str | None = option_field("task", help="The task to run it in.")
    job: bool = option_field(
        "job", is_flag=True, help="The first argument is a job: take one of its allocations."
    )
    group: str | None = option_field("group", help="With -job: an allocation of this group.")


@cli_command("exec", context_settings={"allow_interspersed_args": False})
@id_argument("identifier", ALLOCATION)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@options_of(AllocExecOptions)
@connected
def exec_(
    client: ApiClient, identifier: str, command: tuple[str, ...], options: AllocExecOptions
) -> None:
    """Run COMMAND in a running task; its exit code is this command's."""
    found = find_or_of_job(client, identifier, options.job, options.group)
    path = f"/v1/client/allocation/{found['ID']}/exec"
    task = task_of(client, found, options.task)
    asked = {"task": task, "command": json.dumps(command)}
    raise SystemExit(run_session(client, path, asked, options))


def run_session(
    client: ApiClient, path: str, asked: dict[str, str], options: SessionOptions
) -> int:
    """Joins this program's input and output with a command's; returns its exit code."""
    has_terminal = options.has_terminal
    sock = client.websocket(path, **asked, tty="true" if has_terminal else "false")
    try:
        with _raw_terminal(has_terminal), _window_sizes(sock.send, has_terminal):
            if options.interactive:
                escape = options.escape.encode() if has_terminal else b""
                reading = threading.Thread(
                    target=_send_input, args=(sock, escape), daemon=True, name="exec input"
                )
                reading.start()
            else:
                sock.send({"stdin": {"close": True}})
            for frame in sock.frames():
                for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
                    data = (frame.get(name) or {}).get("data")
                    if data:
                        out = raw_stream(stream)
                        out.flush()
                        out.buffer.write(base64.b64decode(data))
                        out.buffer.flush()
                if frame.get("exited"):
                    return int((frame.get("result") or {}).get("exit_code") or 0)
    except BrokenError as error:
        raise ApiError(f"cannot run the command: {error}") from error
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        sock.close()
    raise ApiError("cannot tell how the command ended: the server closed the connection")


def _send_input(sock: Any, escape: bytes) -> None:
    """Sends standard input until it ends; the escape sequence closes the connection."""
    descriptor = sys.stdin.fileno()
    with contextlib.suppress(OSError, ValueError):
        line_begins = True
        while data := os.read(descriptor, _PIECE_BYTES):
            if escape and line_begins and data.startswith(escape):
                data += os.read(descriptor, 1) if data == escape else b""
                if data[len(escape) : len(escape) + 1] == b".":
                    sock.close()
                    return
            line_begins = data[-1:] in _LINE_ENDS
            sock.send({"stdin": {"data": base64.b64encode(data).decode()}})
        sock.send({"stdin": {"close": True}})


@contextlib.contextmanager
def _raw_terminal(wanted: bool) -> Iterator[None]:
    """Passes keys on one by one, as the command's terminal expects them."""
    if not (wanted and sys.stdin.isatty()):
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _window_sizes(send: Any, wanted: bool) -> Iterator[None]:
    """Sends the size of the terminal, now and after each change."""
    if not (wanted and sys.stdout.isatty()):
        yield
        return

    def tell(*_: object) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        with contextlib.suppress(OSError):
            send({"tty_size": {"height": size.lines, "width": size.columns}})

    before = signal.signal(signal.SIGWINCH, tell)
    tell()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
