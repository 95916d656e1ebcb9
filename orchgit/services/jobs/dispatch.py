"""Dispatches a parameterized job: checks payload and meta, registers one child."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field

from msgspec.structs import replace

from orchgit.errors import RefusedError
from orchgit.model.child_jobs import child_of, dispatched_id
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.job import Job, ParameterizedJobConfig
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_to_run
from orchgit.services.jobs.admission import MAX_PAYLOAD_BYTES, check_total_count


@dataclass(frozen=True, slots=True)
class DispatchRequest:
    """What a caller sends."""

    payload: bytes = b""
    meta: dict[str, str] = field(default_factory=dict)
    idempotency_token: str = ""
    id_prefix: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Dispatched:
    index: int
    job_id: str
    eval_id: str
    job_create_index: int


async def dispatch_job(
    context: UseCaseContext, namespace: str, job_id: str, request: DispatchRequest
) -> Dispatched:
    """Registers one child. The same idempotency token again returns the first child."""
    with context.snapshot() as snapshot:
        parent = snapshot.jobs.get(namespace, job_id)
    parent = _dispatchable(parent, job_id)
    check_total_count(parent, context.job_settings.max_count)
    check_payload(parent.parameterized_job or ParameterizedJobConfig(), request.payload)
    check_meta(parent.parameterized_job or ParameterizedJobConfig(), request.meta)
    if not request.idempotency_token:
        return await _register_child(context, parent, request)
    key = (namespace, job_id, request.idempotency_token)
    async with context.caches.dispatches.setdefault(key, asyncio.Lock()):
        earlier = await asyncio.to_thread(_dispatched_before, context, parent, key[2])
        return earlier or await _register_child(context, parent, request)


def _dispatched_before(context: UseCaseContext, parent: Job, token: str) -> Dispatched | None:
    """Reads every child, of which there may be many."""
    with context.snapshot() as snapshot:
        for child in snapshot.jobs.of_parent(parent.namespace, parent.id):
            if child.dispatch_idempotency_token == token:
                return Dispatched(snapshot.index, child.id, "", child.create_index)
    return None


def check_payload(config: ParameterizedJobConfig, payload: bytes) -> None:
    """Raises RefusedError where the payload breaks the job's rule or is over the limit."""
    size = len(payload)
    if size > MAX_PAYLOAD_BYTES:
        raise RefusedError(f"Payload exceeds maximum size; {size} > {MAX_PAYLOAD_BYTES}")
    if config.payload == "required" and size == 0:
        raise RefusedError("Payload is not provided but required by parameterized job")
    if config.payload == "forbidden" and size > 0:
        raise RefusedError("Payload provided but forbidden by parameterized job")


def check_meta(config: ParameterizedJobConfig, meta: dict[str, str]) -> None:
    """Raises RefusedError for keys that are missing or not allowed."""
    required = set(config.meta_required or ())
    allowed = required | set(config.meta_optional or ())
    if unknown := sorted(set(meta) - allowed):
        raise RefusedError(
            f"Dispatch request included unpermitted metadata keys: [{' '.join(unknown)}]"
        )
    if missing := sorted(required - set(meta)):
        raise RefusedError(f"Dispatch did not provide required meta keys: [{' '.join(missing)}]")


def _dispatchable(parent: Job | None, job_id: str) -> Job:
    if parent is None:
        raise RefusedError("parameterized job not found")
    if not parent.is_parameterized:
        raise RefusedError(f'Specified job "{job_id}" is not a parameterized job')
    if parent.stop:
        raise RefusedError(f'Specified job "{job_id}" is stopped')
    return parent


async def _register_child(
    context: UseCaseContext, parent: Job, request: DispatchRequest
) -> Dispatched:
    now_ns = context.now_ns()
    child_id = dispatched_id(parent, request.id_prefix, now_ns, context.ids.new())
    child = replace(
        child_of(parent, child_id, now_ns),
        dispatched=True,
        payload=base64.b64encode(request.payload).decode() or None,
        meta={**(parent.meta or {}), **request.meta} or None,
        dispatch_idempotency_token=request.idempotency_token,
        priority=request.priority or parent.priority,
        periodic=parent.periodic,
    )
    evaluation = evaluation_to_run(context, child, EvalTrigger.JOB_REGISTER)
    upsert = JobUpsert(child, expected_modify_index=0)
    applied = await context.propose(
        RegisterJob(now_ns=now_ns, upsert=upsert, evaluation=evaluation)
    )
    eval_id = evaluation.id if evaluation else ""
    return Dispatched(applied.index, child_id, eval_id, applied.index)
