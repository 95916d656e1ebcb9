"""Fetches one artifact: reads its block, lets a confined process fetch, and moves the result in.

Downloading and unpacking happen in a directory of the agent next to the task's files, on the same
disk, so that moving costs nothing and a task never sees half of an artifact.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from agent.artifacts.child import FetchInput
from agent.artifacts.install import Owner, install_file, install_tree
from agent.artifacts.plan import FetchError, FetchLimits, FetchPlan, FetchReply
from agent.artifacts.source import SERVICE_ACCOUNT, read_source
from agent.drivers.users import UserIds
from agent.hooks.base import SetupError
from agent.hooks.files import destination_parts
from agent.paths import PRIVATE, TaskPaths, open_directory
from agent.tasks.task_state import TaskEventType
from orchgit.child import PIPE, start_child
from orchgit.errors import DriverError
from orchgit.model.interpolation import Interpolator
from orchgit.model.task import TaskArtifact

_START_TIMEOUT_S = 60.0
_LOGIN = re.compile(r"//[^/@]*@")
_MAX_KEY_FILE_CHARACTERS = 1 << 16
_REPLY_BYTES = 1 << 16
_CHILD_USER = "nobody"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


async def fetch(
    artifact: TaskArtifact,
    interpolate: Interpolator,
    paths: TaskPaths,
    limits: FetchLimits,
    user: UserIds | None,
) -> None:
    """Fetch one artifact into the task's files. Raises SetupError, recoverable where a later
    attempt may succeed. `user` is the task's, and gets the files where the job says `chown`."""
    source = interpolate.text(artifact.getter_source)
    destination = interpolate.text(artifact.relative_dest)
    try:
        plan = read_source(
            source,
            _interpolated(artifact.getter_options, interpolate),
            _interpolated(artifact.getter_headers, interpolate),
            artifact.getter_mode,
            artifact.getter_insecure,
            limits,
            _credentials(limits),
        )
        root, parts = destination_parts(paths, destination)
        async with _staging(paths) as staging:
            reply = await _run(plan, staging)
            await asyncio.to_thread(_install, reply, staging, root, parts, _owner(artifact, user))
    except (FetchError, OSError, DriverError) as error:
        raise _failed(source, str(error)) from None


def _failed(source: str, why: str) -> SetupError:
    """The query and the login may be secrets. Whether the task is tried again says its restart
    policy: servers of artifacts come and go."""
    shown = _LOGIN.sub("//", source.partition("?")[0])
    message = f'failed to download artifact "{shown}": {why}'
    return SetupError(message, recoverable=True, event_type=TaskEventType.ARTIFACT_FAILED)


def _credentials(limits: FetchLimits) -> dict[str, str]:
    """What the configuration lets artifacts have of the agent's environment; the file that a
    variable names is read here, since the fetching process cannot."""
    found = {name: os.environ[name] for name in limits.environment if name in os.environ}
    if path := found.get(SERVICE_ACCOUNT):
        with open(path, encoding="utf-8", errors="replace") as file:
            found[SERVICE_ACCOUNT] = file.read(_MAX_KEY_FILE_CHARACTERS)
    return found


def _interpolated(texts: Mapping[str, str] | None, interpolate: Interpolator) -> dict[str, str]:
    return {key: interpolate.text(value) for key, value in (texts or {}).items()}


def _owner(artifact: TaskArtifact, user: UserIds | None) -> Owner:
    if os.geteuid() != 0:
        if artifact.chown and user is not None and user.uid != os.geteuid():
            raise FetchError("chown gives files away, which only an agent that is root can do")
        return Owner(None)
    if artifact.chown and user is not None:
        return Owner((user.uid, user.gid))
    return Owner((0, os.getegid()))


def _child_user() -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(_CHILD_USER)
    except KeyError:
        raise DriverError(
            f'cannot fetch artifacts as root: this node has no user "{_CHILD_USER}"'
        ) from None
    return entry.pw_uid, entry.pw_gid


@contextlib.asynccontextmanager
async def _staging(paths: TaskPaths) -> AsyncIterator[Path]:
    """A new directory that the fetching process may write to, and no task can reach.

    What was unpacked there may be any number of files, so a thread removes them.
    """
    parent = paths.task_dir / PRIVATE
    parent.mkdir(mode=0o700, exist_ok=True)
    await asyncio.to_thread(_remove_left, parent)
    path = Path(tempfile.mkdtemp(prefix="fetch-", dir=parent))
    try:
        if (user := _child_user()) is not None:
            os.chown(path, *user)
        yield path
    finally:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


def _remove_left(parent: Path) -> None:
    """What agents left that were killed while they fetched."""
    for left in parent.glob("fetch-*"):
        shutil.rmtree(left, ignore_errors=True)


async def _run(plan: FetchPlan, staging: Path) -> FetchReply:
    """Returns the child's reply; FetchError where it has none."""
    # nothing of the agent's but where certificates lie and what its configuration names
    environment = (*_CERTIFICATE_VARIABLES, *plan.limits.environment)
    child = await start_child(
        sys.executable,
        "-I",
        "-m",
        "agent.artifacts.child",
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=staging,
        env={name: os.environ[name] for name in environment if name in os.environ},
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        async with asyncio.timeout(plan.timeout_s + _START_TIMEOUT_S):
            child.stdin.write(msgspec.json.encode(FetchInput(plan, _child_user())))
            child.stdin.close()
            answer = await child.stdout.read(_REPLY_BYTES)
            said = await child.stderr.read(_REPLY_BYTES)
            status = await child.wait()
    except TimeoutError:
        raise FetchError(f"it took longer than {plan.timeout_s:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # git and what it started end too
            os.killpg(child.pid, signal.SIGKILL)
        child.close()
        await child.wait()
    try:
        reply = msgspec.json.decode(answer, type=FetchReply)
    except msgspec.MsgspecError:
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2][:300]
        raise FetchError(f"the fetching process ended with {status}: {last}") from None
    if reply.error:
        raise FetchError(reply.error)
    return reply


def _install(reply: FetchReply, staging: Path, root: Path, parts: list[str], owner: Owner) -> None:
    with contextlib.ExitStack() as stack:

        def opened(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        staging_fd = opened(os.open(staging, _DIRECTORY))
        if reply.tree:
            source_fd = opened(_walk(staging_fd, reply.tree))
            install_tree(source_fd, opened(open_directory(root, parts)), owner)
            return
        if not parts:
            raise FetchError('mode = "file" needs the name of a file in destination')
        above, _, name = reply.file.rpartition("/")
        source_fd = opened(_walk(staging_fd, above))
        destination_fd = opened(open_directory(root, parts[:-1]))
        install_file(source_fd, name, destination_fd, parts[-1], owner)


def _walk(fd: int, path: str) -> int:
    """The directory below, and none behind a link: the answer is the fetching process's."""
    fd = os.dup(fd)
    for part in path.split("/") if path else ():
        if part == "..":
            os.close(fd)
            raise FetchError("the fetching process answered a path outside its directory")
        try:
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
