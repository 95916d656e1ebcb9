"""What `operator debug` does before it collects, and when it is interrupted."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from orchgit.errors import InvalidInputError
from tests.support.json_http_stub import JsonHttpStub, StubRequest


class Cluster(JsonHttpStub):
    """One server; a node that is down, and one that is ready."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def answer(self, request: StubRequest) -> tuple[int, object]:
        self.asked.append(f"{request.path}?{request.query}")
        if request.path == "/v1/agent/members":
            return 200, {"Members": [{"Name": "s1"}]}
        if request.path == "/v1/nodes":
            nodes = {"a": "down", "b": "ready"}
            return 200, [{"ID": key * 36, "Status": nodes[key], "NodeClass": ""} for key in nodes]
        return 200, {}


def test_place_that_cannot_be_written_is_told_before_anything_is_collected() -> None:
    with Cluster() as cluster:
        words = ["operator", "debug", "-output", "/dev/null/x", "-address", cluster.url]
        found = CliRunner().invoke(cli, words)
    assert isinstance(found.exception, InvalidInputError)
    assert "name another directory by -output" in str(found.exception)
    assert not any(path.startswith("/v1/agent/host") for path in cluster.asked)


def test_nodes_that_answer_are_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = ("-duration=0s", "-interval=1s", "-max-nodes=1", "-pprof-duration=0s")
    with Cluster() as cluster:
        found = CliRunner().invoke(cli, ["operator", "debug", *short, "-address", cluster.url])
    assert found.exit_code == 0, found.output
    assert "==> Nodes (1): bbbbbbbb" in found.output
    [archive] = tmp_path.iterdir()
    with tarfile.open(archive) as files:
        assert any(name.endswith("/index.json") for name in files.getnames())
