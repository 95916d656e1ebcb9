"""The gates and prune guards of a source as options of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.options import option_field
from orchgit.durations import parse_length_ns
from orchgit.model.window_text import parse_window


@dataclass(frozen=True, slots=True)
class GateOptions:
    window: tuple[str, ...] = option_field(
        "window",
        multiple=True,
        help="When commits are applied: 'allow|deny CRON DURATION [TIME ZONE]'; repeatable.",
    )
    no_windows: bool = option_field("no-windows", is_flag=True, help="Apply commits at any time.")
    approvals: int | None = option_field(
        "approvals", type=int, help="How many persons approve a commit before it is applied."
    )
    pusher_may_approve: bool = option_field(
        "pusher-may-approve", is_flag=True, help="Count the approval of the commit's pusher too."
    )
    no_pusher_may_approve: bool = option_field(
        "no-pusher-may-approve", is_flag=True, help="Not -pusher-may-approve."
    )
    require_fit: bool = option_field(
        "require-fit", is_flag=True, help="Apply a commit only when all of its work has room."
    )
    no_require_fit: bool = option_field("no-require-fit", is_flag=True, help="Not -require-fit.")
    health_gate: str | None = option_field(
        "health-gate", help="What happens to a commit that fails: revert (as a whole), or report."
    )
    health_deadline: str | None = option_field(
        "health-deadline", help="How long a commit may take to become healthy; 0: no limit."
    )
    prune: bool = option_field(
        "prune",
        is_flag=True,
        help="Stop jobs whose files are gone (as it is at first), or never do.",
    )
    no_prune: bool = option_field("no-prune", is_flag=True, help="Not -prune.")
    prune_max_share: int | None = option_field(
        "prune-max-share",
        type=int,
        help="Percent of its jobs that a commit deletes without a trailer; 50 at first.",
    )
    prune_wildcard: bool = option_field(
        "prune-wildcard",
        is_flag=True,
        help="Accept the trailers 'Orchgit-Delete: *' and 'NAMESPACE/*'.",
    )
    no_prune_wildcard: bool = option_field(
        "no-prune-wildcard", is_flag=True, help="Not -prune-wildcard."
    )
    prune_claims: str | None = option_field(
        "prune-claims",
        help="Jobs with volume claims: deleted if a trailer has their name (named), never "
        "(refused), or as any other (allowed).",
    )

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by their names in the API."""
        if self.window and self.no_windows:
            raise ApiError("cannot use -window and -no-windows together: give one of them")
        windows = [
            {
                "Action": window.action,
                "Cron": window.cron,
                "Duration": window.duration_ns,
                "TimeZone": window.time_zone,
            }
            for window in map(parse_window, self.window)
        ]
        gates = {
            "Windows": windows or None,
            "Approvals": self.approvals,
            "PusherMayApprove": switched(
                "pusher-may-approve", self.pusher_may_approve, self.no_pusher_may_approve
            ),
            "RequireFit": switched("require-fit", self.require_fit, self.no_require_fit),
            "Health": self.health_gate,
            "HealthDeadline": (
                None if self.health_deadline is None else parse_length_ns(self.health_deadline)
            ),
        }
        if self.no_windows:
            gates["Windows"] = []
        prune = {
            "Enabled": switched("prune", self.prune, self.no_prune),
            "MaxSharePercent": self.prune_max_share,
            "Wildcard": switched("prune-wildcard", self.prune_wildcard, self.no_prune_wildcard),
            "Claims": self.prune_claims,
        }
        groups = {"Gates": _given(gates), "Prune": _given(prune)}
        return {name: group for name, group in groups.items() if group}


def _given(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if value is not None}


def switched(name: str, on: bool, off: bool) -> bool | None:
    """Whether the setting is switched on; None where neither option was given."""
    if on and off:
        raise ApiError(f"cannot use -{name} and -no-{name} together: give one of them")
    return on if on or off else None
