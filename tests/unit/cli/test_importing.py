"""What `orchgit import` makes of submitted variables, of files that are there, and of faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobspec.parse import parse_job
from orchgit.cli.importing.submitted_variables import variable_names, variables_file
from orchgit.cli.main import run
from tests.support.json_http_stub import JsonHttpStub, StubRequest

JOB = """\
variable "name" {}
variable "count" {
  type = number
}
variable "ports" {
  type = list(number)
}
variable "on" {
  type = bool
}
variable "labels" {
  type = map(string)
}
job "typed" {
  type = "batch"
  group "g" {
    count = var.on ? var.count : 0
    task "t" {
      driver = "docker"
      meta   = merge(var.labels, { name = var.name, ports = join("-", var.ports) })
    }
  }
}
"""
FLAGS = {
    "name": 'a "${b}" \\ c',
    "count": "3",
    "ports": "[80, 443]",
    "on": "true",
}
FILE = 'labels = {\n  tier = "x"\n}\nname = "overridden"\n'


def test_values_of_any_type_go_through_a_file_of_variables() -> None:
    content = variables_file(JOB, FILE, FLAGS)
    spec = parse_job(
        JOB.encode(), filename="job", var_files=[("vars", content.encode())], strict=True
    ).spec
    group = spec["TaskGroups"][0]
    assert group["Count"] == 3
    assert group["Tasks"][0]["Meta"] == {"tier": "x", "name": FLAGS["name"], "ports": "80-443"}
    assert sorted(variable_names(content)) == ["count", "labels", "name", "on", "ports"]


class OldCluster(JsonHttpStub):
    """Has one job with its text, and nothing else."""

    def answer(self, request: StubRequest) -> tuple[int, object]:
        job = parse_job(
            JOB.encode(),
            filename="job",
            variables={**FLAGS, "labels": '{ tier = "x" }'},
        ).spec
        found: dict[str, Any] = {
            "/v1/jobs": [{"ID": "typed", "Namespace": "default"}],
            "/v1/job/typed": {**job, "Namespace": "default", "Version": 0},
            "/v1/job/typed/submission": {
                "Format": "hcl2",
                "Source": JOB,
                "Variables": FILE,
                "VariableFlags": FLAGS,
            },
            "/v1/namespaces": [{"Name": "dev", "Description": "d"}],
        }
        if request.path in found:
            return 200, found[request.path]
        return 404, {"error": "nothing here"}


class BrokenCluster(JsonHttpStub):
    def answer(self, request: StubRequest) -> tuple[int, object]:
        return 403, "Permission denied"


def test_import_can_be_repeated_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OldCluster() as old:
        words = ["import", "-address", old.url, "-prefix", "typed", "-out", str(tmp_path)]
        assert run(words) == 0, capsys.readouterr()
        job, variables = tmp_path / "typed.nomad.hcl", tmp_path / "typed.vars.hcl"
        assert job.read_text() == JOB
        variables.unlink()
        assert run(words) == 0
        assert variables.exists()
        job.write_text("mine")
        capsys.readouterr()
        assert run(words) == 1
        assert "exists already, and is another; -force overwrites it" in capsys.readouterr().err
        assert job.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["typed.nomad.hcl", "typed.vars.hcl"]


def test_fault_of_the_new_cluster_is_not_blamed_on_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OldCluster() as old, BrokenCluster() as new:
        words = ["import", "-address", old.url, "-out", str(tmp_path), "-into", new.url]
        assert run(words) == 1
    said = capsys.readouterr()
    assert "! namespaces: the new cluster does not show its own: " in said.err
    assert json.dumps("Permission denied") in said.err
    assert "namespaces: the old cluster" not in said.out
