"""Driver config blocks, signals, users and durations: what is wrong is named."""

from __future__ import annotations

import os
import re

import msgspec
import pytest

from agent.drivers.config import TaskConfigError, decode_config, decode_options, duration_s
from agent.drivers.raw_exec import RawExecConfig
from agent.drivers.signals import signal_number
from agent.drivers.supervised import group_name
from agent.drivers.users import resolve_user
from orchgit.errors import DriverError


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, 'config of task web: "command" is required'),
        ({"comand": "x"}, r'unknown key "comand" \(did you mean "command"\?\)'),
        ({"command": "x", "zzz": 1, "yyy": 2}, 'unknown key "zzz", key "yyy"$'),
        ({"command": "x", "args": "y"}, r"Expected array.*args"),
        ({"command": ["x"]}, r"Expected str.*command"),
    ],
)
def test_config_that_does_not_fit(config: dict[str, object], reason: str) -> None:
    with pytest.raises(TaskConfigError) as refused:
        decode_config("raw_exec", "web", config, RawExecConfig)
    assert re.search(reason, refused.value.short)


def test_config_of_a_task_is_refused_in_the_recorded_words() -> None:
    with pytest.raises(TaskConfigError) as refused:
        decode_config("raw_exec", "t", {"command": "x", "nosuch": 1}, RawExecConfig)
    assert str(refused.value) == (
        "2 errors occurred:\n\t* failed to parse config: \n"
        '\t* Invalid label: No argument or block type is named "nosuch".\n\n'
    )


def test_numbers_for_strings_are_taken_as_hcl_does() -> None:
    shape = msgspec.defstruct("Shape", [("count", int), ("on", bool)])
    assert decode_config("d", "t", {"count": "3", "on": "true"}, shape) == shape(3, True)


def test_blocks_come_as_one_map_or_as_lists_of_maps() -> None:
    inner = msgspec.defstruct("Inner", [("a", str)], frozen=True)
    shape = msgspec.defstruct(
        "Blocks",
        [
            ("labels", dict[str, str], {}),
            ("one", inner | None, None),
            ("many", list[inner], []),
            ("words", list[str], []),
        ],
    )
    for given in ({"a": "1"}, [{"a": "1"}]):
        read = decode_config("d", "t", {"labels": given, "one": given, "many": given}, shape)
        assert read == shape({"a": "1"}, inner("1"), [inner("1")], [])
    repeated = [{"a": "1"}, {"b": "2"}, {"a": "3"}]
    assert decode_config("d", "t", {"labels": repeated}, shape).labels == {"a": "3", "b": "2"}
    with pytest.raises(DriverError, match=r'named "many\.b"'):
        decode_config("d", "t", {"many": [{"a": "1"}, {"a": "1", "b": 2}]}, shape)
    with pytest.raises(DriverError, match=r'"one\.a" is required'):
        decode_config("d", "t", {"one": {}}, shape)
    with pytest.raises(DriverError, match="one"):
        decode_config("d", "t", {"one": [{"a": "1"}, {"a": "2"}]}, shape)


def test_options_of_a_plugin_are_refused_by_name_and_place() -> None:
    shape = msgspec.defstruct("Options", [("volumes", msgspec.defstruct("V", [("enabled", bool)]))])
    with pytest.raises(
        DriverError,
        match=r'plugin "docker".*"volumes.enable" \(did you mean "volumes.enabled"\?\)',
    ):
        decode_options("docker", {"volumes": {"enable": True}}, shape)


@pytest.mark.parametrize(
    ("name", "number"), [("SIGTERM", 15), ("term", 15), ("15", 15), ("", 2), ("SIGUSR1", 10)]
)
def test_signal_names(name: str, number: int) -> None:
    assert signal_number(name) == number


@pytest.mark.parametrize("name", ["SIGNONE", "0", "999", "SIG_DFL", "alarm2", "-1"])
def test_unknown_signals(name: str) -> None:
    with pytest.raises(DriverError, match="cannot use signal"):
        signal_number(name)


def test_user_is_found_by_name_and_by_number() -> None:
    nobody = resolve_user("nobody")
    assert nobody is not None
    assert resolve_user(str(nobody.uid)) == nobody
    assert resolve_user("") is None
    unknown = resolve_user("61234:61235")
    assert unknown is not None
    assert (unknown.uid, unknown.gid, unknown.groups) == (61234, 61235, [61235])
    assert os.getuid() != 61234


@pytest.mark.parametrize("user", ["no-such-user", "nobody:nogroup2", "nobody:x"])
def test_unknown_users(user: str) -> None:
    with pytest.raises(DriverError, match="cannot run as user"):
        resolve_user(user)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("0", 0),
        ("", 0),
        ("3us", 3e-6),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "5 seconds", "s", "-1s", "1d", "1s2"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(DriverError, match="as a duration"):
        duration_s(text)


def test_group_names_are_plain_and_differ_where_keys_differ() -> None:
    assert group_name("abc/web/0") == "abc_web_0"
    names = {group_name(key) for key in ("a/b c/0", "a/b_c/0", "a/b/0", "a/" + "x" * 300 + "/0")}
    assert len(names) == 4
    assert all(len(name) < 128 and "/" not in name and " " not in name for name in names)
