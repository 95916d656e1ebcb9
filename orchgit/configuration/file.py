"""Reads an agent's configuration, and says where it listens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from orchgit.configuration.addresses import addresses_of_machine, with_addresses
from orchgit.configuration.agent_view import agent_view
from orchgit.configuration.bounds import problem_of
from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.faults import Faults
from orchgit.configuration.flags import add_flags
from orchgit.configuration.keys import BlockValues, ConfigBlock, ConfigKey
from orchgit.configuration.loading import LoadedConfig, load, refuse
from orchgit.configuration.schema import Addresses, FileConfig
from orchgit.configuration.settings import agent_settings, server_settings
from orchgit.host_port import join_host_port

CLIENT_OPTIONS = frozenset(("driver.allowlist", "driver.denylist"))
"""The keys of `client.options` that have an effect."""


Settings = dict[str, Any]


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
    `bind_addr`. `http_also` are those of HTTP beside the first."""

    def __init__(
        self,
        file: FileConfig,
        bind: str | None,
        dev: bool,
        ports: tuple[int | None, int | None, int | None],
    ) -> None:
        self.host = " ".join(addresses_of_machine(bind)) if bind else file.bind_addr
        own = (file.ports.http, file.ports.rpc, 0 if dev else file.ports.serf)
        http, rpc, serf = (
            one if one is not None else two for one, two in zip(ports, own, strict=True)
        )
        addresses = Addresses() if bind else file.addresses
        first, *more = dict.fromkeys((addresses.http or self.host).split())
        self.http = join_host_port(first, http)
        self.http_also = tuple(join_host_port(each, http) for each in more)
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
    add_flags(loaded, flags or {})
    return settings_of(loaded)


def settings_of(loaded: LoadedConfig) -> ReadConfig:
    """Returns the settings of the files. Raises InvalidInputError with every mistake."""
    file, server, agent, lines = _settings(loaded)
    refuse([*(line for failed in loaded.failed for line in failed.lines), *lines])
    warnings = [f"no configuration in the directory {path}" for path in loaded.empty]
    warnings += warnings_of(loaded)
    return ReadConfig(file, {**server, "configured": agent_view(loaded)}, agent, warnings)


def unusable(loaded: LoadedConfig) -> list[str]:
    """Returns lines about values that can be read and that no agent can use."""
    return _settings(loaded)[3]


def warnings_of(loaded: LoadedConfig) -> list[str]:
    """Returns sentences about unknown keys that are passed over, and keys without effect."""
    without = list(without_effect(CONFIGURATION, loaded.values))
    client = loaded.values.blocks.get("client", BlockValues())
    options = client.values.get("options")
    if isinstance(options, dict):
        without += (f'client.options "{name}"' for name in options if name not in CLIENT_OPTIONS)
    if not without:
        return list(loaded.warnings)
    listed = ", ".join(without)
    return [
        *loaded.warnings,
        f"these keys have no effect here: {listed} (docs/configuration.md says why)",
    ]


def _settings(loaded: LoadedConfig) -> tuple[FileConfig, Settings, Settings, list[str]]:
    """Returns the joined file, the settings of a server and of an agent, and lines about what
    cannot be used: the settings are whole where there are none.

    What keys mean together is not judged where a file could not be read to its end.
    """
    faults = Faults(loaded.places, loaded.refused)
    try:
        file = msgspec.convert(_tree(CONFIGURATION, loaded.values), FileConfig)
    except msgspec.ValidationError as error:
        lines = [*loaded.faults, f"cannot use the joined files: {error}"]
        return FileConfig(), {}, {}, lines
    file = with_addresses(file)
    server, agent = server_settings(file, faults), agent_settings(file, faults)
    return file, server, agent, [*loaded.faults, *(faults.lines if loaded.is_whole else ())]


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


def _tree(shape: ConfigBlock, values: BlockValues, prefix: str = "") -> dict[str, Any]:
    """Returns the values that have an effect and can be used, in the shape of `FileConfig`."""
    tree: dict[str, Any] = {}
    for name, value in values.values.items():
        is_used = not shape.keys[name].no_effect
        if is_used and problem_of(prefix + name, value) == "":
            tree[name] = value
    for name, inner in values.blocks.items():
        block = _effective(shape.keys[name])
        if block is not None:
            tree[name] = _tree(block, inner, f"{prefix}{name}.")
    for name, named in values.labelled.items():
        block = _effective(shape.keys[name])
        if block is not None:
            path = f"{prefix}{name}."
            tree[name] = {label: _tree(block, inner, path) for label, inner in named.items()}
    return tree


def _effective(key: ConfigKey | ConfigBlock) -> ConfigBlock | None:
    return key if isinstance(key, ConfigBlock) and not key.no_effect else None
