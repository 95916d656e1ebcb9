"""The groups of a deployment: what is wanted, placed and healthy of each."""

from __future__ import annotations

from typing import Any

from orchgit.cli.printing.output import heading, plain, table


def show_groups(data: dict[str, Any]) -> None:
    """Prints a table with a row for each group of the deployment `data`, in the API's form."""
    heading("Deployed")
    groups = data["TaskGroups"] or {}
    has_canaries = any(group["DesiredCanaries"] for group in groups.values())
    reverts = any(group["AutoRevert"] for group in groups.values())
    canaries = ("Canaries",) if has_canaries else ()
    table(
        (
            "Task Group",
            *(("Auto Revert",) if reverts else ()),
            *(("Promoted",) if has_canaries else ()),
            *("Desired", *canaries, "Placed", "Healthy", "Unhealthy", "Progress Deadline"),
        ),
        (
            (
                plain(name),
                *([str(group["AutoRevert"]).lower()] * reverts),
                *([str(group["Promoted"]).lower()] * has_canaries),
                group["DesiredTotal"],
                *([group["DesiredCanaries"]] * has_canaries),
                group["PlacedAllocs"],
                group["HealthyAllocs"],
                group["UnhealthyAllocs"],
                _without_fraction(plain(group.get("RequireProgressBy") or "N/A")),
            )
            for name, group in sorted(groups.items())
        ),
    )


def _without_fraction(time: str) -> str:
    """Returns the time in whole seconds: 2026-11-23T03:06:55Z."""
    head, point, _ = time.partition(".")
    return f"{head}Z" if point else time
