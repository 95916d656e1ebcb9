"""What a request needs: each requirement decides from a caller's rights and the request. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from orchgit.acl.capabilities import READ, WRITE
from orchgit.acl.jobs import missing_to_register
from orchgit.acl.rights import ALL_NAMESPACES, Rights
from orchgit.model.job import Job


class ObjectKind(Enum):
    """What a path may name by an id that does not tell its namespace."""

    ALLOCATION = "allocation"
    DEPLOYMENT = "deployment"
    EVALUATION = "evaluation"
    HOST_VOLUME = "host volume"
    SOURCE = "source"
    ROLLOUT = "rollout"


class Objects(Protocol):
    """What a decision may ask of the state."""

    def namespace_of(self, kind: ObjectKind, object_id: str) -> str | None:
        """Returns the namespace of an object; None for an unknown one."""
        ...

    def driver_of(self, alloc_id: str, task: str) -> str:
        """Returns the driver of an allocation's task; with task "" that of its only task.
        "" is unknown."""
        ...


@dataclass(slots=True)
class RequestNames:
    """What a request names, in its path, query and (where the rule asks for it) body."""

    namespace: str
    """Of the query, or of the body where a rule says so."""
    path: Mapping[str, str]
    query: Mapping[str, str]
    job: Job | None = None
    context: str = ""
    """What a search looks for."""


@dataclass(slots=True)
class Question:
    """One request, as far as a decision depends on it. `policies` are the names of the caller's
    policies, `accessor_id` is that of the caller's token."""

    rights: Rights
    names: RequestNames
    objects: Objects
    policies: Collection[str] = ()
    accessor_id: str = ""

    @property
    def namespace(self) -> str:
        return self.names.namespace

    @property
    def path(self) -> Mapping[str, str]:
        return self.names.path

    @property
    def query(self) -> Mapping[str, str]:
        return self.names.query


class Requirement(Protocol):
    """Decides about requests."""

    def allows(self, question: Question) -> bool: ...

    def sees(self, rights: Rights, namespace: str) -> bool:
        """Returns whether objects of the namespace may be in the answer."""
        ...


class _SeesEverything:
    def sees(self, rights: Rights, namespace: str) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Anyone(_SeesEverything):
    """Everyone is answered, and no token is looked at. `why` says what makes that safe."""

    why: str

    def allows(self, question: Question) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class OwnCheck(_SeesEverything):
    """The handler checks its callers itself, by what `how` says."""

    how: str

    def allows(self, question: Question) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AnyToken(_SeesEverything):
    """Everyone without a token and every valid token is answered; the handler leaves out what
    `filtered` says."""

    filtered: str

    def allows(self, question: Question) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class ManagementOnly(_SeesEverything):
    def allows(self, question: Question) -> bool:
        return question.rights.is_management


@dataclass(frozen=True, slots=True)
class Nobody(_SeesEverything):
    """Nobody is answered, not even management."""

    def allows(self, question: Question) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Coarse(_SeesEverything):
    """One of the coarse rules: `node`, `agent`, `operator`, `quota`, `plugin`."""

    topic: str
    access: str = READ

    def allows(self, question: Question) -> bool:
        return question.rights.allows_coarse(self.topic, self.access)


@dataclass(frozen=True, slots=True)
class OperatorCapability(_SeesEverything):
    capability: str

    def allows(self, question: Question) -> bool:
        return question.rights.allows_operator(self.capability)


@dataclass(frozen=True, slots=True)
class InNamespace:
    """One of the capabilities in the request's namespace; with namespace `*` in any, and the
    answer has only what is in those."""

    capabilities: tuple[str, ...]

    def allows(self, question: Question) -> bool:
        return self.sees(question.rights, question.names.namespace)

    def sees(self, rights: Rights, namespace: str) -> bool:
        for each in self.capabilities:  # noqa: SIM110 - a generator costs twice; every read is here
            if rights.allows_namespace(namespace, each):
                return True
        return False


@dataclass(frozen=True, slots=True)
class AllInNamespace:
    """All of the capabilities in the request's namespace."""

    capabilities: tuple[str, ...]

    def allows(self, question: Question) -> bool:
        return self.sees(question.rights, question.namespace)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return all(rights.allows_namespace(namespace, each) for each in self.capabilities)


@dataclass(frozen=True, slots=True)
class NamespacesOrNone:
    """As the inner requirement in one namespace; with namespace `*` every valid token is answered,
    maybe with an empty list."""

    inner: Requirement

    def allows(self, question: Question) -> bool:
        return question.namespace == ALL_NAMESPACES or self.inner.allows(question)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return self.inner.sees(rights, namespace)


@dataclass(frozen=True, slots=True)
class OfWorkload:
    """As the inner requirement; a workload identity needs none of its rights."""

    inner: Requirement

    def allows(self, question: Question) -> bool:
        return question.rights.workload is not None or self.inner.allows(question)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return rights.workload is not None or self.inner.sees(rights, namespace)


