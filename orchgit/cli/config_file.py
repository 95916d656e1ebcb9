"""Agent configuration files, in the shape of Nomad's: HCL or JSON, unknown keys are errors."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from agent.config import GarbageConfig, HostVolumeConfig, ReservedConfig
from jobspec.durations import DurationError, parse_ns
from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.evaluate import Scope, evaluate
from jobspec.functions.call import refuse_calls
from jobspec.hcl.parser import parse_body
from jobspec.hcl.tree import Body
from jobspec.scalars import plain
from orchgit.cli.config_control import ControlSection, Section, control_config, scheduler_config
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.fetch import GitCredential
from orchgit.model.source import PrunePolicy, Source
from orchgit.server.addresses import join_host_port
from orchgit.server.config import ServerConfig
from orchgit.server.joining_rules import JoinConfig, rpc_address_of
from orchgit.wire.tls import TlsFiles

LABELLED = frozenset(("host_volume", "plugin", "credential", "source"))
"""Blocks with one label; the file's tree has a map by label for each."""


class Ports(Section):
    http: int = 4646
    rpc: int = 4647
    serf: int = 4648


class Addresses(Section):
    """Each is `bind_addr` where it is empty."""

    http: str = ""
    rpc: str = ""
    serf: str = ""


class Advertise(Addresses):
    """What others are told: host, or host:port."""


class HostVolumeSection(Section):
    path: str
    read_only: bool = False


class ReservedSection(Section):
    cpu: int = 0
    memory: int = 0
    disk: int = 0
    reserved_ports: str = ""


class PluginSection(Section):
    config: dict[str, Any] = {}


class JoinSection(Section):
    retry_join: list[str] = []
    start_join: list[str] = []
    retry_interval: str = "1s"
    retry_max: int = 0


class ServerSection(ControlSection):
    """`retry_join` and those after it are an older place for what `server_join` has."""

    enabled: bool = False
    bootstrap_expect: int | None = None
    server_join: JoinSection | None = None
    retry_join: list[str] = []
    start_join: list[str] = []
    retry_interval: str = ""
    retry_max: int = 0
    num_schedulers: int = 1
    enabled_schedulers: list[str] | None = None
    cluster_key_file: str = ""


class ClientSection(Section):
    enabled: bool = False
    servers: list[str] = []
    server_join: JoinSection | None = None
    node_pool: str = "default"
    node_class: str = ""
    meta: dict[str, str] = {}
    host_volume: dict[str, HostVolumeSection] = {}
    reserved: ReservedSection = msgspec.field(default_factory=ReservedSection)
    network_interface: str = ""
    gc_max_allocs: int = 50
    gc_disk_usage_threshold: float = 80.0
    gc_interval: str = "1m"


class TlsSection(Section):
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class CredentialSection(Section):
    origin: str
    username: str = ""
    password: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""


class SourceSection(Section):
    url: str = ""
    kind: str = ""
    ref: str = "refs/heads/main"
    paths: list[str] | None = None
    variables: dict[str, str] = {}
    var_files: list[str] = []
    poll_interval: str = "15s"
    prune: bool = True
    credential: str = ""
    webhook_secret: str = ""
    allow_rewind: bool = False


class GitopsSection(Section):
    webhook_secrets: dict[str, str] = {}
    credential: dict[str, CredentialSection] = {}
    source: dict[str, SourceSection] = {}


class FileConfig(Section):
    """The whole file; the same keys in `docs/operations.md`."""

    name: str = ""
    region: str = "global"
    datacenter: str = "dc1"
    data_dir: str = ""
    bind_addr: str = "127.0.0.1"
    log_level: str = "INFO"
    leave_on_interrupt: bool = False
    leave_on_terminate: bool = False
    ports: Ports = msgspec.field(default_factory=Ports)
    addresses: Addresses = msgspec.field(default_factory=Addresses)
    advertise: Advertise = msgspec.field(default_factory=Advertise)
    server: ServerSection = msgspec.field(default_factory=ServerSection)
    client: ClientSection = msgspec.field(default_factory=ClientSection)
    plugin: dict[str, PluginSection] = {}
    tls: TlsSection | None = None
    gitops: GitopsSection = msgspec.field(default_factory=GitopsSection)


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """A file's settings as keyword arguments of ServerConfig and AgentConfig.

    Addresses to listen on and the data directory are left out: the command decides them.
    """

    file: FileConfig
    server: dict[str, Any]
    agent: dict[str, Any]


class Listen:
    """Where to listen, as host:port: an option wins over `addresses`, that over `bind_addr`."""

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
    """Raises InvalidInputError, with places where there are some, for what cannot be used."""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the configuration {path}: {error}") from error
    tree = _json_tree(path, text) if text.lstrip().startswith("{") else _hcl_tree(path, text)
    try:
        file = msgspec.convert(tree, FileConfig)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"cannot use the configuration {path}: {error}") from error
    return ReadConfig(file, _server_settings(file), _agent_settings(file))


def _server_settings(file: FileConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "name": file.name,
        "region": file.region,
        "datacenter": file.datacenter,
        "num_schedulers": file.server.num_schedulers,
        "control": control_config(file.server),
        "scheduler_config": scheduler_config(file.server),
        "join": _join(file.server),
        "leave_on_interrupt": file.leave_on_interrupt,
        "leave_on_terminate": file.leave_on_terminate,
        "http_advertise": file.advertise.http,
        "rpc_advertise": file.advertise.rpc,
        "raft_advertise": file.advertise.serf,
        "tls": _tls(file),
        "gitops": GitopsConfig(
            credentials={
                name: GitCredential(**msgspec.to_builtins(section))
                for name, section in file.gitops.credential.items()
            },
            webhook_secrets=file.gitops.webhook_secrets,
        ),
        "sources": tuple(
            _source(name, section) for name, section in sorted(file.gitops.source.items())
        ),
    }
    if file.server.cluster_key_file:
        settings["cluster_key_file"] = Path(file.server.cluster_key_file)
    if file.server.enabled_schedulers is not None:
        settings["enabled_schedulers"] = tuple(file.server.enabled_schedulers)
    return settings


