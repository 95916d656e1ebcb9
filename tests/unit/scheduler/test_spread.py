"""Scores of spreads, by the formulas."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchgit.model.constraint import Spread, SpreadTarget
from orchgit.scheduler.ranking.spread import SpreadScore
from orchgit.state.columns import ClusterColumns
from tests.support.scheduling import make_network_node

RACKS = ("r1", "r2", "r3", None)


def columns_of(racks: tuple[str | None, ...] = RACKS) -> ClusterColumns:
    columns = ClusterColumns()
    for number, rack in enumerate(racks):
        node = make_network_node(number)
        node.meta = {} if rack is None else {"rack": rack}
        columns.put_node(node)
    return columns


def boosts(spread: SpreadScore) -> list[float]:
    """By row."""
    values = spread.boosts()
    return [float(values[code]) for code in spread.combination]


def even() -> SpreadScore:
    return SpreadScore(columns_of(), [Spread(attribute="${meta.rack}", weight=50)], 6)


def test_with_nothing_placed_all_values_are_equal() -> None:
    assert boosts(even()) == [0.0, 0.0, 0.0, -1.0]


def test_values_not_in_use_are_best_and_the_fullest_is_worst() -> None:
    spread = even()
    spread.add_all([0, 0, 1])
    assert boosts(spread) == [-1.0, 1.0, 1.0, -1.0]
    spread.add_all([2])
    assert boosts(spread) == [-1.0, 1.0, 1.0, -1.0]


def test_value_that_the_plan_emptied_is_still_in_use() -> None:
    """m = 0: what has more than nothing is refused as far as a score can."""
    spread = even()
    spread.add_all([0, 1])
    spread.add(0, -1)
    assert boosts(spread) == [1.0, -1.0, 1.0, -1.0]
    spread.add(1, -1)
    assert boosts(spread) == [-1.0, -1.0, -1.0, -1.0]


def test_targets_and_what_is_left_for_the_rest() -> None:
    targets = [SpreadTarget("r1", 50), SpreadTarget("r2", 25)]
    wanted = Spread(attribute="${meta.rack}", weight=50, spread_target=targets)
    spread = SpreadScore(columns_of(), [wanted], 8)
    assert boosts(spread) == [(4 - 1) / 4, (2 - 1) / 2, (2 - 1) / 2, -1.0]
    spread.add_all([0, 2, 2])
    assert boosts(spread) == [(4 - 2) / 4, (2 - 1) / 2, (2 - 3) / 2, -1.0]


def test_target_of_nothing_has_the_lowest_score_seen() -> None:
    targets = [SpreadTarget("r1", 100), SpreadTarget("r2", 0)]
    wanted = Spread(attribute="${meta.rack}", weight=50, spread_target=targets)
    spread = SpreadScore(columns_of(), [wanted], 2)
    assert boosts(spread) == [(2 - 1) / 2, -1.0, -1.0, -1.0]
    spread.add_all([0, 0, 0, 0])
    assert boosts(spread)[:2] == [(2 - 5) / 2, (2 - 5) / 2]


def test_scores_of_several_spreads_are_added_by_weight() -> None:
    one = Spread(attribute="${meta.rack}", weight=30, spread_target=[SpreadTarget("r1", 100)])
    other = Spread(
        attribute="${node.datacenter}", weight=10, spread_target=[SpreadTarget("dc1", 100)]
    )
    spread = SpreadScore(columns_of(("r1",)), [one, other], 4)
    assert boosts(spread) == [(4 - 1) / 4 * 30 / 40 + (4 - 1) / 4 * 10 / 40]


@given(counts=st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_of_values_in_use_one_with_fewer_never_scores_below_one_with_more(
    counts: list[int],
) -> None:
    """While they are uneven; all equal is equally bad."""
    spread = even()
    for row, count in enumerate(counts):
        spread.add_all([row] * count)
    scores = boosts(spread)
    order = sorted(range(3), key=lambda row: counts[row])
    if len(set(counts)) > 1:
        assert all(scores[less] >= scores[more] for less, more in pairwise(order))
