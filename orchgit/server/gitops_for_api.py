"""What the API is given of gitops, in the form its routes answer with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchgit.gitops.gitops import Gitops
from orchgit.model.rollout import JobAction, Rollout

_SHOWN_ACTIONS = (JobAction.CREATE, JobAction.UPDATE, JobAction.DELETE)


class GitopsForApi:
    """`GitopsPort` of the API."""

    def __init__(self, gitops: Gitops) -> None:
        self._gitops = gitops

    def wake(self, source: str) -> None:
        self._gitops.wake(source, force=True)

    async def revert(self, rollout_id: str) -> Rollout:
        return await self._gitops.revert(rollout_id)

    async def plan_files(
        self,
        source: str,
        files: Sequence[tuple[str, bytes]],
        base_files: Sequence[tuple[str, bytes]] | None = None,
    ) -> Mapping[str, Any]:
        preview = await self._gitops.preview_files(source, dict(files))
        value: dict[str, Any] = msgspec.to_builtins(preview)
        for job in value["Jobs"]:
            job["Annotations"] = {"DesiredTGUpdates": job["DesiredTGUpdates"]}
            job["Warnings"] = job["Unplaced"]
        found = Counter(job["Action"] for job in value["Jobs"])
        counts = {action.title(): found[action] for action in _SHOWN_ACTIONS}
        value["Summary"] = {**counts, "Unchanged": preview.unchanged}
        return value
