"""Every metric of a server's process, as its owners give them now."""

from __future__ import annotations

import asyncio

from orchgit.api.cluster_gauges import cluster_gauges, process_gauges
from orchgit.api.context import ApiContext
from orchgit.metrics.values import Metric


async def collected(api: ApiContext) -> list[Metric]:
    """Returns what the configured filter shows, with the node's that runs in this process."""
    settings = api.telemetry
    with api.services.context.snapshot() as snapshot:
        found: list[Metric] = [*process_gauges(), *api.scrape()]
        # In threads: there may be many jobs, and a source may have many.
        found += await asyncio.to_thread(lambda: list(cluster_gauges(snapshot, settings)))
        if api.gitops is not None:
            found += await asyncio.to_thread(api.gitops.metrics, snapshot)
    if api.local_node is not None:
        found += await api.local_node.metrics()
    return settings.filter.of(found)
