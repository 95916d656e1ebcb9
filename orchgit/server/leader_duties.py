"""What a server does when it begins to lead, and stops when it no longer leads.

The scheduler's queues and watchers are in `control/leader.py`. Here is the rest: the configuration
that a new cluster begins with, the sources, the first root key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from orchgit.clock import Clock
from orchgit.errors import OrchgitError
from orchgit.gitops.gitops import Gitops
from orchgit.server.config import ServerConfig
from orchgit.server.tasks import end_tasks
from orchgit.services.cluster.autopilot_config import set_autopilot_config
from orchgit.services.cluster.scheduler_config import set_scheduler_config
from orchgit.services.gitops.sources import put_source
from orchgit.services.services import Services

_log = structlog.get_logger(component="server")
_RETRY_S = 1.0


class LeaderDuties:
    """Runs this server's duties as the leader.

    `end_streams` ends the agents' streams when leadership is lost: agents connect to the leader.
    """

    def __init__(
        self,
        config: ServerConfig,
        services: Services,
        gitops: Gitops,
        end_streams: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._config = config
        self._services = services
        self._gitops = gitops
        self._end_streams = end_streams
        self._clock = clock

    async def run(self) -> None:
        """Starts and stops the duties as leadership comes and goes; until canceled."""
        work: list[asyncio.Task[None]] = []
        try:
            async for leads in self._services.context.state.leadership.subscribe():
                await end_tasks(work)
                if leads:
                    work = [asyncio.create_task(self._begin(), name="leader duties")]
                    continue
                self._end_streams()
                await self._gitops.stop()
        finally:
            await end_tasks(work)

    async def _begin(self) -> None:
        """Does what a new leader has to do; tries again while something prevents it."""
        while True:
            try:
                await self._store_configuration()
                await self._gitops.start()
                await self._make_first_root_key()
                return
            except OrchgitError as error:
                _log.warning(
                    "cannot start all duties of the leader; trying again", error=str(error)
                )
                await self._clock.sleep(_RETRY_S)

    async def _store_configuration(self) -> None:
        """Stores the configured settings and sources, unless they are stored already."""
        context, wanted = self._services.context, self._config.scheduler_config
        if wanted is not None:
            await set_scheduler_config(context, wanted, expected_modify_index=0)
        if self._config.autopilot_config is not None:
            await set_autopilot_config(
                context, self._config.autopilot_config, expected_modify_index=0
            )
        with context.snapshot() as snapshot:
            known = {source.name for source in snapshot.sources.all()}
        for source in self._config.sources:
            if source.name not in known:
                await put_source(context, source)

    async def _make_first_root_key(self) -> None:
        """Makes the first root key: clients look for a signing key soon after the first start."""
        try:
            await self._services.keyring.active_key(self._services.context)
        except OrchgitError as error:
            _log.warning(
                "cannot make the first root key; the first variable makes it", error=str(error)
            )
