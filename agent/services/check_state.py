"""The status of one service check, from its results: pure.

A check starts in its `initial_status` (critical by default). It becomes passing after
`success_before_passing` results in a row beyond the first, critical after
`failures_before_critical` beyond the first. `check_restart` counts failures in a row after a grace
period and asks for the task's restart at its limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from orchgit.model.service import ServiceCheck


class CheckStatus(StrEnum):
    """Nomad's words: `pending` until the first result counts."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class CheckState:
    status: CheckStatus = CheckStatus.PENDING
    successes: int = 0
    failures: int = 0
    restart_failures: int = 0
    passing_since_ns: int | None = None
    output: str = ""
    checked_ns: int = 0
    warning: bool = False
    """Whether the last result asks for attention and is no failure."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One result of running the check."""

    ok: bool
    output: str = ""
    warning: bool = False


def initial(check: ServiceCheck, now_ns: int) -> CheckState:
    if check.initial_status == "passing":
        return CheckState(CheckStatus.SUCCESS, passing_since_ns=now_ns)
    return CheckState()


def after(check: ServiceCheck, state: CheckState, probe: ProbeResult, now_ns: int) -> CheckState:
    """The state after one more result."""
    if probe.ok:
        state = replace(state, successes=state.successes + 1, failures=0, restart_failures=0)
        settled = state.successes > check.success_before_passing
    else:
        state = replace(state, failures=state.failures + 1, successes=0)
        settled = state.failures > check.failures_before_critical
    state = replace(state, output=probe.output, checked_ns=now_ns, warning=probe.warning)
    if not settled:
        return state
    if not probe.ok:
        return replace(state, status=CheckStatus.FAILURE, passing_since_ns=None)
    since_ns = now_ns if state.passing_since_ns is None else state.passing_since_ns
    return replace(state, status=CheckStatus.SUCCESS, passing_since_ns=since_ns)


def count_for_restart(
    check: ServiceCheck, state: CheckState, probe: ProbeResult, started_ns: int, now_ns: int
) -> tuple[CheckState, bool]:
    """Whether `check_restart` wants the task restarted after this result."""
    rule = check.check_restart
    tolerated = probe.ok or (probe.warning and rule is not None and rule.ignore_warnings)
    if rule is None or rule.limit <= 0 or tolerated or now_ns < started_ns + rule.grace_ns:
        return state, False
    failures = state.restart_failures + 1
    if failures < rule.limit:
        return replace(state, restart_failures=failures), False
    return replace(state, restart_failures=0), True


def counts_for_health(check: ServiceCheck) -> bool:
    """`on_update = "ignore"` keeps a check out of deployment health."""
    return check.on_update != "ignore"
