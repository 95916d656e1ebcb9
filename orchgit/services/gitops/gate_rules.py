"""Which gates and prune guards a source may have."""

from __future__ import annotations

from orchgit.cron import next_moment, time_zone
from orchgit.errors import InvalidInputError
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.gates import GatePolicy, HealthAction, Window, WindowAction
from orchgit.model.source import ClaimDeletion, PrunePolicy

MAX_APPROVALS = 20
MAX_WINDOWS = 50
MAX_DURATION_NS = 31 * 24 * 3600 * NS_PER_S
_MAX_CRON_LENGTH = 200


def check_gates(policy: GatePolicy) -> None:
    """Raises InvalidInputError for a setting that has no meaning, and says which."""
    if not 0 <= policy.approvals <= MAX_APPROVALS:
        raise InvalidInputError(f"approvals must be within 0..{MAX_APPROVALS}")
    if policy.health not in tuple(HealthAction):
        raise InvalidInputError(f"the health gate must be one of {', '.join(HealthAction)}")
    if policy.health_deadline_ns and not (NS_PER_S <= policy.health_deadline_ns <= MAX_DURATION_NS):
        raise InvalidInputError("the health deadline must be 1s to 744h, or 0")
    if len(policy.windows) > MAX_WINDOWS:
        raise InvalidInputError(f"a source has at most {MAX_WINDOWS} windows")
    for window in policy.windows:
        check_window(window)


def check_window(window: Window) -> None:
    """Raises InvalidInputError for a window that never begins or cannot be read."""
    if window.action not in tuple(WindowAction):
        raise InvalidInputError(f"a window's action must be one of {', '.join(WindowAction)}")
    if not NS_PER_S <= window.duration_ns <= MAX_DURATION_NS:
        raise InvalidInputError("the duration of a window must be 1s to 744h")
    if len(window.cron) > _MAX_CRON_LENGTH:
        raise InvalidInputError("the cron expression of a window is too long")
    # Whatever the moment, an expression that can be read is read.
    next_moment(window.cron, datetime_of_ns(0), time_zone(window.time_zone))


def check_prune(prune: PrunePolicy) -> None:
    """Raises InvalidInputError for a guard that has no meaning."""
    if not 0 <= prune.max_share_percent <= 100:
        raise InvalidInputError("prune share must be within 0..100 percent")
    if prune.claims not in tuple(ClaimDeletion):
        raise InvalidInputError(f"prune claims must be one of {', '.join(ClaimDeletion)}")
