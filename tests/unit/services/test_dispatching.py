"""What a dispatch must and must not carry, and the child it makes."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import RefusedError
from orchgit.model.job import ParameterizedJobConfig
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.admission import MAX_PAYLOAD_BYTES
from orchgit.services.jobs.dispatch import (
    DispatchRequest,
    check_meta,
    check_payload,
    dispatch_job,
)
from orchgit.services.jobs.register import register_job
from tests.support.factories import make_batch_job, make_job
from tests.support.use_cases import with_context


@pytest.mark.parametrize(
    ("rule", "payload", "refusal"),
    [
        pytest.param("optional", b"x" * 0, None, id="optional-none"),
        pytest.param("optional", b"x" * MAX_PAYLOAD_BYTES, None, id="largest"),
        pytest.param("optional", b"x" * (MAX_PAYLOAD_BYTES + 1), "maximum size", id="too-large"),
        pytest.param("required", b"x" * 0, "not provided but required", id="required-none"),
        pytest.param("required", b"x" * 1, None, id="required-given"),
        pytest.param("forbidden", b"x" * 1, "provided but forbidden", id="forbidden-given"),
    ],
)
def test_dispatch_payload_follows_the_jobs_rule(
    rule: str, payload: bytes, refusal: str | None
) -> None:
    config = ParameterizedJobConfig(payload=rule)
    if refusal is None:
        check_payload(config, payload)
        return
    with pytest.raises(RefusedError, match=refusal):
        check_payload(config, payload)


KEYS = st.sets(st.sampled_from("abcdef"))


@settings(max_examples=50)
@given(required=KEYS, optional=KEYS, given_keys=KEYS)
def test_dispatch_meta_must_be_complete_and_allowed(
    required: set[str], optional: set[str], given_keys: set[str]
) -> None:
    config = ParameterizedJobConfig(meta_required=sorted(required), meta_optional=sorted(optional))
    meta = dict.fromkeys(given_keys, "v")
    if required <= given_keys <= required | optional:
        check_meta(config, meta)
    else:
        with pytest.raises(RefusedError, match="Dispatch"):
            check_meta(config, meta)


def test_dispatch_registers_a_child_with_its_own_meta() -> None:
    async def work(context: UseCaseContext) -> None:
        config = ParameterizedJobConfig(meta_required=["m"])
        await register_job(
            context, make_batch_job(id="p", parameterized_job=config, meta={"k": "v"})
        )
        request = DispatchRequest(payload=b"xxx", meta={"m": "1"}, id_prefix="blue")
        done = await dispatch_job(context, "default", "p", request)
        with context.snapshot() as snapshot:
            child = snapshot.jobs.get("default", done.job_id)
            parent = snapshot.jobs.get("default", "p")
        assert child is not None
        assert parent is not None
        assert done.job_id.startswith("p/dispatch-blue-")
        assert child.meta == {"k": "v", "m": "1"}
        assert child.payload == base64.b64encode(b"xxx").decode()
        assert child.parent_id == "p"
        assert not child.is_parameterized
        assert parent.meta == {"k": "v"}
        assert done.eval_id

    with_context(work)


def test_repeated_idempotency_token_returns_the_first_child() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(
            context, make_batch_job(id="p", parameterized_job=ParameterizedJobConfig())
        )
        request = DispatchRequest(idempotency_token="once")
        first = await dispatch_job(context, "default", "p", request)
        again = await dispatch_job(context, "default", "p", request)
        assert (again.job_id, again.eval_id) == (first.job_id, "")
        with context.snapshot() as snapshot:
            assert len(snapshot.jobs.of_parent("default", "p")) == 1

    with_context(work)


def test_requests_of_one_moment_with_one_idempotency_token_make_one_child() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(
            context, make_batch_job(id="p", parameterized_job=ParameterizedJobConfig())
        )
        request = DispatchRequest(idempotency_token="once")
        done = await asyncio.gather(
            *(dispatch_job(context, "default", "p", request) for _ in range(5))
        )
        assert len({each.job_id for each in done}) == 1
        with context.snapshot() as snapshot:
            assert len(snapshot.jobs.of_parent("default", "p")) == 1

    with_context(work)


def test_only_an_existing_parameterized_job_can_be_dispatched() -> None:
    async def work(context: UseCaseContext) -> None:
        await register_job(context, make_job(id="web"))
        with pytest.raises(RefusedError, match="is not a parameterized job"):
            await dispatch_job(context, "default", "web", DispatchRequest())
        with pytest.raises(RefusedError, match="parameterized job not found"):
            await dispatch_job(context, "default", "none", DispatchRequest())

    with_context(work)
