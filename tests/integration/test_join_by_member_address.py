"""`PUT /v1/agent/join` takes the addresses that `agent/members` shows, as Nomad's clients do."""

from __future__ import annotations

from pathlib import Path

from tests.support.server_rig import server_rig


def test_join_by_the_shown_member_address_succeeds(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, raft_bind="127.0.0.1:0") as rig:
        (member,) = rig.http.get("/v1/agent/members").json()["Members"]
        address = f"{member['Addr']}:{member['Port']}"
        answer = rig.http.put("/v1/agent/join", params={"address": address})
    assert answer.json() == {"num_joined": 1, "error": "", "warning": ""}


def test_join_by_an_address_without_listener_reports_no_answer(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False) as rig:
        answer = rig.http.put("/v1/agent/join", params={"address": "127.0.0.1:1"})
    assert answer.status_code == 200
    assert answer.json()["num_joined"] == 0
    assert "127.0.0.1:1" in answer.json()["error"]
