"""Creates, changes and deletes node pools."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.node import NodePool
from orchgit.replication.commands.settings import DeleteNodePools, UpsertNodePools
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.admission import multiple_errors

BUILT_IN_POOLS = ("all", "default")
_NAME = re.compile(r"^[a-zA-Z0-9-_]{1,128}$")


async def put_node_pool(context: UseCaseContext, pool: NodePool) -> int:
    if not _NAME.match(pool.name):
        problem = f'invalid name "{pool.name}", must match regex {_NAME.pattern}'
        raise InvalidInputError(f'invalid node pool "{pool.name}": {multiple_errors([problem])}')
    if pool.name in BUILT_IN_POOLS:
        raise InvalidInputError(f'modifying node pool "{pool.name}" is not allowed')
    if len(pool.description) > 256:
        raise InvalidInputError("description longer than 256 characters")
    applied = await context.propose(UpsertNodePools(now_ns=context.now_ns(), pools=[pool]))
    return applied.index


async def delete_node_pool(context: UseCaseContext, name: str, region: str = "global") -> int:
    """Raises RefusedError while nodes or jobs are in the pool, and for one that is built in."""
    with context.snapshot() as snapshot:
        if snapshot.node_pools.get(name) is None:
            raise RefusedError(f"node pool {name} not found")
        nodes = bool(snapshot.nodes.of_pool(name))
        jobs = snapshot.jobs.count_live_of_pool(name) > 0
    found = [(jobs, "non-terminal jobs"), (nodes, "nodes")]
    problems = [
        f'node pool "{name}" has {what} in regions: [{region}]'
        for is_there, what in found
        if is_there
    ]
    if problems:
        raise RefusedError(multiple_errors(problems))
    if name in BUILT_IN_POOLS:
        raise RefusedError(f"node pool {name} not allowed to be deleted")
    applied = await context.propose(DeleteNodePools(now_ns=context.now_ns(), names=[name]))
    return applied.index
