"""A server that lost its disk, and whose configuration names no others, forms a cluster of its own
where the former one still counts on it: over real sockets and files, in one process."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from structlog.testing import capture_logs

from tests.integration.test_replication_members import jobs, register, servers, start, take_in
from tests.support.polling import until


def test_lone_server_that_lost_its_disk_does_not_rejoin_its_former_cluster(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with servers(tmp_path, 3) as group:
            first, second, lost = group
            for one in (second, lost):
                await take_in(first, one)
            await register(first, "before")
            await lost.stop()
            shutil.rmtree(lost.config.data_dir)
            group[2] = alone = await start(tmp_path, lost.cluster.address)
            await alone.leadership.gained()
            await register(alone, "apart")
            theirs = first.store.snapshot().meta.log_id()
            ours = alone.store.snapshot().meta.log_id()
            assert theirs
            assert ours not in ("", theirs)

            async def both_are_told() -> bool:
                said = [each for each in lines if "belongs to another cluster" in each["event"]]
                of_former = [each for each in said if each["its_log"] == theirs]
                return bool(of_former) and len(of_former) < len(said)

            await until(both_are_told)
            await register(first, "after")
            assert jobs(alone) == ["apart"]
            assert jobs(first) == ["after", "before"]
            assert alone.cluster.is_leader
            (silent,) = [
                one for one in first.cluster.peer_progress() if one.address == lost.cluster.address
            ]
            await first.membership.remove(lost.cluster.address)
            assert silent.last_contact_s > 0

    with capture_logs() as lines:
        asyncio.run(scenario())
