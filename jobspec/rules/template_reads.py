"""Template functions that Consul or Vault answers, in one table, and warnings about their use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.task import Task, Template

CONSUL_FUNCTIONS = frozenset(
    (
        *("key", "keyExists", "keyExistsGet", "keyOrDefault", "ls", "safeLs", "tree", "safeTree"),
        *("service", "services", "connect", "datacenters", "node", "nodes", "caRoots", "caLeaf"),
        *("partitions", "peerings", "exportedServices"),
    )
)
VAULT_FUNCTIONS = frozenset(("secret", "secrets", "pkiCert"))
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*+"?|`[^`]*+`?|/\*.*?(?:\*/|\Z)', re.DOTALL)
"""Strings and comments, also those without an end: each match begins, and so time is linear."""
_NAMES = re.compile(r"(?<![\w.$])[A-Za-z]+(?!\w)", re.ASCII)


def template_warnings(job: Job) -> Iterator[str]:
    """Yields what templates wait for where nothing of the job says that it is there: Vault for a
    task without a token, Consul for a job that any node may run."""
    for group in job.task_groups:
        for task in group.tasks:
            for position, template in enumerate(task.templates or ()):
                used = _functions(template)
                start = f"Task {quote(task.name)}: template[{position}] reads"
                vault = sorted(used & VAULT_FUNCTIONS)
                if vault and task.vault is None:
                    yield (
                        f"{start} Vault by {', '.join(vault)}, and waits for ever: the task has no "
                        "token of Vault; add a vault block"
                    )
                consul = sorted(used & CONSUL_FUNCTIONS)
                if consul and not _asks_for_consul(job, group, task):
                    yield (
                        f"{start} Consul by {', '.join(consul)}, and waits for ever on a node "
                        'without Consul; constrain the job to nodes with "${attr.consul.version}"'
                    )


def _functions(template: Template) -> set[str]:
    """The names in the template's actions that are no fields and no variables."""
    left, right = template.left_delim or "{{", template.right_delim or "}}"
    found: set[str] = set()
    for part in template.embedded_tmpl.split(left)[1:]:
        action = _TEXTS.sub(" ", part)
        found.update(_NAMES.findall(action.partition(right)[0]))
    return found


def _asks_for_consul(job: Job, group: TaskGroup, task: Task) -> bool:
    constraints = [
        *(job.constraints or ()),
        *(group.constraints or ()),
        *(task.constraints or ()),
    ]
    services = [
        *(group.services or ()),
        *(each for one in group.tasks for each in one.services or ()),
    ]
    return (
        any("consul" in each.l_target for each in constraints)
        or any(each.provider == "consul" for each in services)
        or task.consul is not None
        or group.consul is not None
    )
