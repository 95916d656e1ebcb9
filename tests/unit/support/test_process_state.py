"""What a test leaves changed of the process is noticed and taken back."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import structlog

from orchgit import logs
from tests.support.process_state import environment, process_state

_NAME = "ORCHGIT_TEST_OF_STATE"


@contextlib.contextmanager
def _other_directory() -> Iterator[None]:
    with contextlib.chdir("/"):
        yield


@contextlib.contextmanager
def _other_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@contextlib.contextmanager
def _other_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGUSR1, before)


@contextlib.contextmanager
def _log_without_configuration() -> Iterator[None]:
    before = logs.current()
    structlog.reset_defaults()
    yield
    logs.configure(before)


@contextlib.contextmanager
def _other_log_level() -> Iterator[None]:
    before = logs.current()
    logs.configure(logs.LogSettings("ERROR"))
    yield
    logs.configure(before)


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (_other_directory, "directory"),
        (_other_umask, "umask"),
        (_other_handler, "handlers"),
        (partial(environment, {_NAME: "x"}), "environment"),
        (_log_without_configuration, "logger_factory"),
        (_other_log_level, "log_settings"),
        (_no_collector, "collector"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_change_of_the_process_is_named_and_taken_back(
    changed: Callable[[], contextlib.AbstractContextManager[None]], named: str
) -> None:
    before = process_state()
    with changed():
        assert before.changes(process_state()) == [named]
        before.restore()
        assert before.changes(process_state()) == []


def test_environment_of_a_block_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "before")
    with environment({"PATH": "within", _NAME: "new"}):
        assert (os.environ["PATH"], os.environ[_NAME]) == ("within", "new")
    assert os.environ["PATH"] == "before"
    assert _NAME not in os.environ


def test_interrupts_reach_what_a_test_starts() -> None:
    ignored = int(Path("/proc/self/status").read_text().split("SigIgn:")[1].split()[0], 16)
    assert not ignored & 1 << signal.SIGINT - 1
