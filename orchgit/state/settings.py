"""What every evaluation asks for again, kept from one view to the next until it changes."""

from __future__ import annotations

from orchgit.model.node import NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.state.snapshot import StateReads


class Settings:
    """Of one state; made anew when one of `TABLES` has changed."""

    TABLES = ("scheduler_config", "node_pools", "namespaces")

    def __init__(self) -> None:
        self._pools: dict[str, NodePool | None] = {}
        self._config: SchedulerConfig | None = None
        self._has_other_namespaces: bool | None = None

    def scheduler_config(self, reads: StateReads) -> SchedulerConfig:
        if self._config is None:
            self._config = reads.scheduler_config.get()
        return self._config

    def node_pool(self, reads: StateReads, name: str) -> NodePool | None:
        if name not in self._pools:
            self._pools[name] = reads.node_pools.get(name)
        return self._pools[name]

    def has_other_namespaces(self, reads: StateReads) -> bool:
        """Whether there are any beside the built-in one."""
        if self._has_other_namespaces is None:
            self._has_other_namespaces = reads.namespaces.count() > 1
        return self._has_other_namespaces
