"""What a server and its agent log: enough to follow what happens, and nothing alarming at first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.dev_server import dev_server
from tests.support.job_texts import sleeper


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_log_of_a_first_boot_and_a_failing_job_tells_the_story(tmp_path: Path) -> None:
    with dev_server(tmp_path / "data", "-no-demo", "-log-level", "INFO", "-log-json") as server:
        first_boot = lines(server.output)
        job = tmp_path / "job.nomad.hcl"
        job.write_text(sleeper("once", command="exit 3"))
        server.cli("job", "run", "-detach", str(job))
        server.wait_for(
            "/v1/job/once/allocations", lambda found: found and found[0]["ClientStatus"] == "failed"
        )
        told = lines(server.output)

    assert [line for line in first_boot if line["level"] not in ("info", "debug")] == []
    events = {(line["component"], line["event"]) for line in first_boot}
    assert ("raft", "server leads") in events
    assert ("server", "leadership gained") in events
    assert ("server", "node registered") in events
    assert ("agent", "connected to a server") in events
    later = {(line["component"], line["event"]) for line in told}
    assert ("agent", "allocation received") in later
    assert ("agent", "task started") in later
    [ended] = [line for line in told if line["event"] == "task ended"]
    assert (ended["task"], ended["exit_code"]) == ("main", 3)
    assert all({"timestamp", "level", "component", "event"} <= line.keys() for line in told)
