"""The leader deletes what has expired: on a real log, with a clock that the test moves."""

from __future__ import annotations

import asyncio

from orchgit.clock import SECOND_NS, FakeClock
from orchgit.control.watchers.expired_tokens import ExpiredTokens
from orchgit.model.acl import AclToken, OneTimeToken, SealedSecret
from orchgit.model.variable import RootKey
from orchgit.replication.commands.acl import CreateAclToken
from orchgit.replication.commands.acl_logins import PutOneTimeToken
from orchgit.replication.commands.root_keys import PutRootKey
from orchgit.services.context import UseCaseContext
from tests.support.use_cases import with_context


def token(accessor: str, expires_ns: int) -> AclToken:
    return AclToken(
        accessor,
        secret_hash=accessor,
        secret=SealedSecret("k", b""),
        expiration_time_ns=expires_ns,
    )


async def left(context: UseCaseContext, accessors: set[str], one_time: int) -> None:
    """Waits until these tokens, and as many one-time tokens, are left."""
    store = context.state.store
    async with asyncio.timeout(60):
        while True:
            index = store.watch.applied_index
            with context.snapshot() as snapshot:
                found = {each.accessor_id for each in snapshot.acl_tokens.all()}
                if (found, snapshot.acl_one_time_tokens.count()) == (accessors, one_time):
                    return
            await store.watch.wait(["acl_tokens", "acl_one_time_tokens"], index, 10)


def test_expired_tokens_are_deleted_an_hour_later_and_one_time_tokens_at_once() -> None:
    async def work(context: UseCaseContext) -> None:
        clock = context.clock
        assert isinstance(clock, FakeClock)
        now_ns = clock.now_ns()
        await context.propose(PutRootKey(key=RootKey(key_id="k")))
        for accessor, expires_ns in (("never", 0), ("soon", now_ns + SECOND_NS)):
            await context.propose(CreateAclToken(token=token(accessor, expires_ns)))
        watcher = ExpiredTokens(context.state, clock, 3600)
        feed = context.state.subscribe()

        async def follow() -> None:
            async for batch in feed:
                watcher.take(batch)

        tasks = [asyncio.create_task(watcher.run()), asyncio.create_task(follow())]
        try:
            one_time = OneTimeToken("hash", "never", now_ns + 600 * SECOND_NS)
            await context.propose(PutOneTimeToken(token=one_time))
            await clock.advance(599)
            await left(context, {"never", "soon"}, 1)
            await clock.advance(2)
            await left(context, {"never", "soon"}, 0)
            await clock.advance(3600 - 602)
            await left(context, {"never", "soon"}, 0)
            await clock.advance(4)
            await left(context, {"never"}, 0)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            feed.close()

    with_context(work)
