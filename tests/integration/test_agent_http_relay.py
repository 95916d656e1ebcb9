"""Servers answer what agents pass on only while access control decides who may ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from orchgit.server.audit.settings import AuditSettings
from orchgit.services.acl.settings import AclSettings
from orchgit.wire.channel import Channel
from orchgit.wire.messages import HttpAnswer, HttpHead, HttpUp
from orchgit.wire.methods import AGENT_HTTP
from tests.support.server_rig import server_rig


async def passed_on(address: str, path: str) -> tuple[int, bytes]:
    async def frames() -> AsyncIterator[HttpUp]:
        yield HttpHead(method="GET", path=path, raw_path=path.encode(), query=b"", headers=[])

    channel = Channel(address)
    try:
        async with aclosing(channel.stream(AGENT_HTTP, frames())) as answer:
            async for frame in answer:
                assert isinstance(frame, HttpAnswer)
                return frame.status, frame.body
    finally:
        await channel.close()
    raise AssertionError("nothing was answered")


def test_request_that_an_agent_passes_on_is_in_the_audit_log_or_refused(tmp_path: Path) -> None:
    acl, audit = AclSettings(enabled=True), AuditSettings()
    with server_rig(tmp_path, with_agent=False, num_schedulers=0, acl=acl, audit=audit) as rig:
        address, log = rig.server.rpc_address, rig.server.config.data_dir / "audit" / "audit.log"
        assert rig.run(passed_on(address, "/v1/status/leader"))[0] == 200
        payloads = [json.loads(line)["payload"] for line in log.read_text().splitlines()]
        ends = [each["response"]["status_code"] for each in payloads if "response" in each]
        assert {each["request"]["endpoint"] for each in payloads} == {"/v1/status/leader"}
        assert (ends, payloads[0]["request"]["node_meta"]["ip"]) == ([200], address)
        log.parent.rename(tmp_path / "moved")
        (log.parent).write_text("nothing can be made here")
        status, text = rig.run(passed_on(address, "/v1/status/leader"))
        assert (status, b"audit log" in text) == (500, True)
        log.parent.unlink()


@pytest.mark.parametrize(("is_on", "jobs", "refs"), [(False, 501, 501), (True, 403, 404)])
def test_request_of_an_agent_is_judged_or_refused(
    tmp_path: Path, is_on: bool, jobs: int, refs: int
) -> None:
    acl = AclSettings(enabled=is_on)
    with server_rig(tmp_path, with_agent=False, num_schedulers=0, acl=acl) as rig:
        address = rig.server.rpc_address
        assert rig.run(passed_on(address, "/v1/jobs"))[0] == jobs
        assert rig.run(passed_on(address, "/git/x.git/info/refs"))[0] == refs
        status, text = rig.run(passed_on(address, "/v1/status/leader"))
        assert (status, b"ask a server" in text) == ((200, False) if is_on else (501, True))
