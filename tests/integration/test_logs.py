"""What servers and agents log: who leads, what runs, and nothing alarming on a first boot."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from orchgit import logs
from orchgit.errors import InvalidInputError
from tests.support.joining_servers import JoiningServer, joining_servers
from tests.support.polling import until_blocking

LINE = re.compile(
    r"^timestamp=\S+Z level=(debug|info|warning|error) component=[\w.]+ event=(\"[^\"]+\"|\S+)"
)
JOB = """
job "ends" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "exit 3"]
      }
      restart {
        attempts = 0
      }
    }
  }
}
"""


def wait_for(server: JoiningServer, text: str) -> None:
    """On a busy machine a server takes a long time to start."""
    until_blocking(lambda: text in server.log or None)


def lines(server: JoiningServer) -> list[str]:
    """Without what is told to people."""
    return [line for line in server.log.splitlines() if not line.startswith(("==>", "    "))]


def alarms(server: JoiningServer) -> list[str]:
    return [line for line in lines(server) if not re.search(r" level=(info|debug) ", line)]


def test_first_start_of_three_servers_logs_no_warning_and_a_lost_leader_does(
    tmp_path: Path,
) -> None:
    with joining_servers(tmp_path, 3, bootstrap_expect=3) as servers:
        for one in servers:
            one.start()
        for one in servers:
            wait_for(one, "the leader is known")
            one.wait_for_peers(s1=True, s2=True, s3=True)
        assert [alarms(one) for one in servers] == [[], [], []]
        assert all(LINE.match(line) for one in servers for line in lines(one))
        (leader,) = [one for one in servers if "this server leads the cluster" in one.log]
        assert "won the election" in leader.log
        others = [one for one in servers if one is not leader]
        for one in others:
            assert f"leader={leader.name} address={leader.rpc}" in one.log
        leader.end(signal.SIGKILL)
        until_blocking(
            lambda: any("this server leads the cluster" in one.log for one in others) or None
        )
        for one in others:
            wait_for(one, "lost the leader")


def test_agent_logs_its_server_and_its_tasks(tmp_path: Path) -> None:
    with joining_servers(tmp_path, 1) as (one,):
        one.server.pop("server_join", None)
        one.server["bootstrap_expect"] = 1
        one.settings |= {
            "client": {"enabled": True, "network_interface": "lo"},
            "plugin": {"raw_exec": {"config": {"enabled": True}}},
            "log_json": True,
            "log_file": str(tmp_path / "agent.log"),
        }
        one.start()
        wait_for(one, "Node ready")
        job = tmp_path / "job.hcl"
        job.write_text(JOB.replace("ends", "well").replace("exit 3", "exit 0"))
        one.cli("job", "run", "-detach", str(job))
        wait_for(one, "task ended")
        assert alarms_in_json(one) == []
        job.write_text(JOB)
        one.cli("job", "run", "-detach", str(job))
        wait_for(one, '"exit_code": 3')
        wait_for(one, "task is not restarted")
        told = [json.loads(line) for line in lines(one)]
        by_event = {each["event"]: each for each in told}
        assert {"timestamp", "level", "component"} <= set.intersection(*map(set, told))
        assert by_event["connected to a server"]["server"] == one.rpc
        assert by_event["node changed its status"]["status"] == "ready"
        alloc = by_event["allocation received"]["alloc"]
        assert by_event["task started"]["alloc"] == alloc
        assert by_event["task ended"]["exit_code"] == 3
        assert "task ended" in (tmp_path / "agent.log").read_text()


def alarms_in_json(server: JoiningServer) -> list[str]:
    told = [json.loads(line) for line in lines(server)]
    return [each["event"] for each in told if each["level"] not in ("info", "debug")]


def test_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInputError, match='cannot use log_level "LOUD"'):
        logs.LogSettings("LOUD")
