"""What was asked of the counts of a job's groups, by people and autoscalers."""

from __future__ import annotations

from typing import Any

from orchgit.model.base import Model

EVENTS_KEPT = 20
"""Per group; the oldest goes first."""


class ScalingEvent(Model):
    """`count` None: nothing was changed, as where an autoscaler only tells of an error."""

    time_ns: int = 0
    count: int | None = None
    previous_count: int = 0
    message: str = ""
    error: bool = False
    meta: dict[str, Any] | None = None
    eval_id: str | None = None
    create_index: int = 0


class JobScalingEvents(Model):
    """The events of one job by its groups, newest first. `id` is that of the job's key."""

    id: str
    namespace: str
    job_id: str
    groups: dict[str, list[ScalingEvent]] = {}
    create_index: int = 0
    modify_index: int = 0
