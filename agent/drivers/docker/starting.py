"""From a prepared container to a running one: its image, its creation, its start."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from agent.drivers.base import TaskConfig
from agent.drivers.docker.container import KEY_LABEL
from agent.drivers.docker.credentials import find_login
from agent.drivers.docker.flavour import EngineSettings, ImageWanted, PreparedContainer
from agent.drivers.docker.pulls import ImagePulls
from agent.paths import open_inside
from orchgit.errors import DriverError, OrchgitError

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Container, Engine

_log = structlog.get_logger(component="agent")


class ContainerStart:
    """One attempt's start: a thread may run it that nobody awaits any more."""

    def __init__(self) -> None:
        self.making = threading.Lock()
        """Held from the creation of the container to its start."""
        self.is_abandoned = False

    def make(self, engine: Engine, task: TaskConfig, wanted: PreparedContainer) -> Container:
        """Create and start the container. One that exists was started before a crash, and stays.

        A thread cannot be cancelled: when its task is destroyed meanwhile it makes no container
        any more; who destroys waits for a thread that is making one.
        """
        with self.making:
            if self.is_abandoned:
                raise DriverError(f"cannot start task {task.key}: it was ended meanwhile")
            container = engine.inspect(engine.create(wanted.name, wanted.request, wanted.attempts))
            if container.labels.get(KEY_LABEL) != task.key:
                raise DriverError(f"cannot start: another container is named {wanted.name}")
            if container.status == "created":
                try:
                    engine.start(container.id)
                except DriverError:
                    engine.remove(container.id)
                    raise
            return engine.inspect(container.id)


async def ensure_image(
    engine: Engine,
    wanted: ImageWanted,
    local_dir: str,
    settings: EngineSettings,
    pulls: ImagePulls,
    report: Callable[[str], None],
) -> str:
    """Returns the id of the task's image, which is loaded or pulled where that is needed.

    An image named `latest` is pulled at each start, since it changes.
    """
    name = wanted.name
    renew = wanted.force_pull or (name.is_latest and not wanted.archive)
    if (
        not renew
        and wanted.is_named
        and (found := await asyncio.to_thread(engine.images.find, name))
    ):
        return found
    if wanted.archive:
        report(f"Loading image {name.given} from {wanted.archive}")
        loaded = await asyncio.to_thread(
            _load, engine, wanted.archive, wanted.archive_root or local_dir
        )
        missing = f"the archive {wanted.archive} has only {', '.join(loaded) or 'no image'}"
        if loaded and not wanted.is_named:
            name = msgspec.structs.replace(name, local_name=loaded[0])
    else:
        await pulls.wait(name, await _auth_header(wanted, settings), wanted.timeout_s, report)
        missing = f"the engine has none for {name.platform or 'this machine'} after the pull"
    found = await asyncio.to_thread(engine.images.find, name)
    if not found:
        raise DriverError(f"cannot use image {name.given}: {missing}")
    return found


async def _auth_header(wanted: ImageWanted, settings: EngineSettings) -> str:
    try:
        login = await find_login(wanted.name, wanted.auth, settings.auth)
    except DriverError as error:
        if not wanted.auth_soft_fail:
            raise
        _log.warning("pulling without credentials", image=wanted.name.given, reason=str(error))
        return ""
    return login.header() if login else ""


def _load(engine: Engine, archive: str, root: str) -> list[str]:
    try:
        if os.path.isabs(archive):
            file = open(archive, "rb")  # noqa: SIM115 -- closed below
        else:
            file = os.fdopen(open_inside(Path(root), archive), "rb")
    except OSError as error:
        raise DriverError(f"cannot load the image archive {archive}: {error.strerror}") from None
    except OrchgitError as error:
        raise DriverError(f"cannot load the image archive {archive}: {error}") from None
    with file:
        return engine.images.load(file, archive)
