"""Workload identities: who gets a token, what it says, and when it is no longer believed."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from orchgit.clock import SECOND_NS
from orchgit.errors import ConflictError, InvalidInputError, NotAllowedError, NotFoundError
from orchgit.model.acl import AclPolicy, JobAcl
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.variable import RootKey
from orchgit.model.workload_identity import IdentityClaims, WantedIdentity
from orchgit.replication.commands.acl import PutAclPolicies
from orchgit.replication.commands.allocations import AllocClientUpdate
from orchgit.services.acl.resolve import IdentityKind, resolve
from orchgit.services.allocations.reports import NodeReports
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.identities import IdentityUseCases, verified_claims
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.secrets.sealing import new_key
from tests.support.factories import make_group, make_job, make_task
from tests.support.use_cases import placed_job, ready_node, with_context


class Rig:
    """One node that runs one allocation of `job`."""

    def __init__(self, context: UseCaseContext, node: Node, alloc_id: str) -> None:
        self.context, self.node, self.alloc_id = context, node, alloc_id
        self.keyring = Keyring(context, new_key())
        self.identities = IdentityUseCases(context, self.keyring, "https://orchgit.example")

    async def sign(self, identity: str = "default", task: str = "web", **changed: Any) -> str:
        wanted = WantedIdentity(changed.get("alloc_id", self.alloc_id), task, identity)
        node_id = changed.get("node_id", self.node.id)
        secret = changed.get("secret", self.node.secret_id)
        [signed] = await self.identities.sign(node_id, secret, [wanted])
        return signed.token

    def verified(self, token: str, later_s: int = 0) -> IdentityClaims | None:
        with self.context.snapshot() as snapshot:
            now_ns = self.context.now_ns() + later_s * SECOND_NS
            return verified_claims(snapshot, token, now_ns)


def with_rig(work: Callable[[Rig], Awaitable[None]], **fields: Any) -> None:
    identities = [
        {"Name": "vault", "Audience": ["vault.io"], "TTL": 3600 * SECOND_NS},
        {"Name": "short", "TTL": 60 * SECOND_NS},
    ]
    task = make_task(identities=identities)
    job: Job = make_job(task_groups=[make_group(tasks=[task])], **fields)

    async def run(context: UseCaseContext) -> None:
        node = await ready_node(context)
        [alloc_id] = await placed_job(context, job, [node])
        await work(Rig(context, node, alloc_id))

    with_context(run)


def payload_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def test_token_has_nomads_claims_and_is_verified() -> None:
    async def work(rig: Rig) -> None:
        token = await rig.sign()
        said = payload_of(token)
        token_id, now_s = said.pop("jti"), rig.context.now_ns() // SECOND_NS
        assert token_id
        with rig.context.snapshot() as snapshot:
            alloc = snapshot.allocations.get(rig.alloc_id)
        assert alloc is not None
        assert said == {
            "nomad_namespace": "default",
            "nomad_job_id": alloc.job_id,
            "nomad_allocation_id": rig.alloc_id,
            "nomad_task": "web",
            "sub": f"global:default:{alloc.job_id}:{alloc.task_group}:web:default",
            "aud": "nomadproject.io",
            "iss": "https://orchgit.example",
            "iat": now_s,
            "nbf": now_s,
        }
        claims = rig.verified(token)
        assert claims is not None
        assert claims.group == alloc.task_group

    with_rig(work)


def test_token_of_a_child_job_names_its_parent() -> None:
    async def work(rig: Rig) -> None:
        assert payload_of(await rig.sign())["nomad_job_id"] == "nightly"

    with_rig(work, parent_id="nightly")


def test_token_with_a_ttl_is_refused_after_it() -> None:
    async def work(rig: Rig) -> None:
        token = await rig.sign("short")
        assert rig.verified(token, 59) is not None
        assert rig.verified(token, 60) is None

    with_rig(work)


def test_token_for_another_audience_is_not_accepted_here() -> None:
    async def work(rig: Rig) -> None:
        assert rig.verified(await rig.sign("vault")) is None

    with_rig(work)


def test_token_is_refused_once_its_allocation_has_ended() -> None:
    async def work(rig: Rig) -> None:
        token = await rig.sign()
        await NodeReports(rig.context, rig.node.id).take(
            [AllocClientUpdate(rig.alloc_id, "complete")]
        )
        assert rig.verified(token) is None
        with pytest.raises(NotFoundError, match="does not run on node"):
            await rig.sign()

    with_rig(work)


def test_token_of_a_retired_key_is_verified_until_the_key_is_deleted() -> None:
    async def work(rig: Rig) -> None:
        old = await rig.keyring.active_key(rig.context)
        token = await rig.sign()
        await rig.keyring.rotate(rig.context, full=True)
        assert rig.verified(token) is not None
        await rig.keyring.delete(rig.context, old.key_id, force=True)
        assert rig.verified(token) is None

    with_rig(work)


def test_key_whose_tokens_running_tasks_may_hold_is_deleted_by_force_only() -> None:
    async def work(rig: Rig) -> None:
        old = await rig.keyring.active_key(rig.context)
        token = await rig.sign()
        second = await rig.keyring.rotate(rig.context, full=True)
        with pytest.raises(ConflictError, match="may hold a token that this one signed"):
            await rig.keyring.delete(rig.context, old.key_id)
        assert rig.verified(token) is not None
        await rig.keyring.rotate(rig.context, full=True)
        with pytest.raises(ConflictError):
            await rig.keyring.delete(rig.context, second.key_id)  # tokens are renewed
        await NodeReports(rig.context, rig.node.id).take(
            [AllocClientUpdate(rig.alloc_id, "complete")]
        )
        await rig.keyring.delete(rig.context, old.key_id)
        await rig.keyring.delete(rig.context, second.key_id)

    with_rig(work)


def test_task_without_tokens_keeps_no_key() -> None:
    async def run(context: UseCaseContext) -> None:
        node = await ready_node(context)
        await placed_job(context, make_job(), [node])
        keyring = Keyring(context, new_key())
        old = await keyring.active_key(context)
        await keyring.rotate(context, full=True)
        await keyring.delete(context, old.key_id)

    with_context(run)


def test_task_that_began_after_the_rotation_keeps_no_key() -> None:
    async def run(context: UseCaseContext) -> None:
        node = await ready_node(context)
        keyring = Keyring(context, new_key())
        old = await keyring.active_key(context)
        await keyring.rotate(context, full=True)
        task = make_task(identity={"Env": True})
        await placed_job(context, make_job(task_groups=[make_group(tasks=[task])]), [node])
        await keyring.delete(context, old.key_id)

    with_context(run)


def forged(token: str, key: RootKey) -> list[str]:
    """Tokens that say what a signed one says, or more, without the cluster's signature."""
    head, payload, signature = token.split(".")
    claims = {**payload_of(token), "nomad_job_id": "other"}
    other = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()

    def header(**fields: str) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(fields)).rstrip(b"=").decode()

    return [
        f"{head}.{other}.{signature}",
        f"{head}.{payload}.",
        f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        f"{header(alg='none', kid=key.key_id)}.{other}.",
        f"{header(alg='HS256', kid=key.key_id)}.{payload}.{signature}",
        f"{header(alg='RS256', kid='nosuch')}.{payload}.{signature}",
        f"{header(alg='RS256')}.{payload}.{signature}",
        f"{head}.{payload}.é{signature}",
        "..",
        "a.b.c",
        token * 20,
    ]


