"""The one log: every line has its time, level and component, and steers no terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from orchgit.errors import InvalidInputError
from orchgit.logs import LogSettings, configure, current


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = current()
    yield
    configure(before)


_log = structlog.get_logger(component="raft")


def test_line_begins_with_time_level_component_and_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings("INFO", False))
    _log.info("server leads", leader="10.0.0.1:4648", term=7)
    line = capsys.readouterr().err
    assert line.startswith("timestamp=20")
    assert line.endswith(
        ' level=info component=raft event="server leads" leader=10.0.0.1:4648 term=7\n'
    )


def test_json_line_has_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings("INFO", True))
    _log.warning("node missed its heartbeat", node="n1")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["component"], line["node"]) == ("warning", "raft", "n1")
    assert line["event"] == "node missed its heartbeat"
    assert line["timestamp"].startswith("20")


def test_library_logs_use_the_same_format_with_tracebacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings("INFO", False))
    try:
        raise ValueError("bad frame")
    except ValueError:
        logging.getLogger("grpc._cython").exception("lost %s", "it")
    [line] = capsys.readouterr().err.splitlines()
    assert 'level=error component=grpc event="lost it"' in line
    assert "ValueError: bad frame" in line


def test_lines_below_the_level_are_dropped_and_the_level_changes_live(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(LogSettings("WARN"))
    _log.info("quiet")
    logging.getLogger("asyncio").info("quiet")
    configure(LogSettings("debug"))
    _log.debug("told")
    told = capsys.readouterr().err
    assert "quiet" not in told
    assert "event=told" in told
    assert current().level == "debug"


def test_lines_go_to_the_log_file_which_is_reopened_after_a_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orchgit.log"
    configure(LogSettings(file=str(path)))
    _log.info("first")
    path.rename(tmp_path / "orchgit.log.1")
    configure(current())
    _log.info("second")
    assert "event=first" in (tmp_path / "orchgit.log.1").read_text()
    assert "event=second" in path.read_text()
    assert capsys.readouterr().err.count("\n") == 2


def test_control_characters_of_logged_text_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings("INFO", False))
    _log.info("commit applied", subject="\x1b[31mred\nforged=line")
    [line] = capsys.readouterr().err.splitlines()
    assert "\x1b" not in line
    assert r"\x1b[31mred\nforged=line" in line


def test_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="TRACE, DEBUG, INFO, WARN or ERROR"):
        LogSettings("loud")
