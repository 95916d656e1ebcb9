"""The journal: what was appended is read back, whatever happened to the end of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.supervisor.journal import SupervisorJournal

_CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 1000) | st.none()), max_size=30
)


def apply(opened: SupervisorJournal, changes: list[tuple[str, int | None]]) -> dict[str, int]:
    expected: dict[str, int] = {}
    for key, value in changes:
        if value is None:
            opened.append({"key": key, "gone": True}, durable=False)
            expected.pop(key, None)
        else:
            opened.append({"key": key, "value": value}, durable=False)
            expected[key] = value
    return expected


def values(opened: SupervisorJournal) -> dict[str, object]:
    return {key: record["value"] for key, record in opened.records.items()}


@settings(max_examples=50, deadline=None)
@given(_CHANGES, st.booleans())
def test_last_record_of_each_key_counts(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int | None]], compact: bool
) -> None:
    directory = str(tmp_path_factory.mktemp("journal"))
    opened = SupervisorJournal(directory)
    expected = apply(opened, changes)
    if compact:
        opened.compact()
    opened.close()
    assert values(SupervisorJournal(directory)) == expected


@settings(max_examples=50, deadline=None)
@given(_CHANGES.filter(bool), st.integers(1, 40), st.binary(max_size=20))
def test_torn_tail_is_cut_and_never_read(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[str, int | None]],
    cut: int,
    garbage: bytes,
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    opened = SupervisorJournal(str(directory))
    apply(opened, changes[:-1])
    before = values(opened)
    size = (directory / "journal").stat().st_size
    apply(opened, changes[-1:])
    opened.close()
    whole = (directory / "journal").read_bytes()
    torn = whole[: max(size, len(whole) - cut)]
    assume(not garbage.startswith(whole[len(torn) :]))  # which would mend it
    (directory / "journal").write_bytes(torn + (garbage if len(torn) < len(whole) else b""))
    again = SupervisorJournal(str(directory))
    assert values(again) == before
    again.append({"key": "later", "value": 1}, durable=True)
    again.close()
    assert values(SupervisorJournal(str(directory))) == {**before, "later": 1}


def test_journal_is_compacted_as_it_grows(tmp_path: Path) -> None:
    opened = SupervisorJournal(str(tmp_path), compact_bytes=2000)
    for number in range(1000):
        opened.append({"key": "k", "value": number}, durable=False)
    opened.append({"key": "other", "value": 1}, durable=False)
    opened.close()
    assert (tmp_path / "journal").stat().st_size < 2100
    assert values(SupervisorJournal(str(tmp_path))) == {"k": 999, "other": 1}
