"""Which columns of a table give way on a narrow terminal."""

from __future__ import annotations

import re
import sys

from hypothesis import given
from hypothesis import strategies as st

from orchgit.cli.printing.table_widths import GIVES_WAY, fitted
from tests.support.pseudo_terminal import on_terminal

COLUMNS = ("ID", "Source", "Subject", "Status")


def test_nothing_is_cut_where_nothing_has_to_fit() -> None:
    assert fitted(COLUMNS, (8, 10, 300, 9), None) == ([8, 10, 300, 9], 2)
    assert fitted(COLUMNS, (8, 10, 30, 9), 80) == ([8, 10, 30, 9], 2)


def test_free_text_gives_way() -> None:
    assert fitted(COLUMNS, (8, 10, 300, 9), 80) == ([8, 10, 47, 9], 2)


def test_columns_stand_closer_before_lines_run_over() -> None:
    assert fitted(COLUMNS, (36, 20, 300, 9), 75) == ([36, 20, 7, 9], 1)
    assert fitted(COLUMNS, (36, 36, 300, 9), 75) == ([36, 36, 6, 9], 1)


def test_what_says_why_is_wrapped_before_anything_is_cut() -> None:
    columns = ("ID", "File", "Status", "Description")
    assert fitted(columns, (8, 30, 9, 60), 80) == ([8, 30, 9, 27], 2)
    assert fitted(columns, (8, 30, 9, 60), 70) == ([8, 23, 9, 24], 2)


@given(st.lists(st.tuples(st.sampled_from(("ID", "Status", "Subject", "URL")), st.integers(1, 99))))
def test_ids_and_states_are_never_cut(columns: list[tuple[str, int]]) -> None:
    names = [name for name, _ in columns]
    natural = [width for _, width in columns]
    widths, gap = fitted(names, natural, 80)
    kept = [at for at, name in enumerate(names) if name not in GIVES_WAY]
    assert [widths[at] for at in kept] == [natural[at] for at in kept]
    used = sum(widths) + gap * max(0, len(widths) - 1)
    cut = [at for at in range(len(names)) if widths[at] < natural[at]]
    assert used <= 80 or all(
        widths[at] <= 6 for at, name in enumerate(names) if name in GIVES_WAY and natural[at] > 6
    )
    assert all(widths[at] >= 6 for at in cut)


TABLE = """
from orchgit.cli.printing.output import table
path = "/a/path/that/is/longer/than/its/column/would/be/on/any/terminal/of/eighty/columns"
why = "no progress: 0/2 healthy, 2 not placed (memory exhausted on 3 nodes) " + path
table(("ID", "Reason", "Status"), [("1a2b3c4d", why, "failed"), ("2b3c4d5e", "", "healthy")])
"""


def test_wrapped_column_is_written_in_lines_and_its_words_stay_whole() -> None:
    seen = on_terminal([sys.executable, "-c", TABLE], {"COLUMNS": "80"})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", seen).replace("\r\n", "\n").splitlines()
    assert lines[0].split() == ["ID", "Reason", "Status"]
    assert lines[1].startswith("1a2b3c4d  no progress: 0/2 healthy, 2 not placed")
    assert lines[1].endswith("  failed")
    assert lines[2] == "          nodes)"
    assert lines[3].strip().startswith("/a/path/that")
    assert lines[3].strip().endswith("/of/eighty/columns")
    assert lines[4].split() == ["2b3c4d5e", "healthy"]
