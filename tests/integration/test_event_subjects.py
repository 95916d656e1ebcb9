"""Events of pools, volumes and variables, as a follower of the stream reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden_steps import differences
from tests.support.server_rig import ServerRig, server_rig

GOLDEN = Path(__file__).parents[1] / "golden" / "api" / "bodies" / "event-types.json"
RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())["types"]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("events"), with_agent=False) as rig:
        pool = {"Name": "p1", "Description": "d", "Meta": {"k": "v"}}
        assert rig.http.put("/v1/node/pools", json=pool).status_code == 200
        assert rig.http.delete("/v1/node/pool/p1").status_code == 200
        variable = {"Items": {"secret-name": "secret-value"}}
        assert rig.http.put("/v1/var/app/x", json=variable).status_code == 200
        assert rig.http.delete("/v1/var/app/x").status_code == 204
        yield rig


def events(rig: ServerRig, topic: str, count: int) -> list[dict[str, Any]]:
    """The first `count` events of the topic."""
    found: list[dict[str, Any]] = []
    with rig.http.stream("GET", "/v1/event/stream", params={"topic": topic}) as stream:
        for line in stream.iter_lines():
            found += json.loads(line).get("Events", ())
            if len(found) >= count:
                break
    return found


@pytest.mark.parametrize(
    ("topic", "type_"), [("NodePool", "NodePoolUpserted"), ("NodePool", "NodePoolDeleted")]
)
def test_event_of_a_pool_is_as_recorded(rig: ServerRig, topic: str, type_: str) -> None:
    found = {each["Type"]: each for each in events(rig, topic, 2)}
    wanted = RECORDED[f"{topic}/{type_}"]["event"]
    wanted["Payload"]["NodePool"]["Hash"] = "<string>"
    assert [*differences(wanted, found[type_])] == []


def test_event_of_a_variable_holds_its_metadata_and_no_item(rig: ServerRig) -> None:
    updated, deleted = events(rig, "Variable", 2)
    assert [*differences(RECORDED["Variable/VariableUpdated"]["event"], updated)] == []
    assert (deleted["Type"], deleted["Payload"]["Deleted"]) == ("VariableDeleted", True)
    assert "secret" not in json.dumps([updated, deleted])
