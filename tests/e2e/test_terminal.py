"""What a person reads on a terminal: nothing steers it, and ids and states are whole."""

from __future__ import annotations

import re
import sys

from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper
from tests.support.pseudo_terminal import on_terminal

HOSTILE = "Paint \x1b[31mred\x1b]0;title\x07 and a subject that goes on for a good deal longer"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def seen_by_person(repository: Repository, *words: str) -> str:
    environment = {"ORCHGIT_ADDR": repository.server.address}
    text = on_terminal([sys.executable, "-m", "orchgit", *words], environment)
    return text.replace("\r\n", "\n")


def test_commit_subject_is_escaped_and_tables_show_whole_ids(
    repository: Repository,
) -> None:
    repository.write("r.nomad.hcl", sleeper(repository.name))
    commit = repository.commit(HOSTILE)
    seen = repository.push()
    assert r"Paint \x1b[31mred\x1b]0;title\x07" in seen
    assert "\x1b[31mred" not in seen
    rollout = repository.server.get(f"/v1/gitops/rollout/{commit}")

    status = seen_by_person(repository, "rollout", "status", commit)
    assert r"Paint \x1b[31mred\x1b]0;title\x07" in _COLOURS.sub("", status)
    assert "\x1b]" not in status
    assert "\x1b[31mred" not in status
    assert "\x1b[32mhealthy" in status

    listed = seen_by_person(repository, "rollout", "list", "-source", repository.name)
    _, row = _COLOURS.sub("", listed).splitlines()
    for whole in (rollout["ID"][:8], repository.name, commit[:8], "healthy"):
        assert whole in row
    assert re.search(r" P\S{4,}… ", row), row

    missing = seen_by_person(repository, "job", "status", "\x1b[31mnone")
    assert r"\x1b[31mnone" in missing
    assert "\x1b[31mnone" not in missing
