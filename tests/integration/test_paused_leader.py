"""A leader whose process stood still: what it is asked meanwhile is not answered from its past."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.support.loopback import Loopback
from tests.support.raw_http import RawConnection
from tests.support.real_cluster import RealCluster

_READERS = 30


def test_read_of_a_resumed_leader_returns_writes_made_during_its_pause(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Loopback()
        cluster = RealCluster(place, tmp_path, 3)
        try:
            await cluster.start()
            leader = await cluster.leader()
            await leader.ask("PUT", "/v1/var/kept", b'{"Items":{"is":"old"}}')
            readers = [await RawConnection.open(leader.http, place.dial) for _ in range(_READERS)]
            leader.signal(signal.SIGSTOP)
            asked = [
                asyncio.create_task(reader.request("GET", "/v1/var/kept")) for reader in readers
            ]
            next_leader = await cluster.leader(cluster.followers(leader))
            written = await next_leader.ask("PUT", "/v1/var/kept", b'{"Items":{"is":"new"}}', 20.0)
            assert written.status == 200
            leader.signal(signal.SIGCONT)
            async with asyncio.timeout(60):
                answers = await asyncio.gather(*asked)
            for answer in answers:
                assert b'"old"' not in answer.body, answer.text
            assert any(b'"new"' in answer.body for answer in answers)
        finally:
            await cluster.close()

    asyncio.run(scenario())
