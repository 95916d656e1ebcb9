"""The file of a registered job: the team's own text where the cluster stored it, else its dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.errors import OrchgitError

_NOT_FOUND = 404


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
    path = f"/v1/job/{quoted(job['ID'])}/submission"
    try:
        found = client.get(path, namespace=job.get("Namespace"), version=job.get("Version"))
    except ApiError as error:
        return "" if error.status == _NOT_FOUND else f"its stored text cannot be read: {error}"
    if not found or found.get("Format") != "hcl2":
        return f"its stored text is in format {found.get('Format') if found else 'unknown'}"
    return _checked(job, found, names)


def _checked(
    job: Mapping[str, Any], submission: Mapping[str, Any], names: VariableNames
) -> JobText | str:
    from jobspec.parse import parse_job
    from jobspec.writing.same_job import difference
    from orchgit.cli.importing.submitted_variables import variables_file

    text = submission["Source"]
    try:
        variables = variables_file(
            text, submission.get("Variables") or "", submission.get("VariableFlags") or {}
        )
        files = [("variables", variables.encode())] if variables else []
        spec = parse_job(text.encode(), filename="job", var_files=files, strict=False).spec
    except OrchgitError as error:
        return f"its stored text cannot be read alone: {str(error).splitlines()[0]}"
    if spec["ID"] != job["ID"] or spec.get("Namespace") not in (None, "", job.get("Namespace")):
        return f"its stored text is that of job {spec['ID']}"
    if conflict := names.conflict(variables, job["ID"]):
        return f"another job has a variable of the same name: {conflict}"
    differs = difference(job, spec)
    note = f"the team's text was taken; since then {differs} was changed" if differs else ""
    return JobText(text, variables=variables, note=note)
