"""Commands that join a task's network do so with the agent's rights, and without its variables."""

from __future__ import annotations

import subprocess

import pytest

from agent.drivers.sessions import Command, in_network

_ENV = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": "/alloc/x.so", "GCONV_PATH": "/alloc", "LDAP": "y"}


def test_loader_variables_reach_only_the_command_of_another_user() -> None:
    argv, env = in_network(
        Command(argv=["id"], env=_ENV, cwd="/", uid=65534, network_namespace="/run/netns/x")
    )
    assert env == {"PATH": "/usr/bin:/bin", "LDAP": "y"}
    assert argv[-3:] == ["LD_PRELOAD=/alloc/x.so", "GCONV_PATH=/alloc", "id"]
    assert argv[-4].endswith("/env")
    assert argv[-5] == "--", "util-linux has become the user before"


def test_command_of_the_agents_own_user_keeps_its_environment() -> None:
    argv, env = in_network(
        Command(argv=["id"], env=_ENV, cwd="/", network_namespace="/run/netns/x")
    )
    assert (argv[-2:], env) == (["--", "id"], _ENV)


@pytest.mark.parametrize("env", [{"LD_BIND_NOW": "1", "A": "b"}, {"A": "b"}])
def test_command_sees_its_whole_environment(env: dict[str, str]) -> None:
    argv, given = in_network(
        Command(argv=["printenv"], env=env, cwd="/", uid=0, network_namespace="/x")
    )
    behind = argv[argv.index("--", 3) + 1 :]
    told = subprocess.run(behind, env=given, capture_output=True, text=True, check=True).stdout
    assert set(told.splitlines()) == {f"{name}={value}" for name, value in env.items()}
