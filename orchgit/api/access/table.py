"""The one table from a route and a method to what a caller needs.

Each path is written as in the endpoint that serves it. `get` stands for HEAD too, `put` for POST.
A server with an endpoint that has no entry here does not start (docs/security.md, "Add a route").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchgit.acl.capabilities import READ_GITOPS
from orchgit.api.access.requirements import (
    AGENT_READ,
    AGENT_WRITE,
    MANAGEMENT,
    NODE_READ,
    NODE_WRITE,
    OPERATOR_READ,
    OPERATOR_WRITE,
    AllInNamespace,
    Anyone,
    AnythingInNamespace,
    AnyToken,
    BadTokenForm,
    ByQuery,
    Coarse,
    EveryOf,
    ExecInAllocation,
    InNamespace,
    NamespacesOrNone,
    Nobody,
    ObjectKind,
    OfNodePool,
    OfObject,
    OfVariable,
    OfWorkload,
    OneOf,
    OperatorCapability,
    OwnCheck,
    OwnPolicy,
    RefusalForm,
    RegistersJob,
    Requirement,
    Rule,
    RuleBody,
    SearchContext,
    SeenWith,
    SelfOr,
)

_ALSO = {"GET": ("HEAD",), "PUT": ("POST",)}
"""The methods that have the rules of another."""
Entry = Requirement | Rule


@dataclass(frozen=True, slots=True)
class Row:
    """What the methods of one path need; `None`: the path has no such method."""

    path: str
    get: Entry | None = None
    put: Entry | None = None
    delete: Entry | None = None
    socket: Entry | None = None
    """Of a websocket."""


def _in(*capabilities: str) -> InNamespace:
    return InNamespace(capabilities)


def _of_job(*capabilities: str) -> Rule:
    """One of the capabilities in the namespace of the job that the body holds."""
    return Rule(InNamespace(capabilities), body=RuleBody.JOB)


def _allocation(*capabilities: str, parameter: str = "alloc_id") -> OfObject:
    return OfObject(ObjectKind.ALLOCATION, parameter, capabilities)


def _deployment(*capabilities: str, read: bool = False) -> OfObject:
    return OfObject(ObjectKind.DEPLOYMENT, "id", capabilities, request_too=read)


def _evaluation(*capabilities: str) -> OfObject:
    return OfObject(ObjectKind.EVALUATION, "eval_id", capabilities, request_too=True)


def _host_volume(*capabilities: str) -> OfObject:
    return OfObject(ObjectKind.HOST_VOLUME, "volume_id", capabilities, request_too=True)


def _source(*capabilities: str) -> OfObject:
    return OfObject(ObjectKind.SOURCE, "name", capabilities)


def _rollout(*capabilities: str) -> OfObject:
    return OfObject(ObjectKind.ROLLOUT, "rollout_id", capabilities)


def _on_node(requirement: Requirement) -> Rule:
    """Answered by a node's agent, whose words for a bad token are an RPC's."""
    return Rule(requirement, bad_token=BadTokenForm.RPC)


def _exec(parameter: str) -> Rule:
    return Rule(ExecInAllocation(parameter), bad_token=BadTokenForm.RPC_500)


def _told(requirement: Requirement) -> Rule:
    return Rule(requirement, bad_token=BadTokenForm.TOLD_403)


_SUBMIT = "submit-job"
_REGISTER = Rule(RegistersJob((_SUBMIT, "register-job")), body=RuleBody.JOB)
_SERVICES = OfWorkload(_in("read-job"))
_POLICIES = OneOf((_in("list-scaling-policies"), AllInNamespace(("list-jobs", "read-job"))))
_POLICY = OneOf((_in("read-scaling-policy"), AllInNamespace(("list-jobs", "read-job"))))
_LIST_CSI = _in("csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs")
_DETACH_CSI = EveryOf((_in("csi-mount-volume", "csi-read-volume"), Coarse("plugin")))
_WRITE_CSI = EveryOf((_in("csi-write-volume"), Coarse("plugin")))
_QUOTA_READ, _QUOTA_WRITE = Coarse("quota"), Coarse("quota", "write")
_ENTERPRISE = Anyone("the answer is that this needs Nomad Enterprise")
_PUBLIC = Anyone("it tells nothing about what runs here")
_REMOTE = OwnCheck("the git remote takes a token as password")
_PAGE = OwnCheck("a page asks the API with its reader's token")
_ANY = AnyToken("what the token may not read")
_SEARCH = Rule(SearchContext(), body=RuleBody.SEARCH)

ROWS: tuple[Row, ...] = (
    # -- jobs ----------------------------------------------------------------------------------
    Row("/v1/jobs", get=_in("list-jobs"), put=_REGISTER),
    Row("/v1/jobs/parse", put=_in("parse-job", _SUBMIT)),
    Row(
        "/v1/jobs/statuses",
        get=_in("read-job"),
        put=Rule(_in("read-job"), body=RuleBody.STATUSES),
    ),
    Row("/v1/validate/job", put=_of_job("read-job")),
    Row(
        "/v1/job/{job_id:path}",
        get=_in("read-job"),
        put=_REGISTER,
        delete=_in(_SUBMIT, "deregister-job", "purge-job"),
    ),
    Row("/v1/job/{job_id:path}/plan", put=_of_job(_SUBMIT, "plan-job")),
    Row("/v1/job/{job_id:path}/summary", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/allocations", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/evaluations", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/deployments", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/deployment", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/services", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/actions", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/action", socket=_exec("allocID")),
    Row("/v1/job/{job_id:path}/versions", get=_in("read-job")),
    Row(
        "/v1/job/{job_id:path}/versions/{tag}/tag",
        put=_in(_SUBMIT, "tag-job-version"),
        delete=_in(_SUBMIT, "tag-job-version"),
    ),
    Row("/v1/job/{job_id:path}/submission", get=_in("read-job")),
    Row("/v1/job/{job_id:path}/revert", put=_in(_SUBMIT, "revert-job")),
    Row("/v1/job/{job_id:path}/stable", put=_in(_SUBMIT, "stable-job")),
    Row("/v1/job/{job_id:path}/evaluate", put=_in(_SUBMIT, "evaluate-job")),
    Row("/v1/job/{job_id:path}/dispatch", put=_in("dispatch-job")),
    Row("/v1/job/{job_id:path}/dispatch/payload", put=_in("dispatch-job")),
    Row(
        "/v1/job/{job_id:path}/periodic/force",
        put=_in(_SUBMIT, "dispatch-job", "force-periodic-job"),
    ),
    Row(
        "/v1/job/{job_id:path}/scale",
        get=_in("read-job", "read-job-scaling"),
        put=_in(_SUBMIT, "scale-job"),
    ),
    Row("/v1/scaling/policies", get=NamespacesOrNone(_POLICIES)),
    Row("/v1/scaling/policy/{policy_id}", get=_POLICY),
    # -- evaluations, allocations, deployments -------------------------------------------------
    Row("/v1/evaluations", get=_in("read-job"), delete=MANAGEMENT),
    Row("/v1/evaluations/count", get=_in("read-job")),
    Row("/v1/evaluation/{eval_id}", get=_evaluation("read-job")),
    Row("/v1/evaluation/{eval_id}/allocations", get=_evaluation("read-job")),
    Row("/v1/allocations", get=_in("read-job")),
    Row(
        "/v1/allocation/{alloc_id}",
        get=Rule(_allocation("read-job"), refused=RefusalForm.UNKNOWN_ALLOCATION),
    ),
    Row("/v1/allocation/{alloc_id}/stop", put=_allocation("alloc-lifecycle")),
    Row("/v1/allocation/{alloc_id}/services", get=_allocation("read-job")),
    Row("/v1/allocation/{alloc_id}/checks", get=_on_node(_allocation("read-job"))),
    Row("/v1/deployments", get=_in("read-job")),
    Row("/v1/deployment/{id}", get=_deployment("read-job", read=True)),
    Row("/v1/deployment/allocations/{id}", get=_deployment("read-job", read=True)),
    Row("/v1/deployment/promote/{id}", put=_deployment(_SUBMIT, "promote-deployment")),
    Row("/v1/deployment/pause/{id}", put=_deployment(_SUBMIT, "pause-deployment")),
    Row("/v1/deployment/fail/{id}", put=_deployment(_SUBMIT, "fail-deployment")),
    Row("/v1/deployment/unblock/{id}", put=_deployment(_SUBMIT, "unblock-deployment")),
    Row(
        "/v1/deployment/allocation-health/{id}",
        put=_deployment(_SUBMIT, "set-alloc-health-deployment"),
    ),
    # -- nodes and their pools -----------------------------------------------------------------
    Row("/v1/nodes", get=NODE_READ),
    Row("/v1/node/{node_id}", get=NODE_READ),
    Row("/v1/node/{node_id}/allocations", get=SeenWith(NODE_READ, ("read-job",))),
    Row("/v1/node/{node_id}/drain", put=NODE_WRITE),
    Row("/v1/node/{node_id}/eligibility", put=NODE_WRITE),
    Row("/v1/node/{node_id}/evaluate", put=NODE_WRITE),
    Row("/v1/node/{node_id}/purge", put=NODE_WRITE),
    Row("/v1/client/identity", get=_on_node(NODE_READ)),
    Row("/v1/client/identity/renew", put=_on_node(NODE_WRITE)),
    Row(
        "/v1/node/pools",
        get=AnyToken("pools that may not be read"),
        put=Rule(OfNodePool("write"), body=RuleBody.NODE_POOL),
    ),
    Row(
        "/v1/node/pool/{name}",
        get=OfNodePool("read"),
        put=OfNodePool("write"),
        delete=OfNodePool("delete"),
    ),
    Row("/v1/node/pool/{name}/jobs", get=OfNodePool("read")),
    Row("/v1/node/pool/{name}/nodes", get=EveryOf((NODE_READ, OfNodePool("read")))),
    # -- services, variables, volumes, namespaces ----------------------------------------------
    Row("/v1/services", get=NamespacesOrNone(_SERVICES)),
    Row("/v1/service/{name}", get=_SERVICES),
    Row("/v1/service/{name}/{id}", delete=_in(_SUBMIT, "delete-service-registration")),
    Row("/v1/vars", get=AnyToken("variables that may not be listed")),
    Row(
        "/v1/var/{path:path}",
        get=OfVariable("read"),
        put=Rule(OfVariable("write"), body=RuleBody.VARIABLE),
        delete=OfVariable("destroy"),
    ),
    Row("/v1/volumes", get=ByQuery("type", (("csi", _LIST_CSI),), AnyToken("host volumes"))),
    Row("/v1/volumes/claims", get=_in("host-volume-read")),
    Row("/v1/volumes/claim/{claim_id}", delete=_in("host-volume-delete")),
    Row("/v1/volume/host/create", put=Rule(_in("host-volume-create"), body=RuleBody.VOLUME)),
    Row("/v1/volume/host/register", put=Rule(_in("host-volume-register"), body=RuleBody.VOLUME)),
    Row(
        "/v1/volume/host/{volume_id}",
        get=_host_volume("host-volume-read"),
        delete=_host_volume("host-volume-delete"),
    ),
    Row("/v1/volume/host/{volume_id}/delete", delete=_host_volume("host-volume-delete")),
    Row("/v1/volumes/external", get=_LIST_CSI),
    Row(
        "/v1/volume/csi/{volume_id}",
        get=_in("csi-read-volume", "csi-mount-volume", "read-job"),
        put=_WRITE_CSI,
        delete=_WRITE_CSI,
    ),
    Row("/v1/volumes/snapshot", get=_LIST_CSI, put=_WRITE_CSI, delete=_WRITE_CSI),
    Row("/v1/volume/csi/{volume_id}/create", put=_WRITE_CSI),
    Row("/v1/volume/csi/{volume_id}/delete", delete=_WRITE_CSI),
    Row("/v1/volume/csi/{volume_id}/detach", delete=_DETACH_CSI),
    Row("/v1/plugins", get=Coarse("plugin", "list")),
    Row("/v1/plugin/csi/{plugin_id}", get=Coarse("plugin")),
    Row("/v1/namespaces", get=AnyToken("namespaces in which nothing is allowed")),
    Row("/v1/namespace", put=MANAGEMENT),
    Row("/v1/namespace/{name}", get=AnythingInNamespace(), put=MANAGEMENT, delete=MANAGEMENT),
    Row("/v1/quotas", get=_QUOTA_READ),
    Row("/v1/quota", put=_QUOTA_WRITE),
    Row("/v1/quota/usage/{name}", get=_QUOTA_READ),
    Row("/v1/quota/{name}", get=_QUOTA_READ, put=_QUOTA_WRITE, delete=_QUOTA_WRITE),
    Row("/v1/quota-usages", get=_QUOTA_READ),
    # -- search, events, questions -------------------------------------------------------------
    Row("/v1/search", put=_SEARCH),
    Row("/v1/search/fuzzy", put=_SEARCH),
    Row(
        "/v1/event/stream",
        get=Rule(
            AnyToken("topics that may not be read"),
            bad_token=BadTokenForm.NO_BODY,
            refused=RefusalForm.NO_BODY,
        ),
    ),
    Row(
        "/v1/operator/sql",
        get=AnyToken("nothing: the names of tables and columns"),
        put=SeenWith(_ANY, ("read-job",)),
    ),
    # -- this server and the cluster -----------------------------------------------------------
    Row("/v1/agent/self", get=Rule(AGENT_READ, bad_token=BadTokenForm.TOLD)),
    Row("/v1/agent/members", get=NODE_READ),
    Row("/v1/agent/servers", get=_on_node(AGENT_READ), put=_on_node(AGENT_WRITE)),
    Row("/v1/agent/health", get=_PUBLIC),
    Row("/v1/agent/schedulers", get=_told(AGENT_READ)),
    Row("/v1/agent/schedulers/config", get=_told(AGENT_READ), put=_told(AGENT_WRITE)),
    Row("/v1/agent/host", get=Rule(AGENT_READ, bad_token=BadTokenForm.IDENTITY)),
    Row("/v1/agent/reload", put=Rule(AGENT_WRITE, bad_token=BadTokenForm.IDENTITY)),
    Row("/v1/agent/keyring/{operation}", get=_told(AGENT_WRITE), put=_told(AGENT_WRITE)),
    Row("/v1/agent/pprof/{profile}", get=AGENT_WRITE),
    Row("/v1/agent/monitor", get=Rule(AGENT_READ, bad_token=BadTokenForm.NO_BODY)),
    Row(
        "/v1/agent/monitor/export",
        get=Rule(AGENT_READ, free_without=("service_name", "on_disk")),
    ),
    Row("/v1/agent/join", put=Anyone("a server joins with the certificates of the cluster")),
    Row("/v1/agent/force-leave", put=_told(AGENT_WRITE)),
    Row("/v1/metrics", get=Anyone("scrapers have no token; it names jobs and nodes")),
    Row("/v1/status/leader", get=_PUBLIC),
    Row("/v1/status/peers", get=_PUBLIC),
    Row("/v1/regions", get=_PUBLIC),
    Row("/v1/openapi.json", get=_PUBLIC),
    Row("/v1/operator/scheduler/configuration", get=OPERATOR_READ, put=OPERATOR_WRITE),
    Row("/v1/operator/autopilot/configuration", get=OPERATOR_READ, put=OPERATOR_WRITE),
    Row("/v1/operator/autopilot/health", get=OPERATOR_READ),
    Row("/v1/operator/raft/configuration", get=MANAGEMENT),
    Row("/v1/operator/raft/peer", delete=MANAGEMENT),
    Row("/v1/operator/raft/transfer-leadership", put=MANAGEMENT),
    Row("/v1/operator/snapshot", get=OperatorCapability("snapshot-save"), put=MANAGEMENT),
    Row("/v1/operator/license", get=_PUBLIC, put=_ENTERPRISE),
    Row("/v1/operator/utilization", get=_ENTERPRISE, put=_ENTERPRISE),
    Row("/v1/operator/upgrade-check/{check}", get=OPERATOR_READ),
    Row("/v1/operator/keyring/keys", get=OperatorCapability("keyring-read")),
    Row("/v1/operator/keyring/rotate", put=OperatorCapability("keyring-rotate")),
    Row("/v1/operator/keyring/key/{key_id}", delete=OperatorCapability("keyring-delete")),
    Row("/v1/system/gc", put=MANAGEMENT),
    Row("/v1/system/reconcile/summaries", put=MANAGEMENT),
    Row("/.well-known/jwks.json", get=Anyone("public keys")),
    Row("/.well-known/openid-configuration", get=_PUBLIC),
    # -- tokens and policies -------------------------------------------------------------------
    Row("/v1/acl/bootstrap", put=Anyone("it works once, or with a file on the leader's disk")),
    Row("/v1/acl/tokens", get=MANAGEMENT),
    Row("/v1/acl/token", put=MANAGEMENT),
    Row(
        "/v1/acl/token/{accessor}",
        get=Rule(SelfOr("accessor", MANAGEMENT), bad_token=BadTokenForm.TOLD),
        put=MANAGEMENT,
        delete=MANAGEMENT,
    ),
    Row("/v1/acl/token/self", get=Rule(AnyToken("nothing"), bad_token=BadTokenForm.TOLD)),
    Row("/v1/acl/token/onetime", put=OwnCheck("it trades the caller's own token")),
    Row("/v1/acl/token/onetime/exchange", put=OwnCheck("by the one-time secret in the body")),
    Row("/v1/acl/policies", get=AnyToken("policies that the token does not have")),
    Row("/v1/acl/policy/{name:path}", get=OwnPolicy("name"), put=MANAGEMENT, delete=MANAGEMENT),
    Row("/v1/acl/roles", get=AnyToken("roles that the token does not have")),
    Row("/v1/acl/role", put=MANAGEMENT),
    Row(
        "/v1/acl/role/{id:path}",
        get=AnyToken("a role of another"),
        put=MANAGEMENT,
        delete=MANAGEMENT,
    ),
    Row("/v1/acl/role/name/{name:path}", get=AnyToken("a role of another")),
    Row("/v1/acl/auth-methods", get=Anyone("who wants to log in has no token yet")),
    Row("/v1/acl/auth-method", put=MANAGEMENT),
    Row("/v1/acl/auth-method/{name:path}", get=MANAGEMENT, put=MANAGEMENT, delete=MANAGEMENT),
    Row("/v1/acl/binding-rules", get=MANAGEMENT),
    Row("/v1/acl/binding-rule", put=MANAGEMENT),
    Row("/v1/acl/binding-rule/{id:path}", get=MANAGEMENT, put=MANAGEMENT, delete=MANAGEMENT),
    Row("/v1/acl/login", put=OwnCheck("the identity provider's signature")),
    Row("/v1/acl/oidc/auth-url", put=Anyone("who wants to log in has no token yet")),
    Row("/v1/acl/oidc/complete-auth", put=OwnCheck("the identity provider's code")),
    Row("/v1/acl/identity/client-introduction-token", put=NODE_WRITE),
    Row("/v1/acl/{rest:path}", get=_PUBLIC, put=_PUBLIC, delete=_PUBLIC),
    # -- gitops --------------------------------------------------------------------------------
    Row("/v1/gitops/sources", get=SeenWith(_ANY, READ_GITOPS)),
    Row(
        "/v1/gitops/source/{name}",
        get=_source(*READ_GITOPS),
        put=Rule(_in("gitops-source"), body=RuleBody.SOURCE),
        delete=_source("gitops-source"),
    ),
    Row(
        "/v1/gitops/source/{name}/settings",
        put=Rule(_source("gitops-source"), body=RuleBody.SOURCE),
    ),
    Row("/v1/gitops/source/{name}/adopt", put=_source("gitops-source")),
    Row("/v1/gitops/source/{name}/rename", put=_source("gitops-source")),
    Row("/v1/gitops/source/{name}/sync", put=_source("gitops-sync")),
    Row("/v1/gitops/source/{name}/pause", put=_source("gitops-sync")),
    Row("/v1/gitops/source/{name}/resume", put=_source("gitops-sync")),
    Row("/v1/gitops/source/{name}/plan", put=_source(*READ_GITOPS)),
    Row("/v1/gitops/source/{name}/held", get=_source(*READ_GITOPS)),
    Row("/v1/gitops/source/{name}/retry", put=_source("gitops-sync")),
    Row("/v1/gitops/source/{name}/rollback", put=_source("gitops-revert")),
    Row("/v1/gitops/release", put=Rule(_in("gitops-source"), body=RuleBody.NAMESPACE)),
    Row("/v1/gitops/drift", get=SeenWith(_ANY, READ_GITOPS)),
    Row("/v1/gitops/drift/patch", get=OfObject(ObjectKind.SOURCE, "source", READ_GITOPS)),
    Row("/v1/gitops/rollouts", get=SeenWith(_ANY, READ_GITOPS)),
    Row(
        "/v1/gitops/rollout/{rollout_id}",
        get=_rollout(*READ_GITOPS),
        delete=_rollout("gitops-source"),
    ),
    Row("/v1/gitops/rollout/{rollout_id}/report", get=_rollout(*READ_GITOPS)),
    Row("/v1/gitops/rollout/{rollout_id}/revert", put=_rollout("gitops-revert")),
    Row("/v1/gitops/rollout/{rollout_id}/approve", put=_rollout("gitops-approve")),
    Row("/v1/gitops/rollout/{rollout_id}/reject", put=_rollout("gitops-approve")),
    Row("/v1/gitops/authors", get=MANAGEMENT),
    Row("/v1/gitops/authors/{job_id:path}", get=_in(*READ_GITOPS)),
    Row("/v1/gitops/blame/{id:path}", get=SeenWith(_ANY, READ_GITOPS)),
    Row("/v1/gitops/webhooks/{host}", put=OwnCheck("the webhook's signature")),
    Row("/git/{name}.git/info/refs", get=_REMOTE),
    Row("/git/{name}.git/git-upload-pack", put=_REMOTE),
    Row("/git/{name}.git/git-receive-pack", put=_REMOTE),
    Row("/ui/static/{name}", get=_PUBLIC, put=_PUBLIC, delete=_PUBLIC),
    Row("/ui/login", get=_PUBLIC, put=OwnCheck("it asks the API for the token"), delete=_PUBLIC),
    Row("/ui/logout", get=_PUBLIC, put=_PUBLIC, delete=_PUBLIC),
    *(
        Row(path, get=_PAGE, put=_PAGE, delete=_PAGE)
        for path in ("/", "/ui", "/ui/", "/ui/live", "/ui/{rest:path}")
    ),
    # -- what Nomad keeps for Enterprise -------------------------------------------------------
    *(
        Row(path, get=_ENTERPRISE, put=_ENTERPRISE, delete=_ENTERPRISE)
        for path in (
            "/v1/recommendations",
            "/v1/recommendations/apply",
            "/v1/recommendation",
            "/v1/recommendation/{id}",
            "/v1/sentinel/policies",
            "/v1/sentinel/policy/{name}",
        )
    ),
    # -- a node's agent ------------------------------------------------------------------------
    Row("/v1/client/stats", get=_on_node(NODE_READ)),
    Row("/v1/client/services", get=_on_node(NODE_READ)),
    Row("/v1/client/metadata", get=_on_node(NODE_READ), put=_on_node(NODE_WRITE)),
    Row("/v1/client/gc", get=_on_node(NODE_WRITE), put=_on_node(NODE_WRITE)),
    Row("/v1/client/allocation/{alloc_id}/stats", get=_on_node(_allocation("read-job"))),
    Row("/v1/client/allocation/{alloc_id}/checks", get=_on_node(_allocation("read-job"))),
    Row("/v1/client/allocation/{alloc_id}/snapshot", get=Nobody()),
    Row("/v1/client/allocation/{alloc_id}/restart", put=_on_node(_allocation("alloc-lifecycle"))),
    Row("/v1/client/allocation/{alloc_id}/signal", put=_on_node(_allocation("alloc-lifecycle"))),
    Row(
        "/v1/client/allocation/{alloc_id}/pause",
        get=_on_node(_allocation("read-job")),
        put=_on_node(_allocation(_SUBMIT, "pause-allocation")),
    ),
    Row(
        "/v1/client/allocation/{alloc_id}/gc",
        get=_on_node(_allocation(_SUBMIT, "gc-allocation")),
        put=_on_node(_allocation(_SUBMIT, "gc-allocation")),
    ),
    Row("/v1/client/allocation/{alloc_id}/exec", socket=_exec("alloc_id")),
    Row("/v1/client/fs/ls/{alloc_id}", get=_on_node(_allocation("read-fs"))),
    Row("/v1/client/fs/stat/{alloc_id}", get=_on_node(_allocation("read-fs"))),
    *(
        Row(
            f"/v1/client/fs/{name}/{{alloc_id}}",
            get=Rule(
                _allocation("read-fs"), bad_token=BadTokenForm.RPC_200, refused=RefusalForm.TEXT
            ),
        )
        for name in ("cat", "readat")
    ),
    Row(
        "/v1/client/fs/stream/{alloc_id}",
        get=Rule(_allocation("read-fs"), bad_token=BadTokenForm.RPC_403),
    ),
    Row(
        "/v1/client/fs/logs/{alloc_id}",
        get=Rule(_allocation("read-logs", "read-fs"), bad_token=BadTokenForm.RPC_500),
    ),
)


class AccessTable:
    """The rules by path and method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rules: dict[tuple[str, str], Rule] = {}
        self.paths: list[str] = []
        for row in rows:
            if row.path in self.paths:
                raise ValueError(f"the access table has two rows for {row.path}")
            self.paths.append(row.path)
            entries: Mapping[str, Entry | None] = {
                "GET": row.get,
                "PUT": row.put,
                "DELETE": row.delete,
                "WEBSOCKET": row.socket,
            }
            for method, entry in entries.items():
                if entry is not None:
                    rule = entry if isinstance(entry, Rule) else Rule(entry)
                    for name in (method, *_ALSO.get(method, ())):
                        self._rules[row.path, name] = rule

    def rule(self, path: str, method: str) -> Rule | None:
        """Returns the rule for an endpoint's path and a method; None without an entry."""
        return self._rules.get((path, method))


TABLE = AccessTable(ROWS)
