"""The settings that every evaluation reads, cached from one view to the next."""

from __future__ import annotations

from orchgit.model.node import NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.state.cache import Cache
from orchgit.state.snapshot import StateReads


class SettingsCache:
    """Belongs to one state: its owner makes a new one when one of `TABLES` has changed."""

    TABLES = ("scheduler_config", "node_pools", "namespaces")

    def __init__(self) -> None:
        self._pools: Cache[str, NodePool | None] = Cache()
        self._config: SchedulerConfig | None = None
        self._has_other_namespaces: bool | None = None

    def scheduler_config(self, reads: StateReads) -> SchedulerConfig:
        if self._config is None:
            self._config = reads.scheduler_config.get()
        return self._config

    def node_pool(self, reads: StateReads, name: str) -> NodePool | None:
        return self._pools.load(name, lambda: reads.node_pools.get(name))

    def has_other_namespaces(self, reads: StateReads) -> bool:
        """Whether a namespace exists beside the built-in one."""
        if self._has_other_namespaces is None:
            self._has_other_namespaces = reads.namespaces.count() > 1
        return self._has_other_namespaces