@dataclass(frozen=True, slots=True)
class OfObject:
    """One of the capabilities in the namespace of the object that the path names; an unknown object
    is left to the handler.

    With `request_too` also in the request's namespace, so that what is unknown is refused.
    """

    kind: ObjectKind
    parameter: str
    capabilities: tuple[str, ...]
    request_too: bool = False

    def allows(self, question: Question) -> bool:
        if self.request_too and not self.sees(question.rights, question.namespace):
            return False
        object_id = question.path.get(self.parameter) or question.query.get(self.parameter, "")
        namespace = question.objects.namespace_of(self.kind, object_id)
        return namespace is None or self.sees(question.rights, namespace)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return any(rights.allows_namespace(namespace, each) for each in self.capabilities)


@dataclass(frozen=True, slots=True)
class RegistersJob:
    """One of the capabilities in the job's namespace, and what the job's volumes need: the rule
    `host_volume` of each host volume, `csi-mount-volume` where there is a CSI volume."""

    capabilities: tuple[str, ...]

    def allows(self, question: Question) -> bool:
        return not missing_to_register(
            question.rights, question.namespace, question.names.job, self.capabilities
        )

    def sees(self, rights: Rights, namespace: str) -> bool:
        return any(rights.allows_namespace(namespace, each) for each in self.capabilities)


_NO_ISOLATION = ("raw_exec", "")
"""Drivers whose tasks are not isolated from their node; "" is an unknown one."""


@dataclass(frozen=True, slots=True)
class ExecInAllocation(_SeesEverything):
    """`alloc-exec` in the allocation's namespace, and `alloc-node-exec` for a task that is not
    isolated from its node."""

    parameter: str

    def allows(self, question: Question) -> bool:
        alloc_id = question.path.get(self.parameter) or question.query.get(self.parameter, "")
        namespace = question.objects.namespace_of(ObjectKind.ALLOCATION, alloc_id)
        if namespace is None:
            return True
        if not question.rights.allows_namespace(namespace, "alloc-exec"):
            return False
        driver = question.objects.driver_of(alloc_id, question.query.get("task", ""))
        return driver not in _NO_ISOLATION or question.rights.allows_namespace(
            namespace, "alloc-node-exec"
        )


@dataclass(frozen=True, slots=True)
class OfVariable(_SeesEverything):
    """A capability of the variable that the path names."""

    capability: str

    def allows(self, question: Question) -> bool:
        return question.rights.allows_variable(
            question.namespace, question.path["path"], self.capability
        )


@dataclass(frozen=True, slots=True)
class OfNodePool:
    """A capability of the node pool that the path names."""

    capability: str
    parameter: str = "name"

    def allows(self, question: Question) -> bool:
        return question.rights.allows_node_pool(question.path[self.parameter], self.capability)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return rights.allows_namespace(namespace, "list-jobs")


@dataclass(frozen=True, slots=True)
class AnythingInNamespace(_SeesEverything):
    """Any capability in the namespace that the path names."""

    def allows(self, question: Question) -> bool:
        return question.rights.sees_namespace(question.path["name"])


@dataclass(frozen=True, slots=True)
class EveryOf:
    """All of the requirements."""

    parts: tuple[Requirement, ...]

    def allows(self, question: Question) -> bool:
        return all(each.allows(question) for each in self.parts)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return all(each.sees(rights, namespace) for each in self.parts)


@dataclass(frozen=True, slots=True)
class OneOf:
    """At least one of the requirements."""

    parts: tuple[Requirement, ...]

    def allows(self, question: Question) -> bool:
        return any(each.allows(question) for each in self.parts)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return any(each.sees(rights, namespace) for each in self.parts)


@dataclass(frozen=True, slots=True)
class SeenWith:
    """As `inner`; of the answer only what is in namespaces with one of the capabilities."""

    inner: Requirement
    capabilities: tuple[str, ...]

    def allows(self, question: Question) -> bool:
        return self.inner.allows(question)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return any(rights.allows_namespace(namespace, each) for each in self.capabilities)


_IN_NAMESPACE = {
    "scaling_policy": ("read-job", "list-scaling-policies"),
    "volumes": ("csi-list-volume", "csi-read-volume", "list-jobs", "read-job"),
    "host_volumes": ("host-volume-read",),
}


