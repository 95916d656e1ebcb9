"""What to do after a refusal whose words are Nomad's: they name the fault, and no way out."""

from __future__ import annotations

import re

_NEXT_STEPS = (
    (r'job "([^"]+)".* version \d+ not found', "`orchgit job history {}` lists the versions"),
    (
        r"can't \w+ terminal deployment",
        "the deployment has ended: `orchgit deployment list` shows how",
    ),
    (r"no canaries to promote", "`orchgit deployment status` shows a deployment's canaries"),
    (
        r'job "([^"]+)" is not a parameterized job',
        "only jobs with a `parameterized` block are dispatched: `orchgit job run` runs others",
    ),
    (
        r"can't force launch non-periodic job",
        "only jobs with a `periodic` block are forced: `orchgit job eval` evaluates others",
    ),
    (
        r"job scaling blocked due to active deployment",
        "`orchgit job deployments` lists it: let it end, or `orchgit deployment fail` it",
    ),
    (
        r"specified for scaling does not exist in job",
        "`orchgit job status` of the job shows its groups",
    ),
    (
        r"unknown task name|Could not find task runner for task",
        "`orchgit alloc status` of the allocation shows its tasks",
    ),
    (r"^variable not found", "`orchgit var list` lists the variables of the namespace"),
    (r"^namespace not found", "`orchgit namespace list` lists them"),
)


def with_next_step(refusal: str) -> str:
    """Returns a server's words, with the command that helps on where they are known."""
    for pattern, step in _NEXT_STEPS:
        if found := re.search(pattern, refusal):
            return f"{refusal}; {step.format(*found.groups())}"
    return refusal
