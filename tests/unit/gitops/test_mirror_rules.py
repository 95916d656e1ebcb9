"""How a mirror gets to what the state says, and how many servers must have a commit's objects."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.gitops.git.refs import ZERO_ID
from orchgit.gitops.mirrors.peers import Peer
from orchgit.gitops.mirrors.quorum import others_needed
from orchgit.gitops.mirrors.rules import (
    KEPT_PREFIX,
    Wanted,
    plan_mirror,
    shown_refs,
)
from orchgit.gitops.remote.receive_protocol import RefCommand, check_room

OBJECTS = [f"{n:040x}" for n in range(1, 7)]
NAMES = ["refs/heads/main", "refs/heads/x", "refs/tags/v1", "refs/notes/n"]
OURS = ["refs/orchgit/fetched", *(f"{KEPT_PREFIX}{each}" for each in OBJECTS)]

objects = st.sampled_from(OBJECTS)
refs = st.dictionaries(st.sampled_from(NAMES), objects)
wanted = st.builds(
    Wanted,
    st.one_of(st.none(), refs),
    st.just("refs/heads/main"),
    st.frozensets(objects),
)
present = st.dictionaries(st.sampled_from([*NAMES, *OURS]), objects)


def after(before: dict[str, str], want: Wanted, held: frozenset[str]) -> dict[str, str]:
    plan = plan_mirror(want, held, before)
    kept = {name: each for name, each in before.items() if name not in plan.drop}
    return {**kept, **plan.put}


@settings(max_examples=200, deadline=None)
@given(wanted, present, st.frozensets(objects))
def test_ref_moves_only_to_objects_that_are_here(
    want: Wanted, before: dict[str, str], held: frozenset[str]
) -> None:
    plan = plan_mirror(want, held, before)
    assert set(plan.put.values()) <= held
    assert plan.lacking == want.objects - held
    assert not set(plan.drop) & set(plan.put)
    now = after(before, want, held)
    again = plan_mirror(want, held, now)
    assert (dict(again.put), again.drop) == ({}, frozenset())
    assert now.get("refs/orchgit/fetched") == before.get("refs/orchgit/fetched")
    if want.refs is None:
        assert {n: now.get(n) for n in NAMES} == {n: before.get(n) for n in NAMES}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(wanted, st.frozensets(objects)), max_size=6),
    st.lists(st.tuples(wanted, st.frozensets(objects)), max_size=6),
    wanted.filter(lambda want: want.refs is not None),
)
def test_two_mirrors_show_the_same_refs_after_any_history(
    one: list[tuple[Wanted, frozenset[str]]],
    two: list[tuple[Wanted, frozenset[str]]],
    last: Wanted,
) -> None:
    """They saw other states, and had other objects when they did, before both caught up."""
    ends = []
    for story in (one, two):
        shown: dict[str, str] = {}
        for want, held in story:
            shown = after(shown, want, held)
        ends.append(after(shown, last, last.objects))
    assert ends[0] == ends[1]
    assert {n: each for n, each in ends[0].items() if n in NAMES} == last.refs
    assert {n for n in ends[0] if n.startswith(KEPT_PREFIX)} == {
        f"{KEPT_PREFIX}{each}" for each in last.commits
    }


@pytest.mark.parametrize("voters", range(1, 10))
def test_after_the_loss_of_any_minority_a_server_has_the_commit(voters: int) -> None:
    others = [Peer(f"s{n}") for n in range(1, voters)]
    learners = [Peer("learner", votes=False)] * 3
    holding = 1 + others_needed([*others, *learners])
    assert holding <= voters
    lost = (voters - 1) // 2
    assert holding > lost
    for gone in itertools.combinations(range(voters), lost):
        assert set(range(holding)) - set(gone)


@pytest.mark.parametrize(
    ("ref", "there"),
    [
        ("refs/heads/a/b", "refs/heads/a"),
        ("refs/heads/a", "refs/heads/a/b/c"),
    ],
)
def test_branch_below_or_above_another_is_refused(ref: str, there: str) -> None:
    command = RefCommand(ZERO_ID, OBJECTS[0], ref)
    assert (
        check_room(command, {there: OBJECTS[1]}, 10)
        == f"ref {there} exists, and git cannot have both"
    )
    assert check_room(command, {"refs/heads/ab": OBJECTS[1]}, 10) == ""


def test_new_ref_above_the_limit_is_refused_and_known_refs_still_move() -> None:
    known = {"refs/heads/a": OBJECTS[0], "refs/heads/b": OBJECTS[1]}
    new = RefCommand(ZERO_ID, OBJECTS[2], "refs/heads/c")
    assert "max_refs is 2" in check_room(new, known, 2)
    assert check_room(RefCommand(OBJECTS[0], OBJECTS[2], "refs/heads/a"), known, 2) == ""
    assert check_room(RefCommand(OBJECTS[0], ZERO_ID, "refs/heads/a"), known, 2) == ""


def test_push_is_not_shown_refs_whose_objects_no_server_has() -> None:
    known = {"refs/heads/a": OBJECTS[0], "refs/heads/b": OBJECTS[1]}
    assert shown_refs(known, {OBJECTS[0]}) == {"refs/heads/b": OBJECTS[1]}