def may_search(rights: Rights, namespace: str, kind: str) -> bool:
    """Returns whether objects of that kind may be searched in the namespace. What a search finds is
    filtered beside that."""
    match kind:
        case "nodes":
            return rights.allows_coarse("node", READ)
        case "node_pools":
            return rights.may_search_node_pools
        case "namespaces":
            return rights.sees_namespace(namespace)
        case "vars":
            return rights.may_search_variables(namespace)
        case "plugins":
            return rights.allows_coarse("plugin", "list")
    wanted = _IN_NAMESPACE.get(kind, ("read-job",))
    return any(rights.allows_namespace(namespace, each) for each in wanted)


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The right to search the one kind of objects that the body names; every valid token may search
    all kinds, and finds what it may."""

    def allows(self, question: Question) -> bool:
        kind = question.names.context
        return kind in ("", "all") or may_search(question.rights, question.namespace, kind)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return rights.allows_namespace(namespace, "read-job")


@dataclass(frozen=True, slots=True)
class ByQuery:
    """The requirement that stands for the value of a query parameter, else `otherwise`."""

    parameter: str
    by_value: tuple[tuple[str, Requirement], ...]
    otherwise: Requirement

    def allows(self, question: Question) -> bool:
        value = question.query.get(self.parameter, "")
        return dict(self.by_value).get(value, self.otherwise).allows(question)

    def sees(self, rights: Rights, namespace: str) -> bool:
        return self.otherwise.sees(rights, namespace)


@dataclass(frozen=True, slots=True)
class SelfOr(_SeesEverything):
    """Every valid token where the path says `self` or its accessor, else the inner requirement."""

    parameter: str
    inner: Requirement

    def allows(self, question: Question) -> bool:
        own = ("self", question.accessor_id)
        return question.path[self.parameter] in own or self.inner.allows(question)


@dataclass(frozen=True, slots=True)
class OwnPolicy(_SeesEverything):
    """Management, or a token that has the policy that the path names."""

    parameter: str

    def allows(self, question: Question) -> bool:
        rights = question.rights
        return rights.is_management or question.path[self.parameter] in question.policies


class RuleBody(Enum):
    """What of the request's body a decision needs, beside the query, which wins over the body."""

    NOTHING = "nothing"
    JOB = "the job's namespace and volumes"
    STATUSES = "the namespace of the jobs, where they have one"
    VOLUME = "the volume's namespace"
    VARIABLE = "the variable's namespace"
    NODE_POOL = "the pool's name"
    SOURCE = "the source's namespace"
    NAMESPACE = "the namespace"
    SEARCH = "the namespace, and what is looked for"


class BadTokenForm(Enum):
    """How a token is refused that is unknown, expired, or no token at all.

    Nomad's servers, its agents and the servers' calls of agents each have words of their own.
    """

    DENIED = "403, whatever is wrong"
    TOLD = "500 with the reason; 403 for an unknown token"
    TOLD_403 = "403 with the reason"
    RPC = "500 with the reason as an RPC error; 403 for an unknown token"
    RPC_500 = "500 with the reason as an RPC error, for an unknown token too"
    RPC_403 = "403 with the reason as an RPC error"
    RPC_200 = "200 with the reason as an RPC error"
    IDENTITY = "500 with the reason as an identity's; 403 for an unknown token"
    NO_BODY = "200 without a body"


class RefusalForm(Enum):
    """How a caller without the right is refused."""

    DENIED = "403 Permission denied"
    UNKNOWN_ALLOCATION = "500, as if the allocation were unknown"
    TEXT = "200 with the text Permission denied"
    NO_BODY = "200 without a body"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the table."""

    requirement: Requirement
    body: RuleBody = RuleBody.NOTHING
    bad_token: BadTokenForm = BadTokenForm.DENIED
    refused: RefusalForm = RefusalForm.DENIED
    free_without: tuple[str, ...] = ()
    """Query parameters; without any of them the request fails, and no token is looked at."""

    is_by_namespace: bool = field(init=False)
    """Whether a decision depends on nothing but the caller and the request's namespace."""

    def __post_init__(self) -> None:
        by_namespace = self.body is RuleBody.NOTHING and _is_by_namespace(self.requirement)
        object.__setattr__(self, "is_by_namespace", by_namespace)

    @property
    def is_open(self) -> bool:
        """Returns whether no token is looked at."""
        return isinstance(self.requirement, Anyone | OwnCheck)


def _is_by_namespace(requirement: Requirement) -> bool:
    match requirement:
        case NamespacesOrNone(inner) | OfWorkload(inner) | SeenWith(inner):
            return _is_by_namespace(inner)
        case EveryOf(parts) | OneOf(parts):
            return all(map(_is_by_namespace, parts))
    return isinstance(
        requirement,
        Anyone
        | OwnCheck
        | AnyToken
        | ManagementOnly
        | Coarse
        | OperatorCapability
        | InNamespace
        | AllInNamespace,
    )


NODE_READ = Coarse("node", READ)
NODE_WRITE = Coarse("node", WRITE)
AGENT_READ = Coarse("agent", READ)
AGENT_WRITE = Coarse("agent", WRITE)
OPERATOR_READ = Coarse("operator", READ)
OPERATOR_WRITE = Coarse("operator", WRITE)
MANAGEMENT = ManagementOnly()
