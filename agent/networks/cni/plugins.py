"""One call of one CNI plugin: a program that reads its configuration and prints its result."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from orchgit.child import PIPE, start_child
from orchgit.errors import DriverError

CALL_TIMEOUT_S = 60.0
_MAX_OUTPUT_BYTES = 1 << 20
_SHOWN_BYTES = 2048


class PluginError(DriverError):
    """A plugin refused, failed, or did not answer; `code` is its own error code, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message, recoverable=True)
        self.code = code


class _Refusal(msgspec.Struct):
    code: int = 0
    msg: str = ""
    details: str = ""


def find(name: str, search_path: str) -> str:
    """Returns the path of the program. DriverError where no directory of `search_path` has it."""
    for directory in search_path.split(":"):
        path = Path(directory, name)
        if directory and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise DriverError(
        f'cannot set up the network: no CNI plugin "{name}" in {search_path}; install it '
        "(Debian: containernetworking-plugins), or name its directory in client.cni_path"
    )


async def call(
    program: str,
    environment: Mapping[str, str],
    configuration: Mapping[str, object],
    timeout_s: float = CALL_TIMEOUT_S,
    pass_fds: Sequence[int] = (),
) -> dict[str, Any]:
    """Returns what the plugin printed, {} if nothing. PluginError when it fails.

    A plugin that is late is killed with its children. All of them hold `pass_fds` open.
    """
    what = f"CNI plugin {Path(program).name} ({environment['CNI_COMMAND']})"
    try:
        process = await start_child(
            program,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except OSError as error:
        raise PluginError(f"cannot run {what}: {error.strerror}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            process.stdin.write(msgspec.json.encode(configuration))
            process.stdin.close()
            output, complaint = await asyncio.gather(
                _limited(process.stdout), _limited(process.stderr)
            )
            code = await process.wait()
    except TimeoutError:
        raise PluginError(f"{what} failed: no answer within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.close()
    if code != 0:
        raise _failure(what, code, output, complaint)
    if not output.strip():
        return {}
    try:
        return msgspec.json.decode(output, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise PluginError(f"{what} failed: its answer cannot be read: {error}") from None


async def _limited(stream: asyncio.StreamReader) -> bytes:
    """All of the stream. Reads on beyond the limit, so that the plugin does not wait, and then
    raises PluginError."""
    data = bytearray()
    while chunk := await stream.read(65536):
        if len(data) <= _MAX_OUTPUT_BYTES:
            data += chunk
    if len(data) > _MAX_OUTPUT_BYTES:
        raise PluginError(
            f"cannot read a CNI plugin's answer: it is over {_MAX_OUTPUT_BYTES} bytes"
        )
    return bytes(data)


def _failure(what: str, exit_code: int, output: bytes, complaint: bytes) -> PluginError:
    """The plugin's own words where it printed an error as the specification has it."""
    refusal = _Refusal()
    with contextlib.suppress(msgspec.MsgspecError):
        refusal = msgspec.json.decode(output, type=_Refusal)
    text = "; ".join(part for part in (refusal.msg, refusal.details) if part)
    if not text:
        printed = (complaint or output)[-_SHOWN_BYTES:].decode("utf-8", "replace").strip()
        text = printed or f"its exit code is {exit_code}"
    return PluginError(f"{what} failed: {text}", refusal.code)
