"""Calls of a CSI plugin: its messages on the wire, and a real plugin over a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.csi.client import CsiClient, CsiError, without_secrets
from agent.csi.messages import METHODS
from agent.csi.mount_records import MountRecord, MountRecords
from agent.csi.protobuf import decode, encode
from orchgit.errors import DriverError
from tests.support.csi_plugin import Plugin, serve

CREATE = METHODS["CreateVolume"]
VOLUME = METHODS["CreateVolume"].reply


def test_message_has_the_bytes_of_the_specification() -> None:
    """Field numbers and wire types, written out by hand."""
    message = {
        "name": "v",
        "capacity_range": {"required_bytes": 300},
        "volume_capabilities": [{"mount": {"fs_type": "ext4"}, "access_mode": {"mode": 1}}],
        "parameters": {"a": "b"},
    }
    assert encode(CREATE.request, message) == (
        b"\x0a\x01v"
        b"\x12\x03\x08\xac\x02"
        b"\x1a\x0c\x12\x06\x0a\x04ext4\x1a\x02\x08\x01"
        b"\x22\x06\x0a\x01a\x12\x01b"
    )
    assert encode(METHODS["ControllerPublishVolume"].request, {"readonly": True}) == b"\x20\x01"


TEXTS = st.text(max_size=8)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
VOLUMES = st.fixed_dictionaries(
    {
        "capacity_bytes": st.integers(-(1 << 63), (1 << 63) - 1),
        "volume_id": TEXTS,
        "volume_context": MAPS,
        "accessible_topology": st.lists(st.fixed_dictionaries({"segments": MAPS}), max_size=2),
    }
)


@given(VOLUMES)
def test_what_is_written_is_read(volume: dict[str, object]) -> None:
    assert decode(VOLUME, encode(VOLUME, {"volume": volume})) == {"volume": volume}


def test_unknown_fields_are_skipped() -> None:
    more = b"\xfa\x01\x03abc" + b"\x08\x05" + b"\x99\x01" + bytes(8) + b"\xa5\x01" + bytes(4)
    assert decode(METHODS["NodeExpandVolume"].reply, more) == {"capacity_bytes": 5}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DriverError):
        decode(METHODS["ListVolumes"].reply, data)


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "s"
    plugin = Plugin(tmp_path / "data", "n1")
    server = serve(plugin, f"unix://{path}", without=("NodeExpandVolume",))
    yield path
    server.stop(None).wait()


def test_plugin_answers_and_refuses_in_its_own_words(socket: Path) -> None:
    async def whole() -> None:
        client = CsiClient(socket)
        info = await client.call("NodeGetInfo")
        assert (info["node_id"], info["max_volumes_per_node"]) == ("n1", 10)
        assert info["accessible_topology"] == {"segments": {"test.csi/rack": "r1"}}
        made = await client.call("CreateVolume", {"name": "a"})
        assert made["volume"]["volume_id"] == "ext-a"
        with pytest.raises(CsiError, match="OUT_OF_RANGE: full") as refused:
            await client.call("CreateVolume", {"name": "b", "parameters": {"fail": "full"}})
        assert refused.value.code == "OUT_OF_RANGE"
        with pytest.raises(CsiError, match="UNIMPLEMENTED"):
            await client.call("NodeExpandVolume", {"volume_id": "a"})
        await client.close()

    asyncio.run(whole())


def test_plugin_in_a_container_is_told_the_paths_that_it_sees(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path / "data", "n1")
    server = serve(plugin, f"unix://{tmp_path}/s")
    staging = tmp_path / "staging"
    staging.mkdir()

    async def whole() -> None:
        client = CsiClient(tmp_path / "s", "/node/csi", str(tmp_path))
        request = {"publish_context": {"device": "d1"}, "staging_target_path": "/node/csi/staging"}
        await client.call("NodeStageVolume", request)
        assert (staging / "staged").exists()
        await client.call("NodeUnstageVolume", {"staging_target_path": ""})
        await client.close()

    asyncio.run(whole())
    server.stop(None).wait()
    last = json.loads((tmp_path / "data" / "calls").read_text().splitlines()[-1])
    assert last == ["NodeUnstageVolume", {"volume_id": "", "staging_target_path": ""}]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("bad key abcd for abc", "bad key [REDACTED] for [REDACTED]"),
        ("mount -o username=u,password=p4ss", "mount -o username=u,password=[REDACTED]"),
        ("cannot reach smb://u:p@host/x", "cannot reach smb://[REDACTED]@host/x"),
    ],
)
def test_words_of_a_plugin_hide_what_is_secret(words: str, shown: str) -> None:
    mount = {"fs_type": "cifs", "mount_flags": ["ro", "username=u,password=p4ss"]}
    secrets = {"a": "abc", "b": "abcd", "c": ""}
    one = {"secrets": secrets, "volume_capability": {"mount": mount}}
    several = {"secrets": secrets, "volume_capabilities": [{"block": {}}, {"mount": mount}]}
    assert without_secrets(words, one) == without_secrets(words, several) == shown


def test_socket_below_any_directory_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a b%20#?\u00fc" / "s"
    path.parent.mkdir()
    server = serve(Plugin(tmp_path / "data", "n1"), f"unix:{quote(str(path))}")

    async def whole() -> None:
        client = CsiClient(path)
        assert (await client.call("Probe"))["ready"]["value"]
        await client.close()

    asyncio.run(whole())
    server.stop(None).wait()


def test_record_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    records = MountRecords(tmp_path)
    first = _record(records, plugin_id="first")
    records.write(first)
    assert records.of_allocation("a") == records.all() == [first]
    Path(f"{first.target}.new").mkdir()  # in the way, as a disk that is full
    with pytest.raises(DriverError, match="cannot write"):
        records.write(_record(records, plugin_id="second"))
    assert records.all() == [first]
    assert records.of_allocation("../a") == []


@pytest.mark.parametrize("broken", [b"", b"\0\0\0", b"[]", b"{}", b'{"target": 1}'])
def test_record_that_cannot_be_read_is_removed_and_the_others_stay(
    tmp_path: Path, broken: bytes
) -> None:
    records = MountRecords(tmp_path)
    whole = _record(records)
    records.write(whole)
    Path(whole.target).with_name("w.json").write_bytes(broken)
    assert records.all() == [whole]
    assert [each.name for each in Path(whole.target).parent.iterdir()] == ["v.json"]


def _record(records: MountRecords, plugin_id: str = "plugin") -> MountRecord:
    target = str(records.target("a", "v"))
    return MountRecord("a", "data", "default", "v", "external", plugin_id, target, "")
