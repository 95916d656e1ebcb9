"""Logs, files and events are followed over the death of servers: nothing is lost or doubled."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.cli.client.followed_files import FollowedFile, FollowedLog, last_lines
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import LONGEST_FAULT_S, FaultNotices, Patience

BROKEN = ApiError("cannot reach the server")


def frame(file: int, start: int, data: bytes) -> str:
    return json.dumps(
        {
            "Data": base64.b64encode(data).decode(),
            "File": f"alloc/logs/web.stdout.{file}",
            "Offset": start + len(data),
        }
    )


@dataclass
class Answers(ApiClient):
    """Answers the streams asked for, one after the other; an ApiError among texts breaks one."""

    answers: list[list[str | ApiError]]
    asked: list[tuple[str, str]] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def stream_text(
        self,
        path: str,
        /,
        opened: Callable[[], None] | None = None,
        silence_s: float = 0.0,
        **params: Any,
    ) -> Iterator[str]:
        self.asked.append((params["origin"], params["offset"]))
        answer = self.answers.pop(0) if self.answers else [BROKEN]
        if opened is not None and answer[:1] != [BROKEN]:
            opened()
        for each in answer:
            if isinstance(each, ApiError):
                raise each
            yield each

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def patience(self) -> Patience:
        return Patience(FaultNotices("logs"), lambda: self.now_s, self.sleep)

    def log(self) -> FollowedLog:
        return FollowedLog(self, "/logs", {"origin": "start", "offset": "0"}, self.patience())


def test_log_goes_on_where_it_was_broken_off(capsys: pytest.CaptureFixture[str]) -> None:
    client = Answers(
        [
            ["{}", frame(0, 0, b"one "), frame(1, 0, b"two "), BROKEN],
            [BROKEN],
            [frame(0, 2, b"e "), frame(1, 0, b"two three "), frame(2, 0, b"four"), "{}"],
        ]
    )
    assert b"".join(client.log().data()) == b"one two three four"
    assert client.asked == [("start", "0"), ("end", "65536"), ("end", "65536")]
    assert capsys.readouterr().err == (
        "==> Waiting for servers to follow logs: cannot reach the server\n"
        "==> Servers answer again; following logs.\n"
    )


def test_log_that_grew_a_lot_is_read_again_from_further_back() -> None:
    client = Answers(
        [
            [frame(3, 0, b"one "), BROKEN],
            [frame(5, 900, b"late")],
            [frame(4, 7, b"late")],
            [frame(2, 0, b"old"), frame(3, 0, b"one two "), frame(4, 0, b"three")],
        ]
    )
    assert b"".join(client.log().data()) == b"one two three"
    assert client.asked[1:] == [("end", "65536"), ("end", "4194304"), ("start", "0")]


def test_frames_are_not_cut_where_nothing_was_broken_off() -> None:
    """Other servers may tell where the first part of a frame ends."""
    early = json.loads(frame(0, 0, b"two")) | {"Offset": 4}
    client = Answers([[frame(0, 0, b"one"), json.dumps(early)]])
    assert b"".join(client.log().data()) == b"onetwo"


def test_file_goes_on_at_its_offset() -> None:
    client = Answers([[frame(0, 40, b"one "), BROKEN], [frame(0, 44, b"two")]])
    query = {"origin": "end", "offset": "9"}
    followed = FollowedFile(client, "/stream", query, client.patience())
    assert b"".join(followed.data()) == b"one two"
    assert client.asked == [("end", "9"), ("start", "44")]


def test_followed_log_begins_with_whole_last_lines() -> None:
    long, whole = b"x" * 300 + b"\n", b"0123456789\n" * 30
    client = Answers(
        [
            [frame(1, 100, (b"9\n" + long)[-200:])],
            [frame(0, 0, whole), frame(1, 0, b"8\n9\n" + long)],
            [frame(1, 0, b"8\n9\n" + long + b"new\n")],
        ]
    )
    log = FollowedLog(client, "/logs", {"origin": "end", "offset": "0"}, client.patience(), 1)
    assert b"".join(log.data()) == long + b"new\n"
    assert client.asked == [("end", "200"), ("end", "3200"), ("end", "65536")]


@pytest.mark.parametrize("lines", [0, 2])
def test_followed_file_begins_where_its_last_lines_begin(lines: int) -> None:
    client = Answers([[frame(0, 0, b"1\n2\n3\n")], [frame(0, 6, b"4\n")]])
    query = {"origin": "end", "offset": "0"}
    followed = FollowedFile(client, "/stream", query, client.patience(), lines)
    assert b"".join(followed.data()) == b"1\n2\n3\n"[6 - 2 * lines :] + b"4\n"
    assert client.asked[1] == ("start", "6")


def test_followed_log_without_a_byte_yet_begins_with_the_first() -> None:
    client = Answers([["{}"], [frame(0, 0, b"1\n")]])
    log = FollowedLog(client, "/logs", {"origin": "end", "offset": "0"}, client.patience(), 5)
    assert b"".join(log.data()) == b"1\n"
    assert client.asked == [("end", "1000"), ("start", "0")]


def test_last_lines_of_a_text_without_line_ends_are_bounded() -> None:
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return b"x" * size

    assert len(last_lines(read, 1)) == asked[-1] == 16 << 20
    assert last_lines(read, 0) == b""


def test_first_failure_and_a_refusal_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ApiError, match="cannot reach"):
        list(Answers([[BROKEN]]).log().data())
    assert capsys.readouterr().err == ""
    client = Answers([[frame(0, 0, b"one"), BROKEN], [ApiError("Permission denied", 403)]])
    with pytest.raises(ApiError, match="Permission denied"):
        list(client.log().data())


def test_fault_without_end_ends_the_command() -> None:
    client = Answers([[frame(0, 0, b"one"), BROKEN]])
    with pytest.raises(ApiError, match="cannot follow logs further: cannot reach the server"):
        list(client.log().data())
    assert LONGEST_FAULT_S < client.now_s < LONGEST_FAULT_S + 5


def test_answer_that_is_no_frame_is_one_error() -> None:
    with pytest.raises(ApiError, match="cannot understand what"):
        list(Answers([["<html>"]]).log().data())


def test_faults_of_several_readers_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    notices = FaultNotices("logs")
    first, second = (Patience(notices, lambda: 0.0, lambda _: None) for _ in range(2))
    for each in (first, second, first):
        each.wait_after(BROKEN)
    first.answered()
    assert capsys.readouterr().err == (
        "==> Waiting for servers to follow logs: cannot reach the server\n"
    )
    second.answered()
    assert capsys.readouterr().err == "==> Servers answer again; following logs.\n"
