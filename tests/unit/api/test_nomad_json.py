"""Request bodies as clients write them."""

from __future__ import annotations

import pytest

from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.model.node import NodePool
from orchgit.model.source import Source
from orchgit.model.volume import HostVolume
from orchgit.services.identifiers import stable_uuid


def test_keys_are_read_in_any_case_and_unknown_ones_ignored() -> None:
    pool = nomad_json.decode(b'{"name":"gpu","DESCRIPTION":"d","Later":1}', NodePool)
    assert (pool.name, pool.description) == ("gpu", "d")


def test_keys_of_maps_belong_to_the_user() -> None:
    pool = nomad_json.decode(b'{"Name":"x","Meta":{"Name":"1","name":"2"}}', NodePool)
    assert pool.meta == {"Name": "1", "name": "2"}


def test_keys_inside_lists_and_blocks_are_read_in_any_case_too() -> None:
    body = b'{"name":"v","requestedcapabilities":[{"accessmode":"a","ATTACHMENTMODE":"b"}]}'
    volume = nomad_json.decode(body, HostVolume)
    assert volume.requested_capabilities[0].access_mode == "a"
    source = nomad_json.decode(b'{"prune":{"maxsharepercent":7}}', Source)
    assert source.prune.max_share_percent == 7


def test_null_means_absent() -> None:
    volume = nomad_json.decode(b'{"Name":null,"Parameters":null,"CapacityBytes":null}', HostVolume)
    assert (volume.name, volume.parameters, volume.capacity_bytes) == ("", None, 0)


@pytest.mark.parametrize(
    "body", [b"", b"  ", b"[]", b'"x"', b"{", b"{nope", b"\xff\xfe", b'{"Name": 1}']
)
def test_unreadable_body_is_invalid_input(body: bytes) -> None:
    with pytest.raises(
        InvalidInputError,
        match=r"^(cannot|unexpected|json:|EOF|invalid character|Request body is empty)",
    ):
        nomad_json.convert(nomad_json.decode_tree(body), NodePool)


def test_value_of_the_wrong_type_names_its_place() -> None:
    with pytest.raises(InvalidInputError, match=r"field PrunePolicy\.Prune\.Enabled of type bool"):
        nomad_json.decode(b'{"prune":{"enabled":"yes"}}', Source)


def test_ids_of_nested_objects_follow_from_their_names() -> None:
    assert stable_uuid("a", "b") == stable_uuid("a", "b")
    assert stable_uuid("a", "b") != stable_uuid("ab")


def test_empty_namespace_means_the_default_one() -> None:
    assert nomad_json.decode(b'{"Name":"v","Namespace":""}', HostVolume).namespace == "default"
    assert nomad_json.decode(b'{"Name":"v","Namespace":"dev"}', HostVolume).namespace == "dev"


@pytest.mark.parametrize(
    ("sent", "stored"), [('"24h0m0s"', 86_400_000_000_000), ('""', 0), ("5", 5), ("null", 0)]
)
def test_duration_is_read_as_text_and_as_nanoseconds(sent: str, stored: int) -> None:
    body = f'{{"Name":"gpu","NodeIdentityTTL":{sent}}}'.encode()
    assert nomad_json.decode(body, NodePool).node_identity_ttl_ns == stored


def test_duration_that_is_none_is_refused_by_its_key() -> None:
    with pytest.raises(InvalidInputError, match="NodeIdentityTTL"):
        nomad_json.decode(b'{"NodeIdentityTTL":"soon"}', NodePool)


@pytest.mark.parametrize("value", ["1", 1.5, True, [], 1 << 64])
def test_whole_number_of_another_kind_is_refused_by_its_key(value: object) -> None:
    with pytest.raises(InvalidInputError, match="JobModifyIndex"):
        nomad_json.get({"JobModifyIndex": value}, "JobModifyIndex", 0)
