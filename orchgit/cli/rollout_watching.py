"""Follows rollouts to their end, and shows what a push shows: each change, failures, addresses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.gitops.rollouts.rollout_text import RolloutText, end_line, problem_lines
from orchgit.gitops.rollouts.service_addresses import ServiceAddress, service_lines
from orchgit.gitops.rollouts.task_failures import TaskFailure, failure_lines
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.printable import printable

HEALTHY, NOT_HEALTHY, NOT_FOUND = 0, 1, 2
"""Exit codes of `orchgit rollout watch`; NOT_FOUND stands for no rollout, and no end in time."""

APPEARS_WITHIN_S = 60.0
_UNANSWERED_S = 60.0
_PAUSE_S = 1.0
_LONGEST_WAIT_S = 60.0
_COMMIT = re.compile("[0-9a-f]{4,64}")


@dataclass(slots=True)
class RolloutWatch:
    """Follows rollouts for one command. `timeout_s` bounds all of it; None: 60 s for a rollout to
    appear, and no limit for its end, since each of its jobs has a deadline."""

    client: ApiClient
    source: str | None = None
    timeout_s: float | None = None
    is_quiet: bool = False
    clock_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    ended: list[dict[str, Any]] = field(default_factory=list)
    """What became of each rollout: `Rollout`, `Failures` and `Services`, in the API's form."""
    _until_s: float | None = None

    def run(self, text: str | None) -> int:
        """Follows the rollouts that `text` names (see `find`) one after the other. Returns the exit
        code. Raises ApiError."""
        if self.timeout_s is not None:
            self._until_s = self.clock_s() + self.timeout_s
        codes = [self.follow(rollout_id) for rollout_id in self.find(text)]
        return max(codes)

    # --- which rollouts -----------------------------------------------------------------------

    def find(self, text: str | None) -> list[str]:
        """Returns the ids of the rollouts that `text` names.

        It is the name of a source (its newest rollout), the beginning of a commit's id (the newest
        rollout of each source that applied it) or of a rollout's id. None: the newest of all.
        Waits for the first rollout of a commit or source.
        """
        names = [each["Name"] for each in self.client.get("/v1/gitops/sources")]
        if text is None or text in names:
            name = text or self.source
            what = f"source {name}" if name else "any source"
            return self._awaited({"source": name, "per_page": 1}, what)
        of_commit = {"source": self.source, "commit": text}
        if _COMMIT.fullmatch(text):
            found = self.client.get("/v1/gitops/rollouts", **of_commit)
            if found:
                return _newest_of_each_source(found)
        try:
            return [str(self.client.get(f"/v1/gitops/rollout/{quoted(text)}")["ID"])]
        except ApiError as error:
            if error.status != 404:
                raise
        if _COMMIT.fullmatch(text):
            return self._awaited(of_commit, f"commit {text}")
        raise ApiError(
            f"cannot find a source, commit or rollout {text!r}; `orchgit rollout list` and "
            "`orchgit source list` show them"
        )

    def _awaited(self, query: dict[str, Any], what: str) -> list[str]:
        """Waits for rollouts; raises ApiError if none appears in time."""
        until_s, index = self._until_s, 0
        if until_s is None:
            until_s = self.clock_s() + APPEARS_WITHIN_S
        while True:
            left_s = max(0.0, until_s - self.clock_s())
            wait = f"{max(1, round(min(left_s, _LONGEST_WAIT_S)))}s"
            index, found = self.client.blocking_get(
                "/v1/gitops/rollouts", index, wait=wait, **query
            )
            if found:
                return _newest_of_each_source(found)
            if left_s <= 0:
                raise ApiError(f"cannot find a rollout{f' of {what}' * bool(what)}{self._why()}")

    def _why(self) -> str:
        """Returns what keeps sources from applying commits, as the end of a sentence."""
        notes = []
        for each in self.client.get("/v1/gitops/sources"):
            if self.source not in (None, each["Name"]):
                continue
            if each["Paused"]:
                notes.append(f"source {each['Name']} is paused")
            elif each["Status"]["LastError"]:
                notes.append(f"source {each['Name']}: {each['Status']['LastError']}")
        return f": {'; '.join(notes[:5])}" if notes else ": push it, or `orchgit source sync`"

    # --- following one ------------------------------------------------------------------------

    def follow(self, rollout_id: str) -> int:
        """Follows one rollout to its end; returns the exit code. Raises ApiError if it does not
        end in time, or if no server answers for a minute."""
        text, index = RolloutText(), 0
        unanswered_since_s: float | None = None
        path, is_first = f"/v1/gitops/rollout/{rollout_id}", True
        while True:
            try:
                left_s = _LONGEST_WAIT_S
                if self._until_s is not None:
                    left_s = min(left_s, max(1.0, self._until_s - self.clock_s()))
                index, data = self.client.blocking_get(path, index, wait=f"{round(left_s)}s")
            except ApiError as error:
                if error.status and error.status < 500:
                    raise
                if unanswered_since_s is None:
                    unanswered_since_s = self.clock_s()
                if self.clock_s() - unanswered_since_s > _UNANSWERED_S:
                    raise ApiError(f"cannot follow the rollout further: {error}") from error
                self.sleep(_PAUSE_S)
                # The end of the fault is seen at once, not with the next change.
                index = 0
                continue
            unanswered_since_s = None
            rollout = msgspec.convert(data, Rollout)
            if is_first:
                commit = rollout.commit
                self._say(
                    f"Rollout {rollout.id[:8]} of source {rollout.source}",
                    f"Commit {commit.id[:8]} by {commit.author}: {commit.subject}",
                )
                is_first = False
            self._say(*text.lines(rollout))
            failed = {(job.namespace, job.job_id) for job in text.newly_failed(rollout)}
            failures = self._report(rollout.id)["Failures"] if failed else []
            for failure in msgspec.convert(failures, list[TaskFailure]):
                if (failure.namespace, failure.job_id) in failed:
                    self._say(*failure_lines(failure))
            if rollout.is_terminal:
                return self._end(data, rollout)
            if self._until_s is not None and self.clock_s() >= self._until_s:
                raise ApiError(
                    f"cannot wait longer: rollout {rollout.id[:8]} is {rollout.status} "
                    f"({rollout.status_description})"
                )

    def _report(self, rollout_id: str) -> dict[str, Any]:
        return dict(self.client.get(f"/v1/gitops/rollout/{rollout_id}/report"))

    def _end(self, data: dict[str, Any], rollout: Rollout) -> int:
        report = self._report(rollout.id)
        self.ended.append(
            {"Rollout": data, "Failures": report["Failures"], "Services": report["Services"]}
        )
        self._say(*problem_lines(rollout.problems), end_line(rollout))
        if rollout.status != RolloutStatus.HEALTHY:
            return NOT_HEALTHY
        self._say(*service_lines(msgspec.convert(report["Services"], list[ServiceAddress])))
        return HEALTHY

    def _say(self, *lines: str) -> None:
        if not self.is_quiet:
            for line in lines:
                click.echo(printable(line))


def _newest_of_each_source(rollouts: Iterable[dict[str, Any]]) -> list[str]:
    """Returns the ids of the newest rollout of each source; `rollouts` are newest first."""
    newest: dict[str, str] = {}
    for each in rollouts:
        newest.setdefault(each["Source"], each["ID"])
    return list(newest.values())
