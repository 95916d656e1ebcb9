"""The rules of a `reschedule` block."""

from __future__ import annotations

from jobspec.rules.findings import Findings
from orchgit.durations import to_text
from orchgit.go_quote import quote
from orchgit.model.group import ReschedulePolicy

_SECOND_NS = 1_000_000_000
_MIN_DELAY_NS = 5 * _SECOND_NS
_MIN_INTERVAL_NS = 15 * _SECOND_NS
_FUNCTIONS = ("constant", "exponential", "fibonacci")


def check_reschedule(findings: Findings, policy: ReschedulePolicy) -> None:
    """A policy that never reschedules is not looked at."""
    if policy.attempts <= 0 and not policy.unlimited:
        return
    if policy.attempts > 0:
        _attempts(findings, policy)
    delays = findings.at()
    _delays(delays, policy)
    findings.include(delays)
    if policy.unlimited:
        return
    if policy.interval_ns < _MIN_INTERVAL_NS:
        findings.add(
            f"Interval cannot be less than {to_text(_MIN_INTERVAL_NS)} "
            f"(got {to_text(policy.interval_ns)})",
            "Interval",
        )
    if not delays.messages:
        _check_fit(findings, policy)


def _attempts(findings: Findings, policy: ReschedulePolicy) -> None:
    findings.check(
        policy.interval_ns <= 0, "Interval must be a non zero value if Attempts > 0", "Interval"
    )
    if policy.unlimited:
        findings.add(
            f"Reschedule Policy with Attempts = {policy.attempts}, Interval = "
            f"{to_text(policy.interval_ns)}, and Unlimited = true is ambiguous",
            "Attempts",
        )
        findings.add("If Attempts >0, Unlimited cannot also be set to true", "Unlimited")


def _delays(findings: Findings, policy: ReschedulePolicy) -> None:
    delay, ceiling = to_text(policy.delay_ns), to_text(policy.max_delay_ns)
    least = to_text(_MIN_DELAY_NS)
    if policy.delay_ns < _MIN_DELAY_NS:
        findings.add(f"Delay cannot be less than {least} (got {delay})", "Delay")
    if policy.delay_function not in _FUNCTIONS:
        findings.add(
            f"Invalid delay function {quote(policy.delay_function)}, must be one of "
            '["constant" "exponential" "fibonacci"]',
            "DelayFunction",
        )
    if policy.delay_function == "constant":
        return
    if policy.max_delay_ns < _MIN_DELAY_NS:
        # The delay, not the ceiling, is what Nomad prints here.
        findings.add(f"Max Delay cannot be less than {least} (got {delay})", "MaxDelay")
    if policy.max_delay_ns < policy.delay_ns:
        findings.add(f"Max Delay cannot be less than Delay {delay} (got {ceiling})", "MaxDelay")


def _check_fit(findings: Findings, policy: ReschedulePolicy) -> None:
    possible, needed_ns = _possible_attempts(policy)
    if possible >= policy.attempts:
        return
    text = (
        f"Nomad can only make {possible} attempts in {to_text(policy.interval_ns)} with initial "
        f"delay {to_text(policy.delay_ns)}"
    )
    function = quote(policy.delay_function)
    if policy.delay_function == "constant":
        text += f" and delay function {function}"
    else:
        text += f", delay function {function}, and delay ceiling {to_text(policy.max_delay_ns)}"
    findings.add(text, "Attempts")
    findings.add(
        f"Set the interval to at least {to_text(needed_ns)} to accommodate "
        f"{policy.attempts} attempts",
        "Interval",
    )


def _possible_attempts(policy: ReschedulePolicy) -> tuple[int, int]:
    """How many of the attempts fit the interval, and the interval that all would need."""
    attempts, delay_ns, interval_ns = policy.attempts, policy.delay_ns, policy.interval_ns
    if policy.delay_function == "constant":
        needed_ns = attempts * delay_ns
        return (attempts if interval_ns >= needed_ns else interval_ns // delay_ns), needed_ns
    if policy.delay_function == "exponential":
        return _exponential(policy)
    slots = [delay_ns, delay_ns]
    capped = False
    for _ in range(2, attempts):
        following = slots[-1] + (policy.max_delay_ns if capped else slots[-2])
        if not capped and following > policy.max_delay_ns:
            following, capped = policy.max_delay_ns, True
        slots.append(following)
    if interval_ns >= slots[-1]:
        return attempts, slots[-1]
    return next(i for i, slot in enumerate(slots) if slot > interval_ns), slots[-1]


def _exponential(policy: ReschedulePolicy) -> tuple[int, int]:
    needed_ns = possible = 0
    for attempt in range(policy.attempts):
        delay_ns = policy.delay_ns << min(attempt, 62)
        if delay_ns > policy.max_delay_ns:
            needed_ns += policy.max_delay_ns
        else:
            needed_ns = delay_ns
        possible += needed_ns < policy.interval_ns
    return possible, needed_ns
