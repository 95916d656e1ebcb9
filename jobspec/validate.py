"""Validates a job by the server's rules: all problems and warnings, in Nomad's words.

Pure: what depends on the cluster (its namespaces, pools, settings) comes in as `ClusterFacts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobspec.blocks.positions import Positions
from jobspec.rules.cluster import ClusterFacts, check_after, check_before
from jobspec.rules.findings import Findings, Path, listed
from jobspec.rules.jobs import check_job
from jobspec.rules.no_effect import FoundKey, keys_without_effect
from jobspec.rules.warnings import job_warnings
from orchgit.model.job import Job

__all__ = ["ClusterFacts", "ValidationResult", "validate_job"]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`problems` as the API lists them; `leaves` are the single mistakes with their paths."""

    problems: list[str]
    warnings: list[str]
    leaves: list[tuple[Path, str]]
    without_effect: list[FoundKey]
    """What the job sets and orchgit does not heed."""

    @property
    def all_warnings(self) -> list[str]:
        """The warnings of the API: of each key without effect one."""
        told = (each.key for each in self.without_effect if not each.key.api_is_silent)
        return [*self.warnings, *dict.fromkeys(key.message for key in told)]

    @property
    def error_text(self) -> str:
        """The one text of the API's `Error`; empty where the job is valid."""
        return listed(self.problems) if self.problems else ""

    @property
    def warning_text(self) -> str:
        """The one text of the API's `Warnings`."""
        if not self.warnings:
            return ""
        count = "1 warning" if len(self.warnings) == 1 else f"{len(self.warnings)} warnings"
        return f"{count}:\n\n" + "\n".join(f"* {warning}" for warning in self.warnings)

    def located(self, positions: Positions) -> list[str]:
        """Returns every mistake as `file:line:column: message`."""
        return [positions.line_text(path, message) for path, message in self.leaves]


def validate_job(job: Job, cluster: ClusterFacts | None = None) -> ValidationResult:
    """Apply the server's rules; without `cluster` only those that need nothing but the job."""
    findings = Findings()
    if cluster is not None:
        check_before(findings, job, cluster)
    check_job(findings, job)
    if cluster is not None:
        check_after(findings, job, cluster)
    warnings = job_warnings(job, cluster or ClusterFacts(memory_oversubscription=True))
    ignored = list(keys_without_effect(job))
    return ValidationResult(findings.messages, warnings, findings.leaves, ignored)