def test_forged_tokens_are_refused() -> None:
    async def work(rig: Rig) -> None:
        token, key = await rig.sign(), await rig.keyring.active_key(rig.context)
        assert [rig.verified(each) for each in forged(token, key)] == [None] * 11

    with_rig(work)


def test_another_node_gets_no_token_of_the_allocation() -> None:
    async def work(rig: Rig) -> None:
        other = await ready_node(rig.context)
        with pytest.raises(NotFoundError, match="does not run on node"):
            await rig.sign(node_id=other.id, secret=other.secret_id)

    with_rig(work)


def test_wrong_secret_or_unknown_node_gets_no_token() -> None:
    async def work(rig: Rig) -> None:
        for changed in ({"secret": "guess"}, {"node_id": "nosuch"}):
            with pytest.raises(NotAllowedError, match="cannot sign identities for node"):
                await rig.sign(**changed)

    with_rig(work)


def test_identity_that_the_job_does_not_have_is_not_signed() -> None:
    async def work(rig: Rig) -> None:
        for identity, task in (("nosuch", "web"), ("default", "nosuch")):
            with pytest.raises(NotFoundError, match="its job has no such identity"):
                await rig.sign(identity, task)
        with pytest.raises(InvalidInputError, match="at most 100"):
            await rig.identities.sign(
                rig.node.id, rig.node.secret_id, [WantedIdentity("a", "t")] * 101
            )

    with_rig(work)


def test_workload_resolves_to_the_policies_bound_to_it() -> None:
    async def work(rig: Rig) -> None:
        token = await rig.sign()
        [namespace, job_id, group] = payload_of(token)["sub"].split(":")[1:4]
        bound = {
            "namespace": JobAcl(namespace),
            "job": JobAcl(namespace, job_id),
            "task": JobAcl(namespace, job_id, group, "web"),
            "other-namespace": JobAcl("other"),
            "other-job": JobAcl(namespace, "other"),
            "other-task": JobAcl(namespace, job_id, group, "other"),
        }
        policies = [AclPolicy(name=name, job_acl=each) for name, each in bound.items()]
        await rig.context.propose(PutAclPolicies(policies=[*policies, AclPolicy(name="free")]))
        with rig.context.snapshot() as snapshot:
            found = resolve(snapshot, token, rig.context.now_ns())
            assert resolve(snapshot, f"{token}x", rig.context.now_ns()) is None
        assert found is not None
        assert (found.kind, found.is_management) == (IdentityKind.WORKLOAD, False)
        assert set(found.policies) == {"namespace", "job", "task"}
        assert found.accessor_id == rig.alloc_id

    with_rig(work)
