"""Services and their checks."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model


class CheckRestart(Model):
    limit: int = 0
    grace_ns: int = 1_000_000_000
    ignore_warnings: bool = False


class ServiceCheck(Model):
    name: str = ""
    type: str = ""
    command: str = ""
    args: list[str] | None = None
    path: str = ""
    protocol: str = ""
    port_label: str = ""
    expose: bool = False
    address_mode: str = ""
    advertise: str = ""
    interval_ns: int = 0
    timeout_ns: int = 0
    initial_status: str = ""
    tls_server_name: str = ""
    tls_skip_verify: bool = False
    method: str = ""
    header: dict[str, list[str]] | None = None
    body: str = ""
    check_restart: CheckRestart | None = None
    grpc_service: str = ""
    grpc_use_tls: bool = field(default=False, name="GRPCUseTLS")
    task_name: str = ""
    success_before_passing: int = 0
    failures_before_critical: int = 0
    failures_before_warning: int = 0
    on_update: str = ""
    notes: str = ""


class Service(Model):
    name: str = ""
    namespace: str = ""
    provider: str = "consul"
    port_label: str = ""
    address: str = ""
    address_mode: str = ""
    tags: list[str] | None = None
    canary_tags: list[str] | None = None
    enable_tag_override: bool = False
    checks: list[ServiceCheck] | None = None
    check_restart: CheckRestart | None = None
    connect: dict[str, object] | None = None
    meta: dict[str, str] | None = None
    canary_meta: dict[str, str] | None = None
    tagged_addresses: dict[str, str] | None = None
    task_name: str = ""
    on_update: str = ""
    identity: dict[str, object] | None = None
    weights: dict[str, int] | None = None
    cluster: str = ""
    kind: str = ""
