"""`podman`: containers that go on without an engine, reached through its service socket."""

from __future__ import annotations

from pathlib import Path

from agent.drivers.base import ReportEvent, no_events
from agent.drivers.docker.container_driver import ContainerDriver
from agent.drivers.podman.config import PodmanOptions
from agent.drivers.podman.flavour import PodmanFlavour
from orchgit.clock import Clock


class PodmanDriver(ContainerDriver):
    """The driver of a Podman service. A container joins any network namespace by its path, so the
    agent makes those of groups."""

    def __init__(
        self,
        data_dir: Path,
        options: PodmanOptions,
        clock: Clock,
        report: ReportEvent = no_events,
    ) -> None:
        super().__init__(PodmanFlavour(options), data_dir, clock, report)
