"""`docker`: containers of a Docker engine, and the network namespaces that they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.drivers.base import CreatedNetwork, NetworkRequest, ReportEvent, no_events
from agent.drivers.config import duration_s
from agent.drivers.docker.container_driver import ContainerDriver
from agent.drivers.docker.flavour import DockerFlavour, ImageWanted
from agent.drivers.docker.options import DockerOptions
from agent.drivers.docker.pause import (
    create_pause_container,
    pause_image,
    pause_image_archive,
    remove_pause_container,
)
from agent.drivers.locks import StartLocks
from orchgit.clock import Clock

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Engine


class DockerDriver(ContainerDriver):
    """The driver of a Docker engine. A container joins only the network of another one, so the
    driver makes the network namespaces of its groups."""

    def __init__(
        self,
        data_dir: Path,
        options: DockerOptions,
        clock: Clock,
        report: ReportEvent = no_events,
    ) -> None:
        super().__init__(DockerFlavour(options), data_dir, clock, report)
        self._options = options
        self._creating = StartLocks()

    async def create_network(self, request: NetworkRequest) -> CreatedNetwork:
        """As `base.CreatesNetworks` has it: a pause container holds the namespace."""
        engine = await self._connected()
        async with self._creating.of(request.alloc_id):
            image_id = await self._pause_image(engine, request.alloc_id)
            return await self._call(create_pause_container, engine, request, self._owner, image_id)

    async def destroy_network(self, alloc_id: str) -> None:
        engine = await self._connected()
        async with self._creating.of(alloc_id):
            await self._call(remove_pause_container, engine, alloc_id)

    async def _pause_image(self, engine: Engine, alloc_id: str) -> str:
        options = self._options
        name = pause_image(options.infra_image)
        if options.infra_image:
            timeout_s = duration_s(options.infra_image_pull_timeout)
            wanted = ImageWanted(name=name, timeout_s=timeout_s)
            return await self._ensure_image(engine, wanted, "", lambda _: None)
        found = await self._call(engine.images.find, name)
        return found or await self._call(
            engine.images.make, pause_image_archive(), name, ["/pause"]
        )
