"""What gates decide: policies that narrow, approvals that lapse, and commits that go back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.errors import ConflictError, InvalidInputError, RefusedError
from orchgit.gitops.gates.approvals import approved, checked_reason
from orchgit.gitops.gates.decide import GateFacts, GateVerdict, decide, may_go_on, waits_for_room
from orchgit.gitops.gates.health import RevertStep, decide_revert
from orchgit.gitops.gates.permit import Permit, PlanChangedError
from orchgit.gitops.gates.policy import Gates, gates_of, narrowed_prune
from orchgit.model.base import NS_PER_S
from orchgit.model.gates import (
    Approval,
    GateDecision,
    GateKind,
    GatePolicy,
    RolloutGates,
    WindowOverride,
)
from orchgit.model.repository_policy import GateRule, PruneRule, RepositoryPolicy, WindowRule
from orchgit.model.rollout import Commit, Rollout, RolloutJob
from orchgit.model.source import PrunePolicy, Source, SourceStatus
from orchgit.model.window_text import parse_window

HASH = "a" * 64
NIGHT_NS = 3 * 3600 * NS_PER_S
"""03:00 UTC on the first day."""
OFFICE = parse_window("allow 0 9 * * * 8h")


def waiting(**fields: Any) -> Rollout:
    commit = Commit(id="c" * 40, author="Ada", email="ada@example.com")
    gates = RolloutGates(approvals_needed=1)
    return Rollout(
        **{
            "id": "r1",
            "source": "demo",
            "commit": commit,
            "pusher": "ben",
            "status": "awaiting_approval",
            "plan_hash": HASH,
            "gates": gates,
            **fields,
        }
    )


def recorded(verdict: GateVerdict, **fields: Any) -> Rollout:
    return waiting(status=verdict.status, gates=verdict.record, **fields)


# --- policies -----------------------------------------------------------------------------------


def test_policy_of_a_repository_narrows_and_never_widens() -> None:
    rule = GateRule(health="report", require_fit=False, approvals=0)
    strict = Source(gates=GatePolicy(approvals=2, require_fit=True, health="revert"))
    found = gates_of(strict, RepositoryPolicy(gate=rule))
    assert (found.approvals, found.require_fit, found.health) == (2, True, "revert")
    rule = GateRule(health="revert", deadline_ns=60 * NS_PER_S, require_fit=True, approvals=1)
    found = gates_of(Source(), RepositoryPolicy(gate=rule))
    assert (found.approvals, found.require_fit, found.health) == (1, True, "revert")
    assert found.health_deadline_ns == 60 * NS_PER_S


def test_windows_of_every_policy_have_to_be_open() -> None:
    nights = WindowRule("nights", "allow", "0 2 * * *", 2 * 3600 * NS_PER_S)
    policy = RepositoryPolicy(windows=[nights])
    found = gates_of(Source(gates=GatePolicy(windows=[OFFICE])), policy, policy)
    assert [len(each) for each in found.windows] == [1, 1]
    assert decide(found, GateFacts(NIGHT_NS, HASH)).status == "pending"
    assert gates_of(Source(), RepositoryPolicy()).windows == []


@given(st.builds(PrunePolicy), st.builds(PruneRule))
def test_prune_block_of_a_repository_never_widens(prune: PrunePolicy, rule: PruneRule) -> None:
    found = narrowed_prune(prune, rule)
    assert found.max_share_percent <= prune.max_share_percent
    assert prune.enabled or not found.enabled
    assert (found.wildcard, found.claims) == (prune.wildcard, prune.claims)


# --- decisions ----------------------------------------------------------------------------------


def test_commit_without_gates_passes() -> None:
    verdict = decide(Gates(), GateFacts(NIGHT_NS, HASH))
    assert verdict.is_open
    assert verdict.record == RolloutGates()


def test_every_closed_gate_is_named_and_approvals_show_first() -> None:
    gates = Gates(windows=[[OFFICE]], approvals=2, require_fit=True)
    verdict = decide(gates, GateFacts(NIGHT_NS, HASH, misfit="web: 2 of 3 blocked"))
    assert verdict.status == "awaiting_approval"
    assert verdict.description == (
        "0 of 2 approvals; outside its window, which opens at 1970-01-01 09:00:00 UTC; "
        "does not fit: web: 2 of 3 blocked"
    )
    assert verdict.record.opens_time_ns == 9 * 3600 * NS_PER_S
    assert waits_for_room(recorded(verdict))


def test_override_opens_the_window_and_no_other_gate() -> None:
    gates = Gates(windows=[[OFFICE]], require_fit=True)
    override = WindowOverride("bob", "the shop is down", 1)
    verdict = decide(gates, GateFacts(NIGHT_NS, HASH, override=override, misfit="web"))
    assert verdict.description == "does not fit: web"
    again = decide(gates, GateFacts(NIGHT_NS, HASH, waiting=recorded(verdict)))
    assert again.is_open
    assert again.record.override == override


def test_approvals_count_for_their_plan_only() -> None:
    approvals = [Approval("bob", HASH, 1), Approval("eve", "b" * 64, 1)]
    rollout = waiting(gates=RolloutGates(approvals_needed=2, approvals=approvals))
    verdict = decide(Gates(approvals=2), GateFacts(NIGHT_NS, HASH, waiting=rollout))
    assert verdict.description == ("1 of 2 approvals (bob); the plan changed after eve approved it")
    assert not may_go_on(rollout, NIGHT_NS)
    lenient = decide(Gates(approvals=1), GateFacts(NIGHT_NS, HASH, waiting=rollout))
    assert lenient.is_open


def test_waiting_rollout_may_go_on_when_its_window_opens() -> None:
    rollout = recorded(decide(Gates(windows=[[OFFICE]]), GateFacts(NIGHT_NS, HASH)))
    opens_ns = 9 * 3600 * NS_PER_S
    assert not may_go_on(rollout, opens_ns - 1)
    assert may_go_on(rollout, opens_ns)
    never = Gates(windows=[[parse_window("deny * * * * * 2h")]])
    assert not may_go_on(recorded(decide(never, GateFacts(NIGHT_NS, HASH))), opens_ns)


# --- approvals ----------------------------------------------------------------------------------


def test_second_approval_of_a_person_replaces_the_first() -> None:
    once = approved(waiting(), "Bob", HASH, 1)
    twice = approved(once, " bob ", HASH[:8], 2)
    assert twice.gates is not None
    assert twice.gates.approvals == [Approval("bob", HASH, 2)]


def test_record_says_at_once_that_an_approval_of_several_came() -> None:
    closed = GateDecision(GateKind.APPROVAL, is_open=False, reason="0 of 2 approvals")
    rollout = waiting(gates=RolloutGates(approvals_needed=2, decisions=[closed]))
    after = approved(rollout, "Bob", HASH, 1)
    assert after.status_description == "1 of 2 approvals (Bob)"


def test_person_who_had_a_remote_checked_may_approve_what_was_found() -> None:
    found = waiting(pusher="ben", trigger="api")
    assert approved(found, "ben", HASH, 1).gates is not None


@pytest.mark.parametrize("name", ["Ada", "ADA", "ada@example.com", "ada", "ben"])
def test_author_and_pusher_may_approve_only_where_that_is_allowed(name: str) -> None:
    with pytest.raises(RefusedError, match="another person has to approve it"):
        approved(waiting(), name, HASH, 1)
    allowed = waiting(gates=RolloutGates(approvals_needed=1, pusher_may_approve=True))
    assert approved(allowed, name, HASH, 1).gates is not None


@pytest.mark.parametrize(
    ("rollout", "by", "plan_hash", "error"),
    [
        pytest.param(waiting(), "", HASH, InvalidInputError, id="no name"),
        pytest.param(waiting(), "x" * 300, HASH, InvalidInputError, id="long name"),
        pytest.param(waiting(), "bob", "", InvalidInputError, id="no plan"),
        pytest.param(waiting(), "bob", "aaa", ConflictError, id="short plan"),
        pytest.param(waiting(), "bob", "b" * 64, ConflictError, id="other plan"),
        pytest.param(waiting(status="healthy"), "bob", HASH, ConflictError, id="over"),
        pytest.param(waiting(applied_time_ns=1), "bob", HASH, ConflictError, id="applied"),
        pytest.param(waiting(gates=None), "bob", HASH, ConflictError, id="no gates"),
        pytest.param(waiting(gates=RolloutGates()), "bob", HASH, ConflictError, id="not needed"),
    ],
)
def test_approval_that_means_nothing_is_refused(
    rollout: Rollout, by: str, plan_hash: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match="cannot approve"):
        approved(rollout, by, plan_hash, 1)


def test_reason_is_one_line_of_bounded_length() -> None:
    assert checked_reason(" too\nbig ", "reject") == "too big"
    for reason in ("", " \n ", "x" * 1001):
        with pytest.raises(InvalidInputError, match="cannot reject without a reason"):
            checked_reason(reason, "reject")


def test_permit_is_for_one_plan_and_one_record() -> None:
    record = waiting(modify_index=7)
    permit = Permit(RolloutGates(approvals_needed=1), record, HASH)
    permit.check(HASH, record)
    with pytest.raises(PlanChangedError, match="the plan changed"):
        permit.check("b" * 64, record)
    for latest in (None, replace(record, modify_index=8)):
        with pytest.raises(PlanChangedError, match="its record was changed"):
            permit.check(HASH, latest)


# --- health -------------------------------------------------------------------------------------

SOURCE = Source(name="demo", status=SourceStatus(applied_rollout="r1"))


def applied(status: str, jobs: dict[str, str], **fields: Any) -> Rollout:
    return waiting(
        status=status,
        jobs=[RolloutJob(job_id=name, status=each) for name, each in jobs.items()],
        gates=RolloutGates(health="revert"),
        applied_time_ns=1,
        previous_commit="b" * 40,
        **fields,
    )


@pytest.mark.parametrize(
    ("status", "jobs", "step"),
    [
        ("progressing", {"a": "healthy", "b": "progressing"}, RevertStep.WAIT),
        ("progressing", {"a": "failed", "b": "progressing"}, RevertStep.REVERT),
        ("progressing", {"a": "reverted", "b": "progressing"}, RevertStep.REVERT),
        ("failed", {"a": "failed"}, RevertStep.REVERT),
        ("healthy", {"a": "healthy"}, RevertStep.DONE),
        ("degraded", {"a": "overridden"}, RevertStep.DONE),
        ("superseded", {"a": "superseded"}, RevertStep.DONE),
        ("reverted", {"a": "failed"}, RevertStep.DONE),
    ],
)
def test_commit_goes_back_as_soon_as_a_job_failed(
    status: str, jobs: dict[str, str], step: RevertStep
) -> None:
    assert decide_revert(SOURCE, applied(status, jobs)).step is step


def test_no_commit_goes_back_twice_or_without_being_asked() -> None:
    failed = applied("failed", {"a": "failed"})
    told = replace(failed, gates=RolloutGates(health="revert", health_outcome="went back"))
    report = replace(failed, gates=RolloutGates())
    revert = replace(failed, reverts="r0")
    for rollout in (told, report, revert, replace(failed, gates=None)):
        assert decide_revert(SOURCE, rollout).step is RevertStep.DONE
    later = replace(SOURCE, status=SourceStatus(applied_rollout="r2"))
    assert decide_revert(later, failed).step is RevertStep.DONE
    assert decide_revert(replace(SOURCE, paused=True), failed).step is RevertStep.WAIT


def test_first_commit_cannot_go_back() -> None:
    first = replace(applied("failed", {"a": "failed"}), previous_commit="")
    decision = decide_revert(SOURCE, first)
    assert decision.step is RevertStep.EXPLAIN
    assert "it is the first commit of source demo" in decision.reason
    going = replace(first, status="progressing")
    assert decide_revert(SOURCE, going).step is RevertStep.WAIT