def _join(server: ServerSection) -> JoinConfig:
    own = JoinSection(
        retry_join=server.retry_join,
        start_join=server.start_join,
        retry_interval=server.retry_interval or JoinSection().retry_interval,
        retry_max=server.retry_max,
    )
    section = server.server_join or own
    if server.server_join and own != JoinSection():
        raise InvalidInputError(
            "cannot use the server section: it has server_join, so retry_join, start_join, "
            "retry_interval and retry_max belong into that"
        )
    interval_ns = _duration_ns("server_join.retry_interval", section.retry_interval)
    return JoinConfig(
        bootstrap_expect=server.bootstrap_expect,
        retry_join=tuple(section.retry_join),
        start_join=tuple(section.start_join),
        retry_interval_s=max(interval_ns / 1e9, 0.1),
        retry_max=section.retry_max,
    )


def with_join_options(
    config: ServerConfig,
    bootstrap_expect: int | None,
    retry_join: tuple[str, ...],
    start_join: tuple[str, ...],
) -> ServerConfig:
    """Options of the command line take the place of what the file says."""
    given: dict[str, Any] = {
        "bootstrap_expect": bootstrap_expect,
        "retry_join": retry_join or None,
        "start_join": start_join or None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(config, join=replace(config.join, **changes)) if changes else config


def known_servers(client: ClientSection) -> tuple[str, ...]:
    """RPC addresses that an agent tries in turn, for ever."""
    join = client.server_join or JoinSection()
    named = (*client.servers, *join.retry_join, *join.start_join)
    return tuple(dict.fromkeys(rpc_address_of(one) for one in named))


def _agent_settings(file: FileConfig) -> dict[str, Any]:
    client = file.client
    return {
        "region": file.region,
        "datacenter": file.datacenter,
        "node_pool": client.node_pool,
        "node_class": client.node_class,
        "meta": client.meta,
        "network_interface": client.network_interface,
        "host_volumes": {
            name: HostVolumeConfig(path=volume.path, read_only=volume.read_only)
            for name, volume in client.host_volume.items()
        },
        "reserved": ReservedConfig(
            cpu_mhz=client.reserved.cpu,
            memory_mb=client.reserved.memory,
            disk_mb=client.reserved.disk,
            reserved_ports=client.reserved.reserved_ports,
        ),
        "drivers": {name: section.config for name, section in file.plugin.items()},
        "garbage": GarbageConfig(
            max_allocs=client.gc_max_allocs,
            disk_usage_percent=client.gc_disk_usage_threshold,
            interval_s=_duration_ns("client.gc_interval", client.gc_interval) / 1e9,
        ),
        "tls": _tls(file),
    }


def _source(name: str, section: SourceSection) -> Source:
    kind = section.kind or ("remote" if section.url else "builtin")
    source = Source(
        name=name,
        kind=kind,
        url=section.url,
        ref=section.ref,
        variables=section.variables,
        var_files=section.var_files,
        poll_interval_ns=_duration_ns(f"source.{name}.poll_interval", section.poll_interval),
        prune=PrunePolicy(enabled=section.prune),
        credential=section.credential,
        webhook_secret=section.webhook_secret,
        allow_rewind=section.allow_rewind,
    )
    if section.paths is not None:
        source.paths = section.paths
    return source


def _tls(file: FileConfig) -> TlsFiles | None:
    if file.tls is None:
        return None
    missing = [
        name
        for name in ("ca_file", "cert_file", "key_file")
        if not getattr(file.tls, name) or not Path(getattr(file.tls, name)).exists()
    ]
    if missing:
        raise InvalidInputError(
            f"cannot use the tls section: {', '.join(missing)} must name files that exist"
        )
    return TlsFiles(
        ca=Path(file.tls.ca_file), cert=Path(file.tls.cert_file), key=Path(file.tls.key_file)
    )


def _duration_ns(name: str, text: str) -> int:
    try:
        return parse_ns(text)
    except DurationError as error:
        raise InvalidInputError(f"cannot use {name}: {error}") from error


def _json_tree(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"cannot read the configuration {path}: {error}") from error


def _hcl_tree(path: Path, text: str) -> dict[str, Any]:
    source = SourceText(path.name, text)
    diagnostics = Diagnostics(source)
    body = parse_body(source, diagnostics)
    if not diagnostics.found:
        try:
            return _body_tree(body, Scope({}, text, refuse_calls, runtime=False))
        except HclError as error:
            diagnostics.add(error)
    problems = "\n".join(str(problem) for problem in diagnostics.found)
    raise InvalidInputError(f"cannot read the configuration {path}:\n{problems}")


def _body_tree(body: Body, scope: Scope) -> dict[str, Any]:
    tree: dict[str, Any] = {
        name: plain(evaluate(attribute.expr, scope)) for name, attribute in body.attributes.items()
    }
    for block in body.blocks:
        inner = _body_tree(block.body, scope)
        if block.type in LABELLED:
            if len(block.labels) != 1:
                raise HclError(
                    f'Block "{block.type}" needs one label, its name.', block.start, block.end
                )
            tree.setdefault(block.type, {})[block.labels[0].value] = inner
        elif block.type in tree:
            raise HclError(f'Block "{block.type}" is given twice.', block.start, block.end)
        else:
            tree[block.type] = inner
    return tree
