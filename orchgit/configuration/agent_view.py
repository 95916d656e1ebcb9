"""The `config` of `/v1/agent/self`: the settings of an agent under Nomad's names.

`agent_view_defaults.json` has what Nomad shows of a configuration that says nothing. What a server
knows better than its files (addresses, TLS) it puts over this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchgit.configuration.addresses import is_ip_address
from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.keys import BlockValues, ConfigBlock, ConfigKey, Kind
from orchgit.configuration.loading import LoadedConfig
from orchgit.durations import parse_ns
from orchgit.host_port import join_host_port

REDACTED = "<redacted>"
_SECRET = frozenset(("replication_token", "auth"))
_DEFAULTS = Path(__file__).with_name("agent_view_defaults.json")
_CAPITALS = frozenset(
    [
        "acl",
        "api",
        "cni",
        "csi",
        "db",
        "gc",
        "gcs",
        "hcl",
        "http",
        "https",
        "id",
        "ip",
        "mb",
        "oidc",
        "rpc",
        "tls",
        "ttl",
        "ui",
        "url",
        "uuid",
    ]
)
_WITH_TEXT = frozenset(
    ("rpc", "client.template", "client.template.wait", "client.template.wait_bounds")
) | frozenset(f"client.template.{one}_retry" for one in ("consul", "nomad", "vault"))
"""Blocks whose durations are shown as nanoseconds and, with "HCL" behind the name, as text."""


def shown(name: str, key: ConfigKey | ConfigBlock) -> str:
    """Returns the name of a key in the view, "" if it is not shown."""
    if key.shown_as:
        return key.shown_as.strip("-")
    return "".join(
        word.upper() if word in _CAPITALS else word.capitalize() for word in name.split("_")
    )


def agent_view(loaded: LoadedConfig) -> dict[str, Any]:
    """Returns the JSON object of the files that were loaded, over the defaults."""
    view: dict[str, Any] = json.loads(_DEFAULTS.read_text())
    _put(view, CONFIGURATION, loaded.values, "")
    values = loaded.values
    bind = str(view["BindAddr"])
    for name in ("HTTP", "RPC", "Serf"):
        address = view["Addresses"][name] = view["Addresses"][name] or bind
        advertised = str(view["AdvertiseAddrs"][name] or address)
        host = advertised.strip("[]")
        if is_ip_address(host) or ":" not in advertised:
            advertised = join_host_port(host, view["Ports"][name])
        view["AdvertiseAddrs"][name] = advertised
    if view["DataDir"] and not view["PluginDir"]:
        view["PluginDir"] = f"{view['DataDir']}/plugins"
    view["ConfigPaths"] = view["Files"] = [str(path) for path in loaded.files] or None
    view["Plugins"] = _plugins(values.labelled.get("plugin", {})) or None
    volumes = values.blocks.get("client", BlockValues()).labelled.get("host_volume", {})
    view["Client"]["HostVolumes"] = [
        {
            "ID": "",
            "Name": name,
            "Path": volume.values.get("path", ""),
            "ReadOnly": volume.values.get("read_only", False),
        }
        for name, volume in volumes.items()
    ] or None
    return view


def _put(view: dict[str, Any], shape: ConfigBlock, values: BlockValues, path: str) -> None:
    """Puts the values of a block into the part of the view that shows it."""
    for name, value in values.values.items():
        key = shape.keys[name]
        target = shown(name, key)
        if not target or isinstance(key, ConfigBlock):
            continue
        if key.kind is Kind.DURATION:
            view[target] = parse_ns(str(value))
            if path in _WITH_TEXT:
                view[f"{target}HCL"] = value
        elif name in _SECRET and value:
            view[target] = REDACTED
        elif key.kind is Kind.MAP:
            view[target] = {**(view.get(target) or {}), **_as_map(value)}
        elif key.kind is Kind.NUMBER:
            view[target] = float(str(value))
        elif value or key.kind in (Kind.GIVEN_INTEGER, Kind.GIVEN_SWITCH):
            view[target] = value
    for name, inner in values.blocks.items():
        block = shape.keys[name]
        assert isinstance(block, ConfigBlock)
        target = shown(name, block)
        if target:
            if not isinstance(view.get(target), dict):
                view[target] = {}
            _put(view[target], block, inner, f"{path}.{name}".lstrip("."))
    for name, named in values.labelled.items():
        block = shape.keys[name]
        assert isinstance(block, ConfigBlock)
        target = shown(name, block)
        if target and name != "host_volume":
            view[target] = _several(view.get(target) or [], block, named)


def _several(
    known: list[dict[str, Any]], block: ConfigBlock, named: Mapping[str, BlockValues]
) -> list[dict[str, Any]]:
    by_name = {one["Name"]: dict(one) for one in known}
    for label, values in named.items():
        one = by_name.setdefault(label, {"Name": label})
        _put(one, block, values, "")
    return list(by_name.values())


def _plugins(named: Mapping[str, BlockValues]) -> list[dict[str, Any]]:
    return [
        {
            "Args": values.values.get("args"),
            "Config": {"denied_envvars": None, "denied_host_gids": None, "denied_host_uids": None}
            | _as_map(values.values.get("config"))
            if name == "raw_exec"
            else values.values.get("config"),
            "Name": name,
        }
        for name, values in named.items()
    ]


def _as_map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
