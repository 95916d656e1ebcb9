"""The file of a registered job: the team's own text where the cluster stored it, else its dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.errors import OrchgitError

_NOT_FOUND = 404
_OF_GROUPS = {"Update": None}
"""What a registered job holds in its groups, each completed; what is left of it above them is
another thing in the text."""
_VERSIONS_TRIED = 10
"""Nomad keeps six versions of a job, unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class JobText:
    """The text of a job; `differs` names what it could not say. `variables` is the content of a
    file of variables that goes with it. `note` says why the team's own text was not used, or how
    it differs from what is registered."""

    text: str
    differs: str = ""
    variables: str = ""
    note: str = ""


@dataclass
class VariableNames:
    """Which file sets a variable: a source gives every file of variables to every job."""

    owner_of: dict[str, str] = field(default_factory=dict)

    def conflict(self, variables: str, job_id: str) -> str:
        """Notes the variables of a job. Returns one that another job sets too, or ''."""
        from orchgit.cli.importing.submitted_variables import variable_names

        names = variable_names(variables)
        for name in names:
            if name in self.owner_of:
                return f"{name} (of {self.owner_of[name]})"
        self.owner_of.update(dict.fromkeys(names, job_id))
        return ""


def dumped(job: Mapping[str, Any], full: bool = False) -> JobText:
    """Returns the registered job as HCL, which was read again and compared."""
    # The reader of job files is not for the commands that need none.
    from jobspec.parse import parse_job
    from jobspec.writing.same_job import difference
    from jobspec.writing.write_job import write_job

    text = write_job(dict(job), short=not full, exact=False)
    parsed = parse_job(text.encode(), filename=f"{job['ID']}.nomad.hcl")
    return JobText(text, difference(job, parsed.spec))


def submitted(client: ApiClient, job: Mapping[str, Any], names: VariableNames) -> JobText | str:
    """Returns the text that the job was registered with, or why it cannot be used."""
    try:
        version, found = _newest(client, job)
    except ApiError as error:
        return f"its stored text cannot be read: {error}"
    if found is None:
        return "the cluster has no text of it"
    if found.get("Format") != "hcl2":
        return f"its stored text is in format {found.get('Format') or 'unknown'}"
    return _checked(job, found, names, is_older=version != job.get("Version"))


def _newest(client: ApiClient, job: Mapping[str, Any]) -> tuple[int, Mapping[str, Any] | None]:
    """Returns the newest version of the job that has a text, and the text: what was scaled or
    reverted since is a version without one."""
    path = f"/v1/job/{quoted(job['ID'])}/submission"
    newest = int(job.get("Version") or 0)
    for version in range(newest, max(-1, newest - _VERSIONS_TRIED), -1):
        try:
            return version, client.get(path, namespace=job.get("Namespace"), version=version) or {}
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
    return newest, None


def _checked(
    job: Mapping[str, Any], submission: Mapping[str, Any], names: VariableNames, is_older: bool
) -> JobText | str:
    import msgspec

    from jobspec.canonicalize import to_job
    from jobspec.parse import parse_job
    from jobspec.writing.same_job import difference
    from orchgit.cli.importing.submitted_variables import variables_file
    from orchgit.services.jobs.admission import completed

    text = submission["Source"]
    try:
        variables = variables_file(
            text, submission.get("Variables") or "", submission.get("VariableFlags") or {}
        )
        files = [("variables", variables.encode())] if variables else []
        spec = parse_job(text.encode(), filename="job", var_files=files, strict=False).spec
        # Servers add to what a file says: that is no change.
        registered = {**msgspec.to_builtins(completed(to_job(spec))), **_OF_GROUPS}
    except OrchgitError as error:
        return f"its stored text cannot be read alone: {str(error).splitlines()[0]}"
    if spec["ID"] != job["ID"] or spec.get("Namespace") not in (None, "", job.get("Namespace")):
        return f"its stored text is that of job {spec['ID']}"
    job = {**job, **_OF_GROUPS}
    differs = difference(job, registered)
    if is_older and difference(job, _with_counts(registered, job)):
        return f"its stored text is of an older version, which has another {differs}"
    if conflict := names.conflict(variables, job["ID"]):
        return f"another job has a variable of the same name: {conflict}"
    note = f"the team's text was taken; since then {differs} was changed" if differs else ""
    return JobText(text, variables=variables, note=note)


def _with_counts(spec: dict[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tree with the counts of the registered job's groups."""
    counts = {group["Name"]: group.get("Count") for group in job.get("TaskGroups") or []}
    groups = [
        {**group, "Count": counts.get(group["Name"], group["Count"])}
        for group in spec["TaskGroups"]
    ]
    return {**spec, "TaskGroups": groups}
