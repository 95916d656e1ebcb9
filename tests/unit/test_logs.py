"""The one log: every line has its time, level and component, and steers no terminal."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from orchgit.errors import InvalidInputError
from orchgit.logs import configure_logs, set_level


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.NOTSET)


_log = structlog.get_logger(component="raft")


def test_line_begins_with_time_level_component_and_event(stream: io.StringIO) -> None:
    configure_logs("INFO", False, stream)
    _log.info("server leads", leader="10.0.0.1:4648", term=7)
    line = stream.getvalue()
    assert line.startswith("timestamp=20")
    assert line.endswith(
        ' level=info component=raft event="server leads" leader=10.0.0.1:4648 term=7\n'
    )


def test_json_line_has_the_same_fields(stream: io.StringIO) -> None:
    configure_logs("INFO", True, stream)
    _log.warning("node missed its heartbeat", node="n1")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["component"], line["node"]) == ("warning", "raft", "n1")
    assert line["event"] == "node missed its heartbeat"
    assert line["timestamp"].startswith("20")


def test_libraries_log_into_the_same_lines_with_their_tracebacks(stream: io.StringIO) -> None:
    configure_logs("INFO", False, stream)
    try:
        raise ValueError("bad frame")
    except ValueError:
        logging.getLogger("grpc._cython").exception("lost %s", "it")
    [line] = stream.getvalue().splitlines()
    assert 'level=error component=grpc event="lost it"' in line
    assert "ValueError: bad frame" in line


def test_level_is_kept_to_and_changes_live(stream: io.StringIO) -> None:
    configure_logs("WARN", False, stream)
    _log.info("quiet")
    logging.getLogger("asyncio").info("quiet")
    set_level("debug")
    _log.debug("told")
    assert "quiet" not in stream.getvalue()
    assert "event=told" in stream.getvalue()


def test_text_from_outside_does_not_steer_the_terminal(stream: io.StringIO) -> None:
    configure_logs("INFO", False, stream)
    _log.info("commit applied", subject="\x1b[31mred\nforged=line")
    [line] = stream.getvalue().splitlines()
    assert "\x1b" not in line
    assert r"\x1b[31mred\nforged=line" in line


def test_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="DEBUG, ERROR, INFO, TRACE, WARN, WARNING"):
        set_level("loud")
