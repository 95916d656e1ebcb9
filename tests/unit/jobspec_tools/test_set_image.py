"""Images written back: only their own bytes change, and the job is the same but for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.errors import JobFileErrors
from jobspec.files import CurrentDirectory
from jobspec.parse import parse_job
from jobspec.writing.set_image import Edited, Setting, repository_of, set_images, setting_of
from orchgit.cli.commands.set_image import set_image
from orchgit.errors import InvalidInputError
from tests.support.jobspec_mutations import golden_texts

VARIED = Path(__file__).resolve().parents[2] / "support" / "varied_jobs"
TEXTS = [
    *(text.encode() for _, text in golden_texts()),
    *(path.read_bytes() for path in sorted(VARIED.iterdir())),
]


def images(content: bytes) -> dict[str, str]:
    """Those that can be set, by where they stand."""
    found = set_images(content, "x.hcl", [Setting("*", "new/image:1")])
    return {edit.place: edit.old for edit in found.edits}


def _readable(content: bytes) -> bool:
    try:
        return bool(images(content))
    except JobFileErrors:
        return False


WITH_IMAGES = [content for content in TEXTS if _readable(content)]
IMAGE = st.from_regex(
    r"[a-z0-9]{1,6}(\.[a-z]{2}:5000)?(/[a-z0-9]{1,8}){0,2}(:[a-zA-Z0-9._-]{1,9})?", fullmatch=True
)


def spec_of(content: bytes) -> dict[str, Any] | None:
    try:
        return parse_job(content, filename="x.hcl", files=CurrentDirectory()).spec
    except JobFileErrors:
        return None  # it needs variables


def without_images(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {k: without_images(v) for k, v in spec.items() if k != "image"}
    if isinstance(spec, list):
        return [without_images(item) for item in spec]
    return spec


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WITH_IMAGES), IMAGE, st.data())
def test_set_image_changes_only_the_image(content: bytes, image: str, data: st.DataObject) -> None:
    known = images(content)
    place = data.draw(st.sampled_from(sorted(known)))
    result = set_images(content, "x.hcl", [Setting(place, image)])
    edits = [edit for edit in result.edits if edit.new != edit.old]
    assert all(edit.place == place for edit in edits)
    rest = result.content
    start = 0
    while start < min(len(content), len(rest)) and content[start] == rest[start]:
        start += 1
    end = 0
    while end < min(len(content), len(rest)) - start and content[-1 - end] == rest[-1 - end]:
        end += 1
    if len(edits) == 1:
        old, new = content[start : len(content) - end], rest[start : len(rest) - end]
        assert old in json.dumps(edits[0].old).encode()
        assert new in json.dumps(image).encode()
    before, after = spec_of(content), spec_of(rest)
    assert (before is None) == (after is None)
    assert without_images(before) == without_images(after)
    assert image in set(images(rest).values())
    assert set_images(rest, "x.hcl", [Setting(place, image)]).content == rest


def edit(text: str, *arguments: str) -> Edited:
    return set_images(text.encode(), "web.nomad.hcl", [setting_of(each) for each in arguments])


def job(image: str, before: str = "") -> str:
    return (
        f'{before}job "web" {{\n  group "app" {{\n    task "server" {{\n      config {{\n'
        f"        image = {image}\n      }}\n    }}\n  }}\n}}\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"acme/web:1" # x', '"acme/web:2" # x'),
        ('("acme/web:1")', '("acme/web:2")'),
        ('"acme\\u002Fweb:1"', '"acme/web:2"'),
        ("<<EOT\nacme/web:1\nEOT", "<<EOT\nacme/web:2\nEOT"),
        ("<<-EOT\n\t  acme/web:1\n  EOT", "<<-EOT\n\t  acme/web:2\n  EOT"),
        ('"acme/web@sha256:abc"', '"acme/web:2"'),
        ('"acme/web"', '"acme/web:2"'),
    ],
)
def test_ways_to_write_an_image(old: str, new: str) -> None:
    assert edit(job(old), "acme/web:2").content.decode() == job(new)


def test_target_chooses_job_group_and_task() -> None:
    text = job('"a:1"')
    for target in ("server", "app/server", "web/app/server", "*", "web/*/server", "a??/ser*"):
        assert edit(text, f"{target}=b:2").content.decode() == job('"b:2"'), target
    for target in ("app", "other/server", "web/app", "x/web/app/server"):
        result = edit(text, f"{target}=b:2")
        assert (result.content.decode(), result.used) == (text, set()), target
    assert edit(text, "b:2").used == set()
    assert edit(text, "*=b:2", "server=c:3").content.decode() == job('"c:3"')


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ('"acme/web:${var.tag}"', "var.tag=2.0"),
        ("var.image", "var.image=acme/web:2.0"),
        ('"${var.repo}/web:1"', "var.repo=VALUE"),
        ("local.image", "local.image=acme/web:2.0"),
        ('"acme/web:${NOMAD_META_tag}"', "by hand"),
        ("null", "by hand"),
    ],
)
def test_computed_image_is_left_alone_and_its_variable_named(image: str, says: str) -> None:
    text = job(image)
    result = edit(text, "server=acme/web:2.0")
    assert result.content.decode() == text
    (problem,) = result.problems
    assert problem.line == 5
    assert "web/app/server" in problem.message
    assert says in problem.hint
    by_repository = edit(text, "acme/web:2.0")
    assert bool(by_repository.problems) == image.startswith('"acme/web:')


def test_variables_and_locals() -> None:
    head = (
        'variable "tag" {\n  default = "1" # d\n}\nvariables {\n  v = "a"\n}\n'
        'locals {\n  l = "b"\n}\n'
    )
    text = job('"acme/web:${var.tag}"', head)
    result = edit(text, "var.tag=2", "var.v=c=d", 'local.l=${x} "q"')
    wanted = head.replace('"1"', '"2"').replace('"a"', '"c=d"').replace('"b"', '"$${x} \\"q\\""')
    assert result.content.decode() == job('"acme/web:${var.tag}"', wanted)
    assert edit('tag = "1"\nother = 2\n', "var.tag=2").content == b'tag = "2"\nother = 2\n'
    assert edit('{"tag": "1"}', "var.tag=a${b}").content == b'{"tag": "a$${b}"}'
    (problem,) = edit('variable "tag" {\n  default = 3\n}\n', "var.tag=2").problems
    assert "by hand" in problem.hint


def test_images_are_set_in_sidecars_and_dynamic_blocks() -> None:
    text = (
        'job "j" {\n  task "top" {\n    config {\n      image = "a:1"\n    }\n  }\n  group "g" {\n'
        "    service {\n      connect {\n        sidecar_task {\n          config {\n"
        '            image = "envoy:1"\n          }\n        }\n      }\n    }\n'
        '    dynamic "task" {\n      for_each = [1]\n      labels = ["x"]\n      content {\n'
        '        config {\n          image = "b:1"\n        }\n      }\n    }\n  }\n}\n'
    )
    assert images(text.encode()) == {
        "j/top/top": "a:1",
        "j/g/connect-proxy": "envoy:1",
        "j/g/?": "b:1",
    }


def test_repositories_and_arguments() -> None:
    for image, repository in (
        ("redis", "redis"),
        ("redis:7", "redis"),
        ("host:5000/a/b", "host:5000/a/b"),
        ("host:5000/a/b:1@sha256:ff", "host:5000/a/b"),
    ):
        assert repository_of(image) == repository
    for bad in ("=x", "a b", "t=", "t=a${b}", ""):
        with pytest.raises(InvalidInputError):
            setting_of(bad)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(set_image, list(arguments))
    return result.exit_code, result.output


def test_command_writes_files_and_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    one, two = tmp_path / "one.nomad.hcl", tmp_path / "sub" / "two.nomad.json"
    one.write_text(job('"acme/web:1"'))
    two.write_text('{"job":{"j":{"group":{"g":{"task":{"t":{"config":{"image":"acme/web:1"}}}}}}}}')
    before = one.read_text(), two.read_text()
    where = str(tmp_path)
    code, output = run("-check", where, "acme/web:2")
    assert (code, one.read_text(), two.read_text()) == (1, *before)
    code, output = run("-diff", where, "acme/web:2")
    assert code == 0
    assert '+        image = "acme/web:2"' in output
    assert [each.replace(":1", ":2") for each in before] == [one.read_text(), two.read_text()]
    code, output = run("-check", where, "acme/web:2")
    assert code == 0
    assert f"{one}:5: web/app/server: is acme/web:2" in output
    code, output = run(where, "acme/other:2")
    assert (code, "no task has an image of acme/other" in output) == (2, True)
    one.write_text("job {")
    code, output = run(where, "acme/web:3")
    assert code == 2
    assert "acme/web:3" in two.read_text()
    assert f"{one}:1:" in output
    assert run(where)[0] != 0
    assert run(str(tmp_path / "none"), "a:1")[0] != 0
