"""Faults of request bodies are told in the words of Go's encoding/json, which clients know.

`tests/golden/http/go_json.json` has what Go said of each text, and of each job.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from jobspec.blocks.api_shape import WrongTypeError, complete, shape_of
from orchgit.api.shapes import go_json, go_syntax, nomad_json
from orchgit.api.shapes.job_words import type_words
from orchgit.errors import InvalidInputError
from orchgit.model.node import NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.volume import HostVolume

_RECORDED: dict[str, list[Any]] = json.loads(
    Path("tests/golden/http/go_json.json").read_text(encoding="utf-8")
)
_INNER = go_json.Fields("structs.Inner", {"A": go_json.whole("int"), "D": go_json.texts})
_FIELDS = go_json.Fields(
    "structs.Request",
    {
        "Job": go_json.struct(_INNER),
        "Many": go_json.structs(_INNER),
        "S": go_json.text_map,
        "U": go_json.whole("uint64"),
        "B": go_json.base64_bytes,
        "Token": go_json.embedded("WriteRequest", go_json.text),
    },
)


@pytest.mark.parametrize(("text", "said"), _RECORDED["syntax"])
def test_fault_of_syntax_is_told_as_go_tells_it(text: str, said: str) -> None:
    assert (go_syntax.syntax_problem(text.encode("latin-1")) or "") == said


@pytest.mark.parametrize(("job", "said"), _RECORDED["jobs"])
def test_wrong_type_in_a_job_is_told_as_go_tells_it(job: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongTypeError) as refused:
        complete(job, shape_of("job"))
    assert type_words(refused.value) == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"Job":1}', "number into Go struct field Request.Job of type structs.Inner"),
        ('{"job":{"a":"x"}}', "string into Go struct field Inner.Job.A of type int"),
        ('{"Many":[{"A":true}]}', "bool into Go struct field Inner.Many.A of type int"),
        ('{"Many":{}}', "object into Go struct field Request.Many of type []*structs.Inner"),
        ('{"Many":["x"]}', "string into Go struct field Request.Many of type structs.Inner"),
        ('{"S":{"k":1}}', "number into Go struct field Request.S of type string"),
        ('{"S":[]}', "array into Go struct field Request.S of type map[string]string"),
        ('{"U":-1}', "number -1 into Go struct field Request.U of type uint64"),
        ('{"U":1.5}', "number 1.5 into Go struct field Request.U of type uint64"),
        ('{"B":1}', "number into Go struct field Request.B of type []uint8"),
        ('{"Job":{"D":"x"}}', "string into Go struct field Inner.Job.D of type []string"),
        ('{"Token":1}', "number into Go struct field Request.WriteRequest.Token of type string"),
        ("[]", "array into Go value of type structs.Request"),
    ],
)
def test_wrong_type_in_a_body_is_told_as_go_tells_it(body: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        go_json.decode_body(body.encode(), _FIELDS)
    assert str(refused.value) == f"json: cannot unmarshal {said}"


@pytest.mark.parametrize(
    ("text", "at"),
    [("!!", 0), ("QUI", 0), ("QUIQ=", 4), ("QUIx!", 4), ("QQ=x", 2), ("QQ==x", 4), ("Q\nU", 1)],
)
def test_place_of_what_is_not_base64_is_told(text: str, at: int) -> None:
    with pytest.raises(InvalidInputError) as refused:
        go_json.decode_body(json.dumps({"B": text}).encode(), _FIELDS)
    assert str(refused.value) == f"illegal base64 data at input byte {at}"


def test_base64_may_be_broken_into_lines() -> None:
    text = base64.encodebytes(b"x" * 100).decode()
    assert go_json.decode_body(json.dumps({"B": text}).encode(), _FIELDS) == {"B": b"x" * 100}


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b'{"Name":1}', NodePool, "number into Go struct field NodePool.Name of type string"),
        (
            b'{"Meta":{"k":1}}',
            NodePool,
            "number into Go struct field NodePool.Meta of type string",
        ),
        (
            b'{"PreemptionConfig":{"BatchSchedulerEnabled":"x"}}',
            SchedulerConfig,
            "string into Go struct field PreemptionConfig.PreemptionConfig.BatchSchedulerEnabled "
            "of type bool",
        ),
        (
            b'{"RequestedCapabilities":"x"}',
            HostVolume,
            "string into Go struct field HostVolume.RequestedCapabilities of type "
            "[]*structs.VolumeCapability",
        ),
        (
            b'{"CapacityBytes":"x"}',
            HostVolume,
            "string into Go struct field HostVolume.CapacityBytes of type int64",
        ),
    ],
)
def test_wrong_type_in_a_stored_object_is_told_as_go_tells_it(
    body: bytes, kind: type, said: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        nomad_json.decode(body, kind)
    assert str(refused.value) == f"json: cannot unmarshal {said}"


@pytest.mark.parametrize("body", [b"", b"  ", b"null", b"[]"])
def test_body_without_an_object_sets_nothing_to_its_default(body: bytes) -> None:
    with pytest.raises(InvalidInputError):
        nomad_json.decode(body, SchedulerConfig)


def test_fault_of_a_large_body_is_told_without_a_second_look() -> None:
    body = b'{"a":[' + b"1," * (1 << 16) + b"x]}"
    with pytest.raises(InvalidInputError, match="byte"):
        go_syntax.decode(body)
    with pytest.raises(InvalidInputError, match=r"^unexpected EOF$"):
        go_syntax.decode(body[:-3])
