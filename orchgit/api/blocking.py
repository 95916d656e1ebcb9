"""Blocking queries: `index=N&wait=60s` answers when what is read has moved past N."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.kept_answers import KeptAnswer
from orchgit.clock import SECOND_NS
from orchgit.durations import DurationError, parse_ns
from orchgit.errors import InvalidInputError
from orchgit.state.changes import target
from orchgit.state.snapshot import Snapshot
from orchgit.whole_number import whole_number

T = TypeVar("T")
DEFAULT_WAIT_S = 300.0
MAX_WAIT_S = 600.0
_LONG_BYTES = 256 << 10
"""To compress more than this takes long enough to hold others up."""
JITTER_SHARE = 16
"""Waits are lengthened by up to 1/16, so that clients which began together do not end together."""

Read = Callable[[Snapshot], tuple[T, int]]


async def blocking_read(
    call: ApiCall, tables: Sequence[str], read: Read[T], *, is_one_row: bool = False
) -> tuple[T, int]:
    """Reads again after each change of `tables`, until the index exceeds the request's `index`.

    `read` returns a value and its index. Returns the first value that is new enough, or the last
    one when the wait ends. `read` is called in a thread, since what it reads may be long, unless
    `is_one_row` says that it is not.
    """
    min_index, wait_s = wait_parameters(call)
    store, clock = call.context.state.store, call.context.clock
    deadline_s = clock.monotonic_s() + wait_s

    def read_now() -> tuple[T, int, int]:
        with store.snapshot() as snapshot:
            return *read(snapshot), snapshot.index

    while True:
        value, index, seen = read_now() if is_one_row else await asyncio.to_thread(read_now)
        remaining_s = deadline_s - clock.monotonic_s()
        if not min_index or index > min_index or remaining_s <= 0:
            return value, max(index, 1)
        await store.watch.wait(tables, max(seen, min_index), remaining_s)
        call.refresh_access()


def wait_parameters(call: ApiCall) -> tuple[int, float]:
    """Returns (index to exceed, seconds to wait); with index 0 the answer does not wait."""
    if "index" not in call.query and "wait" not in call.query:
        return 0, 0.0
    min_index = whole_number(call.query.get("index") or "0")
    if min_index is None or min_index < 0:
        raise InvalidInputError("Invalid index")
    wait_s = DEFAULT_WAIT_S
    if wait := call.query.get("wait"):
        try:
            wait_s = parse_ns(wait) / SECOND_NS
        except DurationError as error:
            raise InvalidInputError("Invalid wait time") from error
    wait_s = min(wait_s, MAX_WAIT_S)
    jitter = random.uniform(0, wait_s / JITTER_SHARE)  # noqa: S311 - spreads load, guards nothing
    return min_index, wait_s + jitter


async def answer_list(
    call: ApiCall,
    tables: Sequence[str],
    read: Callable[[Snapshot], Any],
    *,
    depends_on: Sequence[str] = (),
) -> Response:
    """Answers with a list whose index is that of its tables.

    `read` may return (value, extra headers). It is called in a thread, since a list may be long.
    With `depends_on`, every table that `read` looks at, the encoded answer is given again until one
    of them changes.
    """
    await _until_moved(call, tables)
    if depends_on:
        return await _answer_kept(call, tables, read, depends_on)

    def answer() -> Response:
        with call.context.state.store.snapshot() as snapshot:
            value, index = read(snapshot), snapshot.table_indexes.newest(*tables)
        value, headers = value if isinstance(value, tuple) else (value, None)
        return call.answer(value, index=index, headers=headers, read=True)

    return await asyncio.to_thread(answer)


async def _until_moved(call: ApiCall, tables: Sequence[str]) -> None:
    """Returns when `tables` are beyond the request's index, or the wait ends. Nothing is read
    before."""
    min_index, wait_s = wait_parameters(call)
    watch, clock = call.context.state.store.watch, call.context.clock
    deadline_s = clock.monotonic_s() + wait_s
    while min_index and watch.index(tables) <= min_index:
        if (remaining_s := deadline_s - clock.monotonic_s()) <= 0:
            return
        await watch.wait(tables, min_index, remaining_s)
        call.refresh_access()


async def _answer_kept(
    call: ApiCall,
    tables: Sequence[str],
    read: Callable[[Snapshot], Any],
    depends_on: Sequence[str],
) -> Response:
    store = call.context.state.store
    before = call.api.kept_answers.before()

    def answer() -> KeptAnswer:
        with store.snapshot() as snapshot:
            value, index = read(snapshot), snapshot.table_indexes.newest(*tables)
            table_index = snapshot.table_indexes.newest(*depends_on)
        value, headers = value if isinstance(value, tuple) else (value, {})
        body = call.encode(value)
        return KeptAnswer(depends_on, table_index, before, index, body, headers)

    key = call.read_key
    found = await call.api.kept_answers.answer(key, lambda: asyncio.to_thread(answer))
    if call.takes_gzip(found.body) and len(found.body) > _LONG_BYTES:
        await asyncio.to_thread(found.zipped)
    return call.answer_kept(found)


async def answer_object(
    call: ApiCall,
    tables: Sequence[str],
    read: Callable[[Snapshot], Any],
    missing: str,
    shown: Callable[[Any], Any] = lambda found: found,
    *,
    key: str = "",
    is_one_row: bool = False,
    depends_on: Sequence[str] = (),
) -> Response:
    """Answers with one object; its index is its `modify_index`, or its table's where there is none.

    `read` returns None for an unknown object: 404 with the text `missing`. With the object's `key`
    in the first table, changes of other objects do not wake the reader. `is_one_row` as for
    `blocking_read`. With `depends_on`, every table that `read` looks at, the encoded answer is
    given again until one of them changes; what it reads must not be long.
    """

    def indexed(snapshot: Snapshot) -> tuple[Any, int]:
        found = read(snapshot)
        own = getattr(found, "modify_index", 0)
        return found, own or snapshot.table_indexes.newest(*tables)

    targets = [target(tables[0], key), *tables[1:]] if key else tables
    if depends_on:
        found, index = await _kept_object(call, targets, indexed, shown, depends_on)
        if found is not None:
            return call.answer_kept(found)
    else:
        value, index = await blocking_read(call, targets, indexed, is_one_row=is_one_row)
        if value is not None:

            def answer() -> Response:
                return call.answer(shown(value), index=index, read=True)

            return answer() if is_one_row else await asyncio.to_thread(answer)
    headers = {"X-Nomad-Index": str(index), **call.contact_headers()}
    return text_response(missing, 404, headers)


async def _kept_object(
    call: ApiCall,
    targets: Sequence[str],
    read: Read[Any],
    shown: Callable[[Any], Any],
    depends_on: Sequence[str],
) -> tuple[KeptAnswer | None, int]:
    """Returns (answer, its index) as `blocking_read`; nothing is read while a kept answer is
    current."""
    store, clock, kept_answers = call.context.state.store, call.context.clock, call.api.kept_answers
    min_index, wait_s = wait_parameters(call)
    deadline_s = clock.monotonic_s() + wait_s
    read_key = call.read_key
    while True:
        seen, found = store.watch.applied_index, kept_answers.find(read_key)
        if found is not None:
            index = found.index
        else:
            before = kept_answers.before()
            with store.snapshot() as snapshot:
                value, index = read(snapshot)
                seen, table_index = snapshot.index, snapshot.table_indexes.newest(*depends_on)
            if value is not None:
                body = call.encode(shown(value))
                found = KeptAnswer(depends_on, table_index, before, index, body)
                kept_answers.keep(read_key, found)
        remaining_s = deadline_s - clock.monotonic_s()
        if not min_index or index > min_index or remaining_s <= 0:
            return found, max(index, 1)
        await store.watch.wait(targets, max(seen, min_index), remaining_s)
        call.refresh_access()
