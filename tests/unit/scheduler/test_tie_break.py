"""What decides between equal nodes follows from the seed, and is fair."""

from __future__ import annotations

from collections import Counter

from orchgit.scheduler.ranking.tie_break import TieBreak
from orchgit.state.columns import ClusterColumns
from tests.support.factories import make_node


def _columns(size: int) -> ClusterColumns:
    columns = ClusterColumns()
    for _ in range(size):
        columns.put_node(make_node())
    return columns


def test_same_seed_gives_the_same_order_and_no_two_rows_are_tied() -> None:
    columns = _columns(200)
    ties = TieBreak(columns, seed=7).ties.tolist()
    assert ties == TieBreak(columns, seed=7).ties.tolist()
    assert len(set(ties)) == 200
    assert min(ties) >= 0


def test_over_many_seeds_every_row_comes_first_about_as_often() -> None:
    columns = _columns(10)
    firsts = Counter(int(TieBreak(columns, seed * 2_654_435_761 % 2**32).ties.argmin())
                     for seed in range(2000))  # fmt: skip
    assert len(firsts) == 10
    assert max(firsts.values()) < 2 * 200


def test_more_nodes_get_numbers_too() -> None:
    columns = _columns(3)
    assert len(TieBreak(columns, seed=1).ties) == 3
    columns.put_node(make_node())
    assert len(TieBreak(columns, seed=1).ties) == 4
