"""How `orchgit.hcl` and a job's meta name jobs: `db`, `ops/db`, `db:healthy`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from jobspec.errors import nearest
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.repository_policy import WaitCondition

_CONDITION = re.compile(r"(?P<job>.+):(?P<condition>[A-Za-z]+)")


def split_dependency(text: str) -> tuple[str, str]:
    """Returns the job and the condition of `db:healthy`, or of `db`, whose condition is ''.

    A job's id may have a colon. So what follows the last one is a condition only if it is a known
    one, or close to one: the caller refuses the latter.
    """
    found = _CONDITION.fullmatch(text)
    if found is None or not nearest(found["condition"], WaitCondition):
        return text, ""
    return found["job"], found["condition"]


def jobs_named(name: str, jobs: Collection[JobKey], namespace: str = "") -> list[JobKey]:
    """Returns the jobs that a name stands for: one, none, or several that it does not tell apart.

    `name` is a job's id or `namespace/id`. A job of `namespace` comes first, then one of
    `default`, then the job of that id in any other namespace.
    """
    before, _, after = name.partition("/")
    for key in ((namespace, name), ("default", name), (before, after)):
        if key in jobs:
            return [key]
    return sorted(key for key in jobs if key[1] == name)
