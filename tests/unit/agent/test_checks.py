"""Service checks: the pure status rules, and real probes against real listeners."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.csi.protobuf import MessageField, decode
from agent.drivers.base import ExecResult
from agent.services.check_state import CheckStatus, ProbeResult, after, count_for_restart, initial
from agent.services.probes import Target, probe
from orchgit.host_port import join_host_port
from orchgit.model.group import UpdateStrategy
from orchgit.model.resources import AllocatedPort, AllocatedResources, AllocatedShared
from orchgit.model.service import CheckRestart, Service, ServiceCheck
from orchgit.wire.https import HttpTls, serving_context
from orchgit.wire.machine_authorities import MachineAuthorities
from orchgit.wire.tls import TlsFiles
from tests.support.agent_rig import WAIT_S, AgentRig, mock_job, mock_task
from tests.support.certificates import LOOPBACK, Authority, make_tls_files

S = 10**9
OK, BAD = ProbeResult(True), ProbeResult(False)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


# -- the status --------------------------------------------------------------------------------


def statuses(check: ServiceCheck, results: list[ProbeResult]) -> list[str]:
    state, seen = initial(check, 0), []
    for now, result in enumerate(results):
        state = after(check, state, result, now)
        seen.append(state.status.value)
    return seen


def test_one_result_decides_the_status_by_default() -> None:
    assert statuses(ServiceCheck(), [OK, BAD, OK]) == ["success", "failure", "success"]


def test_thresholds_count_results_in_a_row() -> None:
    check = ServiceCheck(success_before_passing=1, failures_before_critical=2)
    results = [OK, BAD, OK, OK, BAD, BAD, OK, BAD, BAD, BAD]
    assert statuses(check, results) == [
        "pending", "pending", "pending", "success", "success",
        "success", "success", "success", "success", "failure",
    ]  # fmt: skip


def test_check_starts_in_its_initial_status() -> None:
    assert initial(ServiceCheck(initial_status="passing"), 5).passing_since_ns == 5
    assert initial(ServiceCheck(), 5).status is CheckStatus.PENDING


@settings(max_examples=50, deadline=None)
@given(
    success=st.integers(0, 3),
    failure=st.integers(0, 3),
    results=st.lists(st.booleans(), max_size=40),
)
def test_passing_since_is_the_start_of_the_passing_stretch(
    success: int, failure: int, results: list[bool]
) -> None:
    check = ServiceCheck(success_before_passing=success, failures_before_critical=failure)
    state = initial(check, 0)
    for now, ok in enumerate(results, 1):
        before = state
        state = after(check, state, ProbeResult(ok), now)
        passing = state.status is CheckStatus.SUCCESS
        assert passing == (state.passing_since_ns is not None)
        if passing and before.status is CheckStatus.SUCCESS:
            assert state.passing_since_ns == before.passing_since_ns


def test_check_restart_asks_at_its_limit_after_the_grace() -> None:
    check = ServiceCheck(check_restart=CheckRestart(limit=2, grace_ns=10 * S))
    state, asked = initial(check, 0), []
    for now_s, result in [(1, BAD), (11, BAD), (12, OK), (13, BAD), (14, BAD), (15, BAD)]:
        state = after(check, state, result, now_s * S)
        state, restart = count_for_restart(check, state, result, 0, now_s * S)
        asked.append(restart)
    assert asked == [False, False, False, False, True, False]


def test_warnings_may_be_ignored() -> None:
    check = ServiceCheck(check_restart=CheckRestart(limit=1, grace_ns=0, ignore_warnings=True))
    warning = ProbeResult(False, warning=True)
    assert not count_for_restart(check, initial(check, 0), warning, 0, S)[1]
    assert count_for_restart(check, initial(check, 0), BAD, 0, S)[1]


# -- probes ------------------------------------------------------------------------------------

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def probed(
    check: ServiceCheck,
    answer: Answer,
    tls: ssl.SSLContext | None = None,
    authorities: MachineAuthorities | None = None,
) -> ProbeResult:
    async def whole() -> ProbeResult:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        async with server:
            target = Target("127.0.0.1", port)
            return await probe(check, target, authorities or MachineAuthorities())

    return asyncio.run(whole())


def answering(status_line: str, seen: list[bytes] | None = None) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(request)
        writer.write(f"HTTP/1.1 {status_line}\r\nContent-Length: 4\r\n\r\nbody".encode())
        await writer.drain()
        writer.close()

    return answer


@pytest.mark.parametrize(
    ("line", "ok", "warning"),
    [
        ("200 OK", True, False),
        ("204 No Content", True, False),
        ("301 Moved", False, False),
        ("429 Slow Down", False, True),
        ("500 Broken", False, False),
        ("nonsense", False, False),
    ],
)
def test_http(line: str, ok: bool, warning: bool) -> None:
    found = probed(ServiceCheck(type="http", path="/health"), answering(line))
    assert (found.ok, found.warning) == (ok, warning)


def test_http_sends_what_the_job_says() -> None:
    seen: list[bytes] = []
    check = ServiceCheck(
        type="http", path="/x?y=1", method="POST", body="hi", header={"X-Who": ["me", "you"]}
    )
    assert probed(check, answering("200 OK", seen)).output == "http: 200 body"
    lines = seen[0].decode().split("\r\n")
    assert lines[0] == "POST /x?y=1 HTTP/1.1"
    assert {"X-Who: me, you", "Content-Length: 2", "Connection: close"} <= set(lines)


def test_line_break_in_a_header_is_refused() -> None:
    check = ServiceCheck(type="http", path="/", header={"X": ["a\r\nEvil: 1"]})
    assert "line break" in probed(check, answering("200 OK")).output


def test_http_check_of_a_silent_server_fails_at_its_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    found = probed(ServiceCheck(type="http", timeout_ns=S // 20), silent)
    assert (found.ok, found.output) == (False, "http: no answer within 0.05s")


def https_check(**options: Any) -> ServiceCheck:
    return ServiceCheck(type="http", protocol="https", timeout_ns=30 * S, **options)


@pytest.mark.parametrize(
    ("options", "trusts", "output"),
    [
        ({}, True, "http: 200 body"),
        ({"tls_server_name": "server.global.orchgit"}, True, "http: 200 body"),
        ({"tls_server_name": "elsewhere"}, True, "Hostname mismatch"),
        ({}, False, "certificate verify failed"),
        ({"tls_skip_verify": True}, False, "http: 200 body"),
        ({"tls_skip_verify": True, "tls_server_name": "elsewhere"}, False, "http: 200 body"),
    ],
)
def test_https_check_trusts_the_authorities_of_the_machine(
    options: dict[str, Any], trusts: bool, output: str, tmp_path: Path
) -> None:
    files = make_tls_files(tmp_path)
    trusted = files.ca if trusts else Authority(tmp_path / "other").file
    found = probed(
        https_check(**options),
        answering("200 OK"),
        serving_context(HttpTls(files)),
        MachineAuthorities(lambda: ssl.create_default_context(cafile=trusted)),
    )
    assert output in found.output
    assert found.ok is (output == "http: 200 body")


def test_https_check_of_a_server_without_tls_fails() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    found = probed(https_check(tls_skip_verify=True), plain)
    assert not found.ok
    assert found.output.startswith("http: ")


def test_tcp_check_passes_while_the_port_is_open() -> None:
    check = ServiceCheck(type="tcp")
    assert probed(check, answering("")).ok
    refused = asyncio.run(probe(check, Target("127.0.0.1", 1), MachineAuthorities()))
    assert not refused.ok


@pytest.mark.parametrize(
    ("code", "ok", "warning"), [(0, True, False), (1, False, True), (2, False, False)]
)
def test_script(code: int, ok: bool, warning: bool) -> None:
    seen: list[list[str]] = []

    async def run(command: list[str], timeout_s: float) -> ExecResult:
        seen.append(command)
        return ExecResult(b"said", code)

    check = ServiceCheck(type="script", command="/bin/ok", args=["-v"])
    found = asyncio.run(probe(check, Target("", 0, run), MachineAuthorities()))
    assert (found.ok, found.warning, found.output) == (ok, warning, "said")
    assert seen == [["/bin/ok", "-v"]]


_HEALTH_REQUEST = {1: MessageField("service", "string")}


def grpc_probed(
    check: ServiceCheck,
    status: bytes = b"\x08\x01",
    tls: TlsFiles | None = None,
    authorities: MachineAuthorities | None = None,
    host: str = "127.0.0.1",
) -> tuple[ProbeResult, list[str]]:
    """Returns the result, and the services that a health server which knows them all was asked
    for."""
    asked: list[str] = []

    async def answer(request: bytes, _context: object) -> bytes:
        asked.append(decode(_HEALTH_REQUEST, request)["service"])
        return status

    async def whole() -> ProbeResult:
        handler = grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(answer)}
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handler,))
        address = join_host_port(host, 0)
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            pair = (tls.key.read_bytes(), tls.cert.read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        await server.start()
        try:
            return await probe(check, Target(host, port), authorities or MachineAuthorities())
        finally:
            await server.stop(None)

    return asyncio.run(whole()), asked


def grpc_check(**options: Any) -> ServiceCheck:
    return ServiceCheck(type="grpc", timeout_ns=60 * S, **options)


@pytest.mark.parametrize(
    ("status", "output"),
    [
        (b"\x08\x01", "grpc: SERVING"),
        (b"\x08\x02", "grpc: NOT_SERVING"),
        (b"\x08\x03", "grpc: SERVICE_UNKNOWN"),
        (b"", "grpc: UNKNOWN"),
        (b"\x08\x63", "grpc: 0863"),
    ],
)
def test_grpc_check_passes_where_the_service_serves(status: bytes, output: str) -> None:
    found, asked = grpc_probed(grpc_check(grpc_service="web"), status)
    assert (found.ok, found.output, asked) == (output == "grpc: SERVING", output, ["web"])


@pytest.mark.parametrize("name", ["", "a" * 127, "a" * 128, "a" * 300, "ä" * 100])
def test_grpc_check_asks_for_a_service_of_any_length(name: str) -> None:
    found, asked = grpc_probed(grpc_check(grpc_service=name))
    assert (found.ok, asked) == (True, [name])


def test_grpc_check_asks_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert grpc_probed(grpc_check())[0] == ProbeResult(True, "grpc: SERVING")


@pytest.mark.skipif(not has_ipv6(), reason="needs IPv6 on the loopback")
def test_grpc_check_reaches_an_address_of_version_6() -> None:
    assert grpc_probed(grpc_check(), host="::1")[0].ok


@pytest.mark.parametrize(
    ("options", "trusts", "output"),
    [
        ({}, True, "grpc: SERVING"),
        ({"tls_server_name": "server.global.orchgit"}, True, "grpc: SERVING"),
        ({"tls_server_name": "elsewhere"}, True, "Hostname mismatch"),
        ({}, False, "certificate verify failed"),
        ({"tls_skip_verify": True}, False, "grpc: SERVING"),
        ({"tls_skip_verify": True, "tls_server_name": "elsewhere"}, False, "grpc: SERVING"),
    ],
)
def test_grpc_check_trusts_the_authorities_of_the_machine(
    options: dict[str, Any], trusts: bool, output: str, tmp_path: Path
) -> None:
    files = make_tls_files(tmp_path)
    trusted = files.ca if trusts else Authority(tmp_path / "other").file
    found, _ = grpc_probed(
        grpc_check(grpc_use_tls=True, grpc_service="web", **options),
        tls=files,
        authorities=MachineAuthorities(lambda: ssl.create_default_context(cafile=trusted)),
    )
    assert output in found.output
    assert found.ok is (output == "grpc: SERVING")


def test_grpc_check_skips_the_end_of_a_certificate(tmp_path: Path) -> None:
    expired = Authority(tmp_path).issue(tmp_path / "expired", LOOPBACK, hours=-1)
    check = grpc_check(grpc_use_tls=True, tls_skip_verify=True)
    assert grpc_probed(check, tls=expired)[0].ok


def test_grpc_check_over_tls_of_a_server_without_it_fails() -> None:
    found, asked = grpc_probed(grpc_check(grpc_use_tls=True, tls_skip_verify=True))
    assert (found.ok, asked) == (False, [])
    assert found.output.startswith("grpc: ")


def test_grpc_check_tells_what_the_server_refuses() -> None:
    async def whole() -> ProbeResult:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await probe(grpc_check(), Target("127.0.0.1", port), MachineAuthorities())
        finally:
            await server.stop(None)

    found = asyncio.run(whole())
    assert not found.ok
    assert found.output.startswith("grpc: UNIMPLEMENTED: ")


# -- services of an allocation -----------------------------------------------------------------


def with_rig(tmp_path: Path, scenario: Callable[[AgentRig], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        rig = AgentRig(tmp_path)
        try:
            await scenario(rig)
        finally:
            await rig.close()

    asyncio.run(whole())


def port_of(number: int) -> AllocatedResources:
    shared = AllocatedShared(ports=[AllocatedPort("http", number, 0, "127.0.0.1")])
    return AllocatedResources(shared=shared)


def test_checks_of_a_node_read_the_authorities_once(tmp_path: Path) -> None:
    files, reads, passed = make_tls_files(tmp_path), itertools.count(), asyncio.Event()
    tls = serving_context(HttpTls(files))

    def read() -> ssl.SSLContext:
        next(reads)
        return ssl.create_default_context(cafile=files.ca)

    async def scenario(rig: AgentRig) -> None:
        def note() -> None:
            checks = [
                each for found in rig.services.by_alloc.values() for each in found.checks.values()
            ]
            states = [each.state.status for each in checks]
            if states == [CheckStatus.SUCCESS] * 10:
                passed.set()

        rig.services.authorities = MachineAuthorities(read)
        rig.services.listeners.append(note)
        server = await asyncio.start_server(answering("200 OK"), "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        checks = [https_check(name=str(at), interval_ns=S) for at in range(5)]
        job = mock_job(services=[Service(name="web", port_label="http", checks=checks)])
        async with server, asyncio.timeout(WAIT_S):
            for _ in range(2):
                rig.deliver(job, allocated_resources=port_of(port))
            await passed.wait()
        assert next(reads) == 1

    with_rig(tmp_path, scenario)


def test_deployment_waits_for_the_check(tmp_path: Path) -> None:
    answers = itertools.chain(["500 No"] * 2, itertools.repeat("200 OK"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answering(next(answers))(reader, writer)

    async def scenario(rig: AgentRig) -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        check = ServiceCheck(name="alive", type="http", path="/", interval_ns=10 * S, timeout_ns=S)
        service = Service(name="${NOMAD_JOB_ID}", port_label="http", checks=[check], tags=["a"])
        task = mock_task(services=[service])
        job = mock_job(task, update=UpdateStrategy(min_healthy_time_ns=5 * S))
        runner = rig.deliver(job, deployment_id="d", allocated_resources=port_of(port))
        await rig.until_status(runner, "running")
        (entry,) = rig.services.registrations()
        assert (entry.service_name, entry.port, entry.tags) == (job.id, port, ["a"])
        while runner.services.passing_since_ns is None:
            await rig.clock.advance(0.1)
            await asyncio.sleep(0)
        assert rig.last(runner).deployment_healthy is None
        await rig.clock.advance(6)
        await rig.until(lambda: rig.last(runner).deployment_healthy is True)
        rig.stop(runner)
        await rig.until_status(runner, "complete")
        assert list(rig.services.registrations()) == []
        server.close()

    with_rig(tmp_path, scenario)


def test_check_restart_restarts_the_task_by_its_policy(tmp_path: Path) -> None:
    async def scenario(rig: AgentRig) -> None:
        check = ServiceCheck(
            name="alive", type="script", command="exit", args=["2"], interval_ns=S, timeout_ns=S,
            check_restart=CheckRestart(limit=2, grace_ns=0),
        )  # fmt: skip
        job = mock_job(mock_task(services=[Service(name="web", checks=[check])]))
        runner = rig.deliver(job)
        await rig.until_status(runner, "running")
        while "Restarting" not in rig.events(runner):
            await rig.clock.advance(0.5)
        assert 'healthcheck: check "alive" unhealthy' in [
            event.display_message for event in rig.state(runner).events
        ]
        assert runner.tasks["web"].record.restart_count == 1

    with_rig(tmp_path, scenario)


def test_grace_of_a_group_service_counts_from_each_start_of_the_task(tmp_path: Path) -> None:
    async def scenario(rig: AgentRig) -> None:
        check = ServiceCheck(
            name="alive", type="script", command="exit", args=["2"], interval_ns=S, timeout_ns=S,
            task_name="web", check_restart=CheckRestart(limit=1, grace_ns=60 * S),
        )  # fmt: skip
        runner = rig.deliver(mock_job(mock_task(), services=[Service(name="all", checks=[check])]))
        await rig.until_status(runner, "running")

        async def advance(seconds: int) -> int:
            for _ in range(seconds * 2):
                await rig.clock.advance(0.5)
            return rig.events(runner).count("Restarting")

        assert await advance(50) == 0
        runner.restart("web")
        await rig.until(lambda: rig.events(runner).count("Started") == 2)
        assert await advance(50) == 1
        assert await advance(20) == 2

    with_rig(tmp_path, scenario)


@pytest.mark.parametrize("owner", ["group", "task"])
def test_script_check_sees_the_environment_of_its_running_task(tmp_path: Path, owner: str) -> None:
    async def scenario(rig: AgentRig) -> None:
        check = ServiceCheck(
            name="alive", type="script", command="${TOOL}", interval_ns=S, timeout_ns=S,
            args=["${WORD}", "${NOMAD_TASK_NAME}", "${NOMAD_ALLOC_DIR}"], task_name="web",
        )  # fmt: skip
        services = [Service(name="all", checks=[check])]
        task = mock_task(env={"WORD": "w", "TOOL": "echo"})
        if owner == "task":
            task.services = services
        job = mock_job(task, services=services if owner == "group" else None)
        runner = rig.deliver(job)
        await rig.until_status(runner, "running")
        (running,) = runner.services.checks.values()
        await rig.clock.advance(1)  # a check that came before its task is tried again
        await rig.until(lambda: running.state.successes > 0)
        assert running.state.output.split() == ["w", "web", str(runner.context.paths.shared)]

    with_rig(tmp_path, scenario)


def test_update_that_changes_no_service_leaves_the_checks_alone(tmp_path: Path) -> None:
    async def scenario(rig: AgentRig) -> None:
        check = ServiceCheck(name="alive", type="script", command="echo", interval_ns=S)
        job = mock_job(mock_task(services=[Service(name="web", checks=[check])]))
        runner = rig.deliver(job)
        await rig.until_status(runner, "running")
        (before,) = runner.services.checks.values()
        rig.update(runner.context.alloc, job, desired_description="the same")
        assert list(runner.services.checks.values()) == [before]
        changed = mock_job(mock_task(services=[Service(name="web2", checks=[check])]))
        rig.update(runner.context.alloc, msgspec.structs.replace(changed, version=1))
        (entry,) = rig.services.registrations()
        assert entry.service_name == "web2"

    with_rig(tmp_path, scenario)


def test_service_without_an_address_is_not_registered_and_the_events_say_so(tmp_path: Path) -> None:
    async def scenario(rig: AgentRig) -> None:
        check = ServiceCheck(name="alive", type="tcp", interval_ns=S, timeout_ns=10 * S)
        lost = Service(name="lost", port_label="http", address_mode="driver", checks=[check])
        apart = Service(name="apart", port_label="http", address_mode="alloc")
        found = Service(name="found", port_label="http")
        job = mock_job(mock_task(services=[lost, found]), services=[apart])
        runner = rig.deliver(job, allocated_resources=port_of(9999))
        await rig.until_status(runner, "running")
        assert [entry.service_name for entry in rig.services.registrations()] == ["found"]
        (running,) = runner.services.checks.values()
        while not running.state.output:
            await rig.clock.advance(0.5)
            await asyncio.sleep(0)
        assert running.state.output == "tcp: there is no address to check"
        runner.tasks["web"].register_again()
        told = [event.display_message for event in rig.state(runner).events]
        for begin in (
            'cannot register service "lost": the driver gave its task no address',
            'cannot register service "apart": the group has no network of its own',
        ):
            assert len([text for text in told if text.startswith(begin)]) == 1

    with_rig(tmp_path, scenario)


def test_end_of_a_group_service_leaves_services_of_tasks_alone(tmp_path: Path) -> None:
    """The names of tasks and services are part of what a registration is called."""

    async def scenario(rig: AgentRig) -> None:
        own = Service(name="a-group-b", port_label="http")
        shared = Service(name="shared", port_label="http")
        job = mock_job(mock_task(services=[own]), services=[shared])
        runner = rig.deliver(job, allocated_resources=port_of(9999))
        await rig.until_status(runner, "running")
        runner.services.stop("")
        assert [entry.service_name for entry in rig.services.registrations()] == ["a-group-b"]

    with_rig(tmp_path, scenario)
