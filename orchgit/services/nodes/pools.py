"""Creates, changes and deletes node pools."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.node import NodePool
from orchgit.replication.commands import DeleteNodePools, UpsertNodePools
from orchgit.services.context import UseCaseContext

BUILT_IN_POOLS = ("all", "default")
_NAME = re.compile(r"^[a-zA-Z0-9-_]{1,128}$")


async def put_node_pool(context: UseCaseContext, pool: NodePool) -> int:
    if not _NAME.match(pool.name):
        raise InvalidInputError(
            f'invalid node pool "{pool.name}": invalid name "{pool.name}", must match regex '
            f"{_NAME.pattern}"
        )
    if pool.name in BUILT_IN_POOLS:
        raise InvalidInputError(f'modifying node pool "{pool.name}" is not allowed')
    if len(pool.description) > 256:
        raise InvalidInputError("description longer than 256 characters")
    applied = await context.propose(UpsertNodePools(now_ns=context.now_ns(), pools=[pool]))
    return applied.index


async def delete_node_pool(context: UseCaseContext, name: str) -> int:
    """Raises RefusedError while nodes or jobs are in the pool."""
    if name in BUILT_IN_POOLS:
        raise RefusedError(f"node pool {name} not allowed to be deleted")
    with context.snapshot() as snapshot:
        if snapshot.node_pools.get(name) is None:
            raise RefusedError(f"node pool {name} not found")
        nodes = [node.id for node in snapshot.nodes.all() if node.node_pool == name]
        jobs = [
            job.id for job in snapshot.jobs.all() if job.node_pool == name and job.status != "dead"
        ]
    if nodes:
        raise RefusedError(f'node pool "{name}" has nodes: {", ".join(nodes[:5])}')
    if jobs:
        raise RefusedError(f'node pool "{name}" has non-terminal jobs: {", ".join(jobs[:5])}')
    applied = await context.propose(DeleteNodePools(now_ns=context.now_ns(), names=[name]))
    return applied.index
