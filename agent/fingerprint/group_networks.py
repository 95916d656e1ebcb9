"""The networks that groups may have beside the host's: the bridge, and CNI networks by name."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

import msgspec

from agent.networks.cni import configuration
from agent.networks.config import GroupNetworkConfig
from orchgit.model.node import NodeNetwork
from orchgit.model.resources import NetworkResource

_VERSIONS_CACHE = Path("/run/orchgit/cni-versions.json")
_MAX_PLUGINS = 64
_TIMEOUT_S = 5
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[0-9A-Za-z.+~-]*)")
_BRIDGE_MODULE = Path("/sys/module/bridge")
_MODULES = Path("/lib/modules")


class GroupNetworks(msgspec.Struct, frozen=True, kw_only=True):
    attributes: dict[str, str]
    networks: list[NetworkResource]
    node_networks: list[NodeNetwork]


def read(config: GroupNetworkConfig) -> GroupNetworks:
    """What of them this node has; nothing where the agent does not run as root."""
    if os.geteuid() != 0:
        return GroupNetworks(attributes={}, networks=[], node_networks=[])
    modes = {f"cni/{name}": "" for name in configuration.load(config.cni_config_dir)}
    attributes = _plugin_versions(config.cni_path)
    if _has_bridges():
        modes = {"bridge": config.bridge_name, **modes}
        attributes["nomad.bridge.hairpin_mode"] = str(config.hairpin_mode).lower()
    return GroupNetworks(
        attributes=attributes,
        networks=[NetworkResource(mode=mode) for mode in modes],
        node_networks=[NodeNetwork(mode=mode, device=device) for mode, device in modes.items()],
    )


def version_of(text: str) -> str:
    """The version that a plugin prints when it is called without a command.

    Debian builds its plugins without a version: then the newest of the protocol versions that the
    plugin names stands for it, which is what it can do. "" where the text is of no plugin.
    """
    if "CNI" not in text:
        return ""
    first, _, rest = text.partition("\n")
    own = _VERSION.search(first)
    if own is not None:
        return own.group(1)
    supported = _VERSION.findall(rest)
    return max(supported, key=lambda found: [int(part) for part in found.split(".")], default="")


def _plugin_versions(search_path: str) -> dict[str, str]:
    """`plugins.cni.version.NAME` of each program of the directories that is a plugin.

    Programs are asked once after each change: a file that agents of this machine share keeps what
    they said, since sixteen programs take longer than all other facts together.
    """
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(_VERSIONS_CACHE.read_bytes(), type=dict[str, str])
    found: dict[str, str] = {}
    asked = dict(known)
    programs = []
    for directory in filter(None, search_path.split(":")):
        with contextlib.suppress(OSError):
            entries = sorted(Path(directory).iterdir())
            programs += [each for each in entries if each.is_file() and os.access(each, os.X_OK)]
    for path in programs[:_MAX_PLUGINS]:
        status = path.stat()
        key = f"{path}:{status.st_mtime_ns}:{status.st_size}"
        if key not in asked:
            asked[key] = version_of(_said(path))
        if asked[key]:
            found.setdefault(f"plugins.cni.version.{path.name}", asked[key])
    if asked != known:
        with contextlib.suppress(OSError):
            _VERSIONS_CACHE.parent.mkdir(exist_ok=True, mode=0o711)
            temporary = _VERSIONS_CACHE.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(asked))
            temporary.replace(_VERSIONS_CACHE)
    return found


def _said(program: Path) -> str:
    """What a plugin prints when it is called without a command: its name and versions."""
    try:
        done = subprocess.run(
            [program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={"PATH": os.defpath},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace").strip()


def _has_bridges() -> bool:
    """Whether the kernel can make bridges: it has them built in, or a module that it loads."""
    if _BRIDGE_MODULE.exists():
        return True
    for name in ("modules.builtin", "modules.dep"):
        with contextlib.suppress(OSError):
            text = (_MODULES / os.uname().release / name).read_text(errors="replace")
            if re.search(r"/bridge\.ko\b", text):
                return True
    return False
