"""`orchgit simulate` on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dev_server import dev_server


@pytest.mark.long
def test_simulated_nodes_take_allocations_and_miss_no_heartbeat(tmp_path: Path) -> None:
    with dev_server(tmp_path / "data", "-no-demo") as server:
        options = ("-nodes", "20", "-processes", "2", "-duration", "1s", "-place", "60")
        found = server.cli_json("simulate", *options)
        assert (found["Nodes"], found["Allocations"]) == (20, 60)
        assert (found["MissedHeartbeats"], found["LostConnections"]) == (0, 0)
        assert found["ServerMostMemoryMiB"] > 10
        again = server.cli("simulate", *options)
        assert "simulated nodes of another run are not down yet" in again.err
        assert server.get("/v1/jobs", prefix="simulate-") == []
