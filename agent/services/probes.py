"""Running one service check once: http, tcp, script or grpc. A probe never raises.

HTTP is spoken by hand: a check is one GET, and a client library would cost every node more memory
than the agent itself.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote

from agent.csi.protobuf import MessageField, Table, encode
from agent.drivers.base import ExecResult
from agent.services.check_state import ProbeResult
from agent.services.tls_relay import relay_to
from orchgit.errors import OrchgitError
from orchgit.host_port import join_host_port
from orchgit.model.base import NS_PER_S
from orchgit.model.service import ServiceCheck
from orchgit.wire.machine_authorities import MachineAuthorities

RunInTask = Callable[[list[str], float], Awaitable[ExecResult]]
"""(command, timeout_s) -> result, in the context of the check's task."""

_MAX_OUTPUT = 3 * 1024
_TOO_MANY = 429
_HTTP2 = "h2"
_GRPC_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # no connection, and no failure, of an earlier attempt
    ("grpc.enable_http_proxy", 0),  # the task itself is checked, as over HTTP
]
_HEALTH_REQUEST: Table = {1: MessageField("service", "string")}
_SERVING = "SERVING"
_HEALTH_STATUSES = {
    b"": "UNKNOWN",
    b"\x08\x00": "UNKNOWN",
    b"\x08\x01": _SERVING,
    b"\x08\x02": "NOT_SERVING",
    b"\x08\x03": "SERVICE_UNKNOWN",
}
_SHOWN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Target:
    """What is checked: an address, and the task that scripts run in."""

    host: str
    port: int
    run_in_task: RunInTask | None = None


@dataclass(frozen=True, slots=True)
class ProbeAttempt:
    """One run of a check."""

    check: ServiceCheck
    target: Target
    timeout_s: float
    authorities: MachineAuthorities


async def probe(
    check: ServiceCheck, target: Target, authorities: MachineAuthorities
) -> ProbeResult:
    """Returns one result within the check's timeout. HTTPS is checked by `authorities`."""
    kind = _KINDS.get(check.type)
    if kind is None:
        return ProbeResult(False, f'cannot run a check of type "{check.type}"')
    if not target.host and check.type != "script":
        return ProbeResult(False, f"{check.type}: there is no address to check")
    timeout_s = (check.timeout_ns or NS_PER_S) / NS_PER_S
    try:
        async with asyncio.timeout(timeout_s):
            return await kind(ProbeAttempt(check, target, timeout_s, authorities))
    except TimeoutError:
        return ProbeResult(False, f"{check.type}: no answer within {timeout_s:g}s")
    except (
        OSError,
        ssl.SSLError,
        OrchgitError,
        ValueError,
        asyncio.IncompleteReadError,
    ) as error:
        return ProbeResult(False, f"{check.type}: {error}")


async def _tcp(attempt: ProbeAttempt) -> ProbeResult:
    target = attempt.target
    _, writer = await asyncio.open_connection(target.host, target.port)
    writer.close()
    address = join_host_port(target.host, target.port)
    return ProbeResult(True, f"tcp: {address} accepts connections")


async def _http(attempt: ProbeAttempt) -> ProbeResult:
    check, target = attempt.check, attempt.target
    context = await _tls(attempt) if check.protocol == "https" else None
    name = check.tls_server_name or target.host
    reader, writer = await asyncio.open_connection(
        target.host, target.port, ssl=context, server_hostname=name if context else None
    )
    try:
        writer.write(_request(check, target))
        await writer.drain()
        status_line = await reader.readline()
        code = int(status_line.split()[1]) if len(status_line.split()) > 1 else 0
        body = await _body(reader)
    finally:
        writer.close()
    return ProbeResult(200 <= code < 300, f"http: {code} {body}".strip(), warning=code == _TOO_MANY)


async def _body(reader: asyncio.StreamReader) -> str:
    while (await reader.readline()).strip():
        pass
    data = await reader.read(_MAX_OUTPUT)
    return data.decode("utf-8", "replace")


def _request(check: ServiceCheck, target: Target) -> bytes:
    body = check.body.encode()
    headers = {
        "Host": join_host_port(target.host, target.port),
        "User-Agent": "orchgit-check",
        "Accept": "*/*",
        "Connection": "close",
    }
    headers |= {name: ", ".join(values) for name, values in (check.header or {}).items()}
    if body:
        headers["Content-Length"] = str(len(body))
    lines = [f"{check.method or 'GET'} {check.path or '/'} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in the check's method, path or header")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def _tls(attempt: ProbeAttempt, protocol: str = "") -> ssl.SSLContext:
    if not attempt.check.tls_skip_verify:
        return await attempt.authorities.context(protocol)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


async def _script(attempt: ProbeAttempt) -> ProbeResult:
    check, run_in_task = attempt.check, attempt.target.run_in_task
    if run_in_task is None:
        return ProbeResult(False, "script: its task does not run")
    result = await run_in_task([check.command, *(check.args or ())], attempt.timeout_s)
    output = result.output[-_MAX_OUTPUT:].decode("utf-8", "replace")
    return ProbeResult(result.exit_code == 0, output, warning=result.exit_code == 1)


async def _grpc(attempt: ProbeAttempt) -> ProbeResult:
    check, target = attempt.check, attempt.target
    authority = join_host_port(target.host, target.port)
    if not check.grpc_use_tls:
        return await _grpc_health(attempt, f"dns:{authority}", authority)
    name = check.tls_server_name or target.host
    context = await _tls(attempt, _HTTP2)
    async with relay_to(target.host, target.port, context, name) as socket:
        authority = join_host_port(name, target.port)
        return await _grpc_health(attempt, f"unix:{quote(str(socket))}", authority)


async def _grpc_health(attempt: ProbeAttempt, address: str, authority: str) -> ProbeResult:
    import grpc.aio  # loaded by the agent's link already; a probe alone must not need it

    options = [*_GRPC_OPTIONS, ("grpc.default_authority", authority)]
    request = encode(_HEALTH_REQUEST, {"service": attempt.check.grpc_service})
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        try:
            answer = await channel.unary_unary("/grpc.health.v1.Health/Check")(
                request, timeout=attempt.timeout_s
            )
        except grpc.aio.AioRpcError as error:
            said = f"grpc: {error.code().name}: {error.details() or ''}"
            return ProbeResult(False, said[:_MAX_OUTPUT])
    status = _HEALTH_STATUSES.get(answer[:2], answer[:_SHOWN_BYTES].hex())
    return ProbeResult(status == _SERVING, f"grpc: {status}")


_KINDS: dict[str, Callable[[ProbeAttempt], Awaitable[ProbeResult]]] = {
    "tcp": _tcp,
    "http": _http,
    "script": _script,
    "grpc": _grpc,
}
