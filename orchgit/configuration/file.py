"""Reads an agent's configuration file, and says where it listens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orchgit.configuration.schema import Addresses, FileConfig
from orchgit.configuration.settings import agent_settings, server_settings
from orchgit.configuration.tree import read_tree
from orchgit.errors import InvalidInputError
from orchgit.host_port import join_host_port


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """A file's settings as keyword arguments of ServerConfig and AgentConfig.

    Addresses to listen on and the data directory are left out: the command decides them.
    """

    file: FileConfig
    server: dict[str, Any]
    agent: dict[str, Any]


class Listen:
    """The addresses to listen on, host:port: an option wins over `addresses`, that over
    `bind_addr`.
    """

    def __init__(
        self,
        file: FileConfig,
        bind: str | None,
        dev: bool,
        ports: tuple[int | None, int | None, int | None],
    ) -> None:
        self.host = bind or file.bind_addr
        own = (file.ports.http, file.ports.rpc, 0 if dev else file.ports.serf)
        http, rpc, serf = (
            one if one is not None else two for one, two in zip(ports, own, strict=True)
        )
        addresses = Addresses() if bind else file.addresses
        self.http = join_host_port(addresses.http or self.host, http)
        self.rpc = join_host_port(addresses.rpc or self.host, rpc)
        self.serf = join_host_port(addresses.serf or self.host, serf)


def read_config(path: Path) -> ReadConfig:
    """Reads the file. Raises InvalidInputError, with line and column where they are known."""
    tree = read_tree(path)
    try:
        file = msgspec.convert(tree, FileConfig)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"cannot use the configuration {path}: {error}") from error
    return ReadConfig(file, server_settings(file), agent_settings(file))
