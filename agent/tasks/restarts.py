"""Whether and when a task that ended is started again: the restart policy, as pure data.

Within `interval` a task gets `attempts` restarts, each `delay` (plus up to a quarter of it, so that
many tasks that fail together do not come back together) after it ended. Past them, mode `fail` ends
the task and mode `delay` waits for the next interval. A window begins with the first end after the
previous window is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from zlib import crc32

from orchgit.durations import to_text
from orchgit.model.task import RestartPolicy

WITHIN_POLICY = "Restart within policy"
NO_RESTARTS = "Policy allows no restarts"
UNRECOVERABLE = "Error was unrecoverable"
NOT_NEEDED = "Restart unnecessary as task terminated successfully"
DELAYED = "Exceeded allowed attempts, applying a delay"

_JITTER_SHARE = 0.25
_FRACTIONS = 1 << 32


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """The part of a task's past that the policy depends on; the local state stores it."""

    count: int = 0
    window_start_ns: int = 0


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended: with an exit code, or before it began (`start_error`)."""

    successful: bool
    start_error: str = ""
    recoverable: bool = True


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """`failed` says whether the attempt's end counts as a failure of the task."""

    restart: bool
    delay_ns: int
    reason: str
    failed: bool


def decide(
    policy: RestartPolicy,
    past: RestartHistory,
    ended: AttemptEnd,
    *,
    restart_on_success: bool,
    now_ns: int,
    seed: str,
) -> tuple[RestartDecision, RestartHistory]:
    """Returns what to do after `ended`, and the past that the next decision depends on."""
    if ended.successful and not restart_on_success:
        return RestartDecision(False, 0, NOT_NEEDED, failed=False), past
    if policy.attempts == 0 and policy.mode != "delay":
        return RestartDecision(False, 0, NO_RESTARTS, failed=True), past
    if past.count == 0 or now_ns > past.window_start_ns + policy.interval_ns:
        past = RestartHistory(0, now_ns)
    past = replace(past, count=past.count + 1)
    failed = not ended.successful
    if ended.start_error and not ended.recoverable:
        return RestartDecision(False, 0, UNRECOVERABLE, failed=True), past
    if past.count <= policy.attempts:
        jitter_ns = _jitter(policy.delay_ns, f"{seed}/{past.window_start_ns}/{past.count}")
        return RestartDecision(True, policy.delay_ns + jitter_ns, WITHIN_POLICY, failed), past
    if policy.mode == "delay":
        rest_ns = max(0, past.window_start_ns + policy.interval_ns - now_ns)
        return RestartDecision(
            True, rest_ns + _jitter(policy.delay_ns, seed), DELAYED, failed
        ), past
    return RestartDecision(False, 0, _exceeded(policy), failed=True), past


def _jitter(delay_ns: int, seed: str) -> int:
    return round(delay_ns * _JITTER_SHARE * (crc32(seed.encode()) / _FRACTIONS))


def _exceeded(policy: RestartPolicy) -> str:
    return (
        f"Exceeded allowed attempts {policy.attempts} in interval {to_text(policy.interval_ns)} "
        'and mode is "fail"'
    )
