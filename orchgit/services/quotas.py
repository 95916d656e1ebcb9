"""Creates, changes and deletes quotas, and tells how much of one is taken."""

from __future__ import annotations

import re

from msgspec.structs import fields, replace

from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.quota import QuotaAmounts, QuotaSpec
from orchgit.replication.commands.settings import DeleteQuotas, PutQuotas
from orchgit.services.context import UseCaseContext

_NAME = re.compile(r"[a-zA-Z0-9-]{1,128}")
_MAX_DESCRIPTION = 256
_MAX_AMOUNT = 2**53


async def put_quota(context: UseCaseContext, quota: QuotaSpec, region: str) -> int:
    """Stores a quota, whether or not it exists; `region` is the cluster's, and that of limits
    without one.

    Raises InvalidInputError for what cannot be stored or would have no effect, and
    NotUnderstoodError while a server of an earlier version is a member.
    """
    quota = replace(
        quota,
        limits=[replace(each, region=each.region or region) for each in quota.limits],
    )
    problem = _problem(quota, region)
    if problem:
        raise InvalidInputError(f'cannot store quota "{quota.name[:128]}": {problem}')
    return (await context.propose(PutQuotas(now_ns=context.now_ns(), quotas=[quota]))).index


def _problem(quota: QuotaSpec, region: str) -> str:
    if not _NAME.fullmatch(quota.name):
        return f"its name must match {_NAME.pattern}"
    if len(quota.description) > _MAX_DESCRIPTION:
        return f"its description is longer than {_MAX_DESCRIPTION} characters"
    if not quota.limits:
        return "it needs a limit"
    for limit in quota.limits:
        if limit.region != region:
            return (
                f'it has a limit for region "{limit.region[:64]}", which would have no effect: '
                f'this cluster\'s region is "{region}"'
            )
        for each in fields(QuotaAmounts):
            if abs(getattr(limit.region_limit, each.name)) > _MAX_AMOUNT:
                return f"{each.encode_name} is larger than {_MAX_AMOUNT}"
    if len(quota.limits) > 1:
        return f'it has {len(quota.limits)} limits for region "{region}"; write one'
    return ""


async def delete_quota(context: UseCaseContext, name: str) -> int:
    """Raises NotFoundError, and RefusedError while a namespace has the quota."""
    with context.snapshot() as snapshot:
        if snapshot.quotas.get(name) is None:
            raise NotFoundError(f'cannot delete quota "{name}": there is no such quota')
        users = [each.name for each in snapshot.namespaces.all() if each.quota == name]
    if users:
        raise RefusedError(
            f'cannot delete quota "{name}": namespaces have it ({", ".join(users[:5])}); give '
            "them another one first"
        )
    return (await context.propose(DeleteQuotas(now_ns=context.now_ns(), names=[name]))).index
