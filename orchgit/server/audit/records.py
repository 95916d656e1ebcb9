"""The records of the audit log, in the shape of Nomad's."""

from __future__ import annotations

import msgspec

from orchgit.model.base import datetime_of_ns


class AuditAuth(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose token a request bears; never the token itself."""

    accessor_id: str = ""
    name: str = ""
    type: str = ""
    policies: list[str] = []
    global_: bool = msgspec.field(default=False, name="global")
    create_time: str = ""


class RequestNamespace(msgspec.Struct, frozen=True):
    id: str


class RequestMeta(msgspec.Struct, frozen=True):
    remote_address: str
    user_agent: str


class NodeMeta(msgspec.Struct, frozen=True):
    ip: str


class AuditRequest(msgspec.Struct, frozen=True):
    """`endpoint` is the path without its query, which may hold what is not for a log."""

    id: str
    operation: str
    endpoint: str
    namespace: RequestNamespace
    request_meta: RequestMeta
    node_meta: NodeMeta


class AuditResponse(msgspec.Struct, frozen=True):
    status_code: int


class AuditPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    stage: str
    timestamp: str
    auth: AuditAuth
    request: AuditRequest
    response: AuditResponse | None = None
    type: str = msgspec.field(default_factory=lambda: "audit")
    version: int = msgspec.field(default_factory=lambda: 1)


class AuditRecord(msgspec.Struct, frozen=True):
    created_at: str
    payload: AuditPayload
    event_type: str = "audit"

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


def timestamp(now_ns: int) -> str:
    """Returns RFC 3339 in UTC, with nanoseconds."""
    return f"{datetime_of_ns(now_ns):%Y-%m-%dT%H:%M:%S}.{now_ns % 1_000_000_000:09d}Z"
