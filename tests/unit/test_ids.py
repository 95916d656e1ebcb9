"""Random ids, and those of things made together."""

from __future__ import annotations

import re
from itertools import islice, pairwise

from orchgit.ids import RandomIds

_VERSION_4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_all_ids_are_version_4_uuids() -> None:
    ids = RandomIds()
    made = [ids.new() for _ in range(200)] + list(islice(ids.series(), 200))
    assert all(_VERSION_4.fullmatch(each) for each in made)
    assert len(set(made)) == len(made)


def test_ids_of_a_series_differ_in_their_prefix_and_are_close_together() -> None:
    firsts = [int(each[:8], 16) for each in islice(RandomIds().series(), 1000)]
    assert len(set(firsts)) == 1000
    steps = [(after - before) % 2**32 for before, after in pairwise(firsts)]
    assert min(steps) >= 1
    assert max(steps) <= 2048


def test_series_begin_at_random_prefixes() -> None:
    starts = {next(RandomIds().series())[:4] for _ in range(20)}
    assert len(starts) > 10
