"""Reads an agent's configuration, and says where it listens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from orchgit.configuration.agent_view import agent_view
from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.flags import add_flags
from orchgit.configuration.keys import BlockValues, ConfigBlock, ConfigKey
from orchgit.configuration.loading import LoadedConfig, load
from orchgit.configuration.schema import Addresses, FileConfig
from orchgit.configuration.settings import agent_settings, server_settings
from orchgit.errors import InvalidInputError
from orchgit.host_port import join_host_port

CLIENT_OPTIONS = frozenset(("driver.allowlist", "driver.denylist"))
"""The keys of `client.options` that have an effect."""


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """The files' settings as keyword arguments of ServerConfig and AgentConfig.

    Addresses to listen on and the data directory are left out: the command decides them.
    `warnings` are sentences to show when the agent starts.
    """

    file: FileConfig
    server: dict[str, Any]
    agent: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


class Listen:
    """The addresses to listen on, host:port: an option wins over `addresses`, that over
    `bind_addr`."""

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


def read_config(
    *paths: Path | str, flags: Mapping[str, str | bool | Sequence[str]] | None = None
) -> ReadConfig:
    """Reads the files and directories in order, later ones over earlier ones, and `flags` (path of
    a key -> value) over all of them.

    Raises InvalidInputError with every mistake, with line and column where they are known.
    """
    loaded = load([str(path) for path in paths])
    loaded.check()
    add_flags(loaded, flags or {})
    return settings_of(loaded)


def settings_of(loaded: LoadedConfig) -> ReadConfig:
    """Returns the settings of files that could be read. Raises InvalidInputError."""
    names = ", ".join(map(str, loaded.files)) or "without files"
    if loaded.plugin_problems:
        problems = "\n".join(loaded.plugin_problems)
        raise InvalidInputError(f"cannot use the configuration:\n{problems}")
    try:
        file = msgspec.convert(_tree(CONFIGURATION, loaded.values), FileConfig)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"cannot use the configuration {names}: {error}") from error
    warnings = [f"no configuration in the directory {path}" for path in loaded.empty]
    warnings += loaded.warnings
    without = list(without_effect(CONFIGURATION, loaded.values))
    without += (
        f'client.options "{name}"' for name in file.client.options if name not in CLIENT_OPTIONS
    )
    if without:
        warnings.append(
            f"these keys have no effect here: {', '.join(without)} (docs/configuration.md says why)"
        )
    server = {**server_settings(file), "configured": agent_view(loaded)}
    return ReadConfig(file, server, agent_settings(file), warnings)


def without_effect(shape: ConfigBlock, values: BlockValues, prefix: str = "") -> Iterator[str]:
    """Yields the paths of what is set and has no effect; a block as a whole, where none of it
    has."""
    for name in (*values.values, *values.blocks, *values.labelled):
        key, path = shape.keys[name], prefix + name
        if key.no_effect:
            yield path
        elif isinstance(key, ConfigBlock):
            inner = (values.blocks[name],) if name in values.blocks else ()
            for one in (*inner, *values.labelled.get(name, {}).values()):
                yield from without_effect(key, one, f"{path}.")


def _tree(shape: ConfigBlock, values: BlockValues) -> dict[str, Any]:
    """Returns the values that have an effect, in the shape of `FileConfig`."""
    tree: dict[str, Any] = {
        name: value for name, value in values.values.items() if not shape.keys[name].no_effect
    }
    for name, inner in values.blocks.items():
        block = _effective(shape.keys[name])
        if block is not None:
            tree[name] = _tree(block, inner)
    for name, named in values.labelled.items():
        block = _effective(shape.keys[name])
        if block is not None:
            tree[name] = {label: _tree(block, inner) for label, inner in named.items()}
    return tree


def _effective(key: ConfigKey | ConfigBlock) -> ConfigBlock | None:
    return key if isinstance(key, ConfigBlock) and not key.no_effect else None
