"""What every test shares."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

# Imported first: CPython 3.11 can refuse to parse source after some test provoked a RecursionError,
# and hypothesis parses source while it is imported.
import hypothesis
import pytest

from orchgit import logs
from tests.support.process_state import process_state

hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
logs.configure(logs.LogSettings("DEBUG"))

# A shell starts what runs in its background with SIGINT ignored, and children inherit that: nothing
# that a test starts could be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

_MOST_PROCESSES = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite uses every core, which takes three processes for two cores: its tests wait a
    third of their time (measured: 12 min 4 s with two, 9 min 52 s with three). Tests that were
    named run in this process (0), where nothing has to start first and a debugger works."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return 0
    return min(len(os.sched_getaffinity(0)) * 3 // 2, _MOST_PROCESSES)


@pytest.fixture(scope="session", autouse=True)
def _no_mounts_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Agents that tests stop leave the secrets of their tasks mounted, as they must."""
    yield
    if os.geteuid() == 0:
        from agent.hooks.secrets_mount import unmount_below

        unmount_below(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def _process_left_as_it_was() -> Iterator[None]:
    """Takes back what a test has left changed, as later tests would run in another way, and only in
    some orders."""
    before = process_state()
    yield
    if before.changes(process_state()):
        before.restore()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests run only where the command line asks for them; else they are shown as skipped."""
    if "long" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.skip(reason="long: run with -m long"))
