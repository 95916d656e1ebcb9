"""Creates, changes and deletes namespaces."""

from __future__ import annotations

import re

from orchgit.errors import RefusedError
from orchgit.model.node import Namespace
from orchgit.replication.commands.settings import DeleteNamespaces, UpsertNamespaces
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.admission import multiple_errors

DEFAULT_NAMESPACE = "default"
_NAME = re.compile(r"^[a-zA-Z0-9-]{1,128}$")


async def put_namespace(context: UseCaseContext, namespace: Namespace) -> int:
    if not _NAME.match(namespace.name):
        problem = f'invalid name "{namespace.name}". Must match regex {_NAME.pattern}'
        raise RefusedError(f'Invalid namespace "{namespace.name}": {multiple_errors([problem])}')
    if len(namespace.description) > 256:
        raise RefusedError(
            f'Invalid namespace "{namespace.name}": description longer than 256 characters'
        )
    if namespace.quota:
        with context.snapshot() as snapshot:
            is_known = snapshot.quotas.get(namespace.quota) is not None
        if not is_known:
            raise RefusedError(
                f'namespace "{namespace.name}" using non-existent quota "{namespace.quota}"'
            )
    applied = await context.propose(
        UpsertNamespaces(now_ns=context.now_ns(), namespaces=[namespace])
    )
    return applied.index


async def delete_namespace(context: UseCaseContext, name: str, region: str = "global") -> int:
    """Raises RefusedError while the namespace holds volumes, variables, or jobs or allocations
    that are not dead."""
    if name == DEFAULT_NAMESPACE:
        raise RefusedError("can not delete default namespace")
    with context.snapshot() as snapshot:
        if snapshot.namespaces.get(name) is None:
            raise RefusedError("namespace not found")
        found = (
            (snapshot.jobs.count_live_of_namespace(name) > 0, "non-terminal jobs"),
            (snapshot.allocations.has_live(namespace=name), "non-terminal allocations"),
            (bool(snapshot.host_volumes.all(name)), "volumes"),
            (bool(snapshot.variables.all(name)), "variables"),
        )
    problems = [
        f'namespace "{name}" has {what} in regions: [{region}]'
        for is_there, what in found
        if is_there
    ]
    if problems:
        raise RefusedError(multiple_errors(problems))
    applied = await context.propose(DeleteNamespaces(now_ns=context.now_ns(), names=[name]))
    return applied.index
