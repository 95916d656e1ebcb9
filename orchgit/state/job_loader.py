"""Loading jobs that many requests need in the same turn of the event loop, with one query."""

from __future__ import annotations

import asyncio

from orchgit.model.job import Job
from orchgit.state.store import Store

_Key = tuple[str, str]


class JobLoader:
    """Belongs to the event loop's thread. The jobs of one turn of the loop are one query.

    Each query gives the interpreter's lock away several times, and the raft and applier threads
    want it: measured, one query for each registration was a fifth of the cost of registering.
    """

    def __init__(self) -> None:
        self._requests: list[tuple[_Key, asyncio.Future[Job | None]]] = []

    async def get(self, store: Store, namespace: str, job_id: str) -> Job | None:
        """Returns the current version, as of this turn of the loop or later."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Job | None] = loop.create_future()
        if not self._requests:
            loop.call_soon(self._load, store)
        self._requests.append(((namespace, job_id), answer))
        return await answer

    def _load(self, store: Store) -> None:
        requests, self._requests = self._requests, []
        try:
            found = store.latest().jobs.get_many({key for key, _ in requests})
        except Exception as error:  # noqa: BLE001 - each requester gets it
            for _, answer in requests:
                if not answer.done():
                    answer.set_exception(error)
            return
        for key, answer in requests:
            if not answer.done():
                answer.set_result(found.get(key))
