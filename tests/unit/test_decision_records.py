"""The index of the decision records is complete."""

from __future__ import annotations

import re
from pathlib import Path

RECORDS = Path(__file__).parents[2] / "docs" / "decisions"
INDEX = (RECORDS / "README.md").read_text()


def test_index_lists_every_record_with_its_title() -> None:
    listed = dict(re.findall(r"^\| \[\d{4}\]\((\S+)\) \| (.+) \|$", INDEX, re.M))
    titles = {}
    for file in RECORDS.glob("0*.md"):
        number, title = file.read_text().splitlines()[0].removeprefix("# ").split(": ", 1)
        assert file.name.startswith(f"{number}-")
        titles[file.name] = title
    assert listed == titles


def test_every_number_has_a_record_or_is_named_as_unused() -> None:
    used = {file.name[:4] for file in RECORDS.glob("0*.md")}
    unused = set(re.findall(r"\b\d{4}\b", INDEX.split("Numbers without a page", 1)[1]))
    assert not used & unused
    assert used | unused == {f"{number:04}" for number in range(1, int(max(used)) + 1)}
