"""The identities of a task: what its job asks for, and the claims of a signed one."""

from __future__ import annotations

import msgspec

from orchgit.model.base import Model
from orchgit.model.task import Task

DEFAULT_NAME = "default"
DEFAULT_AUDIENCE = "nomadproject.io"
"""The audience of a token that this cluster itself accepts."""


class WorkloadIdentity(Model):
    """One `identity` block. `ttl_ns` 0: the token does not expire, it ends with its allocation."""

    name: str = DEFAULT_NAME
    audience: list[str] | None = None
    change_mode: str = ""
    change_signal: str = ""
    env: bool = False
    file: bool = False
    filepath: str = ""
    service_name: str = ""
    ttl_ns: int = 0

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT_NAME


def identities_of(task: Task) -> list[WorkloadIdentity]:
    """Returns the task's identities; the first is the default one, which every task has."""
    default = _identity(task.identity or {})
    default.name = DEFAULT_NAME
    return [default, *(_identity(each) for each in task.identities or ())]


def hands_out_tokens(task: Task) -> bool:
    """Returns whether the task, or what it logs in at, is given a signed token."""
    given = identities_of(task)
    return task.vault is not None or len(given) > 1 or given[0].env or given[0].file


def _identity(block: dict[str, object]) -> WorkloadIdentity:
    given = {key: value for key, value in block.items() if value is not None}
    return msgspec.convert(given, WorkloadIdentity)


class WantedIdentity(Model):
    """An identity of a task, named as its job names it."""

    alloc_id: str
    task: str
    identity: str = DEFAULT_NAME


class SignedIdentity(Model):
    """`expires_ns` is Unix time; 0: the token ends with its allocation."""

    token: str
    expires_ns: int = 0

    def __repr__(self) -> str:
        """Keeps the token out of tracebacks and logs."""
        return "SignedIdentity(...)"


class IdentityClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a workload's JSON web token, with Nomad's names; times in Unix seconds."""

    nomad_namespace: str
    nomad_job_id: str
    """A child of a periodic or parameterized job bears the id of its parent."""
    nomad_allocation_id: str
    nomad_task: str
    sub: str
    """region:namespace:job:group:task:identity"""
    aud: str | list[str]
    iat: int
    nbf: int
    jti: str
    iss: str = ""
    exp: int = 0

    @property
    def group(self) -> str:
        """The task group; '' for a subject that this cluster did not write."""
        parts = self.sub.split(":")
        return parts[-3] if len(parts) >= 6 else ""

    @property
    def audiences(self) -> list[str]:
        return [self.aud] if isinstance(self.aud, str) else self.aud
