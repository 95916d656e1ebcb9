"""What an operator looks into on one server: its log, its profiles, its machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from orchgit import logs
from orchgit.api import host_facts
from tests.support.server_rig import ServerRig, server_rig

MARK = "a mark in the log"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("debug"), with_agent=False) as rig:
        before = logs.current()
        logs.configure(logs.LogSettings("WARN"))
        yield rig
        logs.configure(before)


def first_with_mark(rig: ServerRig, **params: str) -> str:
    """The first data of a monitor that holds the mark, which is logged until it comes."""
    log = structlog.get_logger(component="test")
    with rig.http.stream("GET", "/v1/agent/monitor", params=params) as answer:
        assert answer.status_code == 200
        log.debug(MARK)
        for data in answer.iter_text():
            if MARK in data or base64.b64encode(b"a mark")[:6].decode() in data or "Data" in data:
                return data
            log.debug(MARK)
    raise AssertionError("the monitor ended")


def test_monitor_sends_lines_below_the_level_that_the_server_writes(rig: ServerRig) -> None:
    data = first_with_mark(rig, log_level="DEBUG", plain="true")
    assert "level=debug component=test" in data


def test_monitor_sends_frames_of_json_lines(rig: ServerRig) -> None:
    data = first_with_mark(rig, log_level="DEBUG", log_json="true")
    lines = base64.b64decode(json.loads(data)["Data"]).decode().splitlines()
    assert {json.loads(line)["component"] for line in lines} >= {"test"}


def test_monitor_names_the_place_of_each_line_where_it_is_asked_for(rig: ServerRig) -> None:
    wanted = {"log_level": "DEBUG", "plain": "true", "log_include_location": "true"}
    assert "caller=test_agent_debug.py:" in first_with_mark(rig, **wanted)
    assert "caller=" not in first_with_mark(rig, log_level="DEBUG", plain="true")


def test_monitor_of_a_silent_log_tells_at_once_that_it_follows(rig: ServerRig) -> None:
    """A command that follows it goes on after the death of its server from then on."""
    with rig.http.stream("GET", "/v1/agent/monitor", params={"log_level": "ERROR"}) as answer:
        assert next(answer.iter_text()) == "{}"


def test_monitor_of_unknown_level_or_other_server_is_refused(rig: ServerRig) -> None:
    refused = rig.http.get("/v1/agent/monitor", params={"log_level": "loud"})
    assert (refused.status_code, refused.text) == (400, "Unknown log level: loud")
    refused = rig.http.get("/v1/agent/monitor", params={"server_id": "other"})
    assert refused.status_code == 500
    assert "other" in refused.text


@pytest.mark.parametrize("name", ["profile", "heap", "threadcreate", "goroutine", "cmdline"])
def test_profile_is_text_about_this_process(rig: ServerRig, name: str) -> None:
    answer = rig.http.get(f"/v1/agent/pprof/{name}")
    assert answer.status_code == 200
    assert answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_profile_that_python_cannot_make_is_a_clear_error(rig: ServerRig) -> None:
    refused = rig.http.get("/v1/agent/pprof/mutex")
    assert (refused.status_code, "Python" in refused.text) == (400, True)
    assert rig.http.get("/v1/agent/pprof/zzz").status_code == 404
    assert rig.http.get("/v1/agent/pprof/profile", params={"seconds": "999"}).status_code == 400


def test_host_names_no_secret(rig: ServerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "s3cret-value")
    monkeypatch.setenv("PROXY", "http://user:s3cret-value@proxy")
    found = rig.http.get("/v1/agent/host").json()
    assert found["Environment"]["MY_API_TOKEN"] == "<redacted>"
    assert "s3cret-value" not in json.dumps(found)
    assert set(found) == set(host_facts.read())


def test_reload_calls_what_the_process_attached(rig: ServerRig, tmp_path: Path) -> None:
    assert rig.http.put("/v1/agent/reload").status_code == 500
    called: list[int] = []
    rig.server.attach_reload(lambda: called.append(1))
    assert rig.http.put("/v1/agent/reload").status_code == 200
    assert called == [1]
