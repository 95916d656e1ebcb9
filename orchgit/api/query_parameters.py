"""The query parameters that an endpoint has beside those of all: what the OpenAPI document says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Parameter(NamedTuple):
    name: str
    kind: str
    """Its type in a JSON schema."""
    meaning: str


def _text(name: str, meaning: str) -> Parameter:
    return Parameter(name, "string", meaning)


def _flag(name: str, meaning: str) -> Parameter:
    return Parameter(name, "boolean", meaning)


def _number(name: str, meaning: str) -> Parameter:
    return Parameter(name, "integer", meaning)


OF_ALL = (
    _text("namespace", "the namespace; `*` in lists: all that may be seen"),
    _text("region", "this cluster's region, or none"),
    _text("pretty", "indents the JSON"),
)
OF_READS = (
    _number("index", "waits until the answer's X-Nomad-Index is beyond this"),
    _text("wait", "how long to wait, as `30s`; at most 10m"),
    _text("stale", "any server may answer"),
    _text("consistent", "the leader answers after it made sure that it leads"),
)
_PREFIX = _text("prefix", "of the names or ids")
_FILTER = _text("filter", "an expression; see docs/api.md")
_PAGE = (
    _FILTER,
    _number("per_page", "items of a page"),
    _text("next_token", "X-Nomad-NextToken of the page before"),
    _flag("reverse", "the other order"),
)
_LIST = (_PREFIX, *_PAGE)
_CAS = _number("cas", "changes it only while its ModifyIndex is this")
_SERVER = _text("server_id", "the server that answers, by name or id, or `leader`")
_NODE = _text("node_id", "the node whose agent answers, a whole id")
_NO_DELAY = _flag("no_shutdown_delay", "ends tasks without their shutdown_delay")
_TOKEN = _text("idempotency_token", "a dispatch with the token of an earlier one makes no new job")
_PEER = (_text("address", "the server's raft address"), _text("id", "or its id"))
_RESOURCES = _flag("resources", "adds the resources of each")
_PLUGIN = _text("plugin_id", "the CSI plugin")
_SECRETS = _text("secrets", "`NAME=VALUE`, with commas between, for the plugin; also as a header")
_PROVIDERS_PAGE = (
    _number("per_page", "items of a page"),
    _text("next_token", "NextToken of the page before"),
)
_VOLUMES = (
    _text("type", "`host` or `csi`; without it the list is empty"),
    _text("node_id", "only of this node"),
    _text("node_pool", "only of this pool, host volumes"),
    _PLUGIN,
)
_OF_EVALUATIONS = (
    _text("job", "only of this job"),
    _text("status", "only of this status"),
)
_ALL_OF_JOB = _flag("all", "also those of earlier jobs of this name")
_SOURCE = _text("source", "only of this source")

_OF_A_NODE = (
    ("/v1/client/stats", "GET"),
    ("/v1/client/services", "GET"),
    ("/v1/client/metadata", "GET"),
    ("/v1/client/metadata", "PUT"),
    ("/v1/client/identity", "GET"),
    ("/v1/client/identity/renew", "PUT"),
    ("/v1/client/gc", "GET"),
    ("/v1/client/gc", "PUT"),
)
_PATH = _text("path", "below the allocation's directory")
_OFFSET = _number("offset", "bytes from the origin")
_LIMIT = _number("limit", "bytes to read")
_ORIGIN = _text("origin", "`start` or `end`")
_FOLLOW = _flag("follow", "goes on with what is written later")

OF_ENDPOINT: Mapping[tuple[str, str], tuple[Parameter, ...]] = {
    # -- jobs
    ("/v1/jobs", "GET"): (*_LIST, _flag("meta", "adds the meta of each job")),
    ("/v1/jobs/statuses", "GET"): (*_PAGE, _flag("include_children", "children of jobs too")),
    ("/v1/jobs/statuses", "PUT"): (*_PAGE, _flag("include_children", "children of jobs too")),
    ("/v1/job/{job_id:path}", "GET"): (_number("version", "an earlier version"),),
    ("/v1/job/{job_id:path}", "DELETE"): (
        _flag("purge", "forgets the job at once"),
        _number("eval_priority", "of the evaluation, 1 to 100"),
        _NO_DELAY,
    ),
    ("/v1/job/{job_id:path}/allocations", "GET"): (_ALL_OF_JOB,),
    ("/v1/job/{job_id:path}/deployments", "GET"): (_ALL_OF_JOB,),
    ("/v1/job/{job_id:path}/dispatch", "PUT"): (_TOKEN,),
    ("/v1/job/{job_id:path}/dispatch/payload", "PUT"): (_TOKEN,),
    ("/v1/job/{job_id:path}/versions", "GET"): (
        _flag("diffs", "adds how each differs from the one before"),
        _text("diff_tag", "from the version of this tag instead"),
        _number("diff_version", "from this version instead"),
    ),
    ("/v1/job/{job_id:path}/submission", "GET"): (_number("version", "the job's version"),),
    ("/v1/scaling/policies", "GET"): (
        _text("job", "only of this job"),
        _text("type", "only of this type"),
    ),
    # -- evaluations, allocations, deployments, nodes
    ("/v1/evaluations", "GET"): (*_LIST, *_OF_EVALUATIONS),
    ("/v1/evaluations", "DELETE"): (_FILTER,),
    ("/v1/evaluations/count", "GET"): (_PREFIX, _FILTER, *_OF_EVALUATIONS),
    ("/v1/evaluation/{eval_id}", "GET"): (_flag("related", "adds the related evaluations"),),
    ("/v1/allocations", "GET"): (
        *_LIST,
        _RESOURCES,
        _flag("task_states", "`false` leaves them out"),
    ),
    ("/v1/allocation/{alloc_id}/stop", "PUT"): (_NO_DELAY,),
    ("/v1/deployments", "GET"): _LIST,
    ("/v1/nodes", "GET"): (*_LIST, _RESOURCES, _flag("os", "adds the operating system of each")),
    ("/v1/node/pools", "GET"): _LIST,
    ("/v1/node/pool/{name}/jobs", "GET"): _PAGE,
    ("/v1/node/pool/{name}/nodes", "GET"): (
        *_LIST,
        _RESOURCES,
        _flag("os", "adds the operating system of each"),
    ),
    # -- services, variables, volumes, namespaces
    ("/v1/services", "GET"): (_PREFIX,),
    ("/v1/service/{name}", "GET"): (
        *_PAGE,
        _text("choose", "`COUNT|KEY`: so many of them, the same for equal keys"),
    ),
    ("/v1/vars", "GET"): _LIST,
    ("/v1/var/{path:path}", "PUT"): (
        _CAS,
        *(
            _text(f"lock-{each}", f"{each}s the lock that the body names")
            for each in ("acquire", "renew", "release")
        ),
    ),
    ("/v1/var/{path:path}", "DELETE"): (_CAS,),
    ("/v1/volumes", "GET"): (*_LIST, *_VOLUMES),
    ("/v1/volumes/claims", "GET"): (
        *_LIST,
        _text("job_id", "only of this job"),
        _text("task_group", "only of this group"),
        _text("volume_name", "only of volumes of this name"),
    ),
    ("/v1/volumes/external", "GET"): (_PLUGIN, *_PROVIDERS_PAGE),
    ("/v1/volumes/snapshot", "GET"): (_PLUGIN, _SECRETS, *_PROVIDERS_PAGE),
    ("/v1/volumes/snapshot", "DELETE"): (
        _PLUGIN,
        _SECRETS,
        _text("snapshot_id", "the snapshot"),
    ),
    ("/v1/volume/csi/{volume_id}/delete", "DELETE"): (_SECRETS,),
    ("/v1/volume/csi/{volume_id}", "DELETE"): (
        _flag("force", "also while allocations have claims"),
    ),
    ("/v1/volume/csi/{volume_id}/detach", "DELETE"): (_text("node", "the node, a whole id"),),
    ("/v1/plugins", "GET"): (*_LIST, _text("type", "`csi`")),
    ("/v1/namespaces", "GET"): _LIST,
    ("/v1/quotas", "GET"): _LIST,
    ("/v1/quota-usages", "GET"): _LIST,
    # -- a node's agent
    **{(path, method): (_NODE,) for path, method in _OF_A_NODE},
    ("/v1/client/allocation/{alloc_id}/stats", "GET"): (_text("task", "only of this task"),),
    ("/v1/client/fs/ls/{alloc_id}", "GET"): (_PATH,),
    ("/v1/client/fs/stat/{alloc_id}", "GET"): (_PATH,),
    ("/v1/client/fs/cat/{alloc_id}", "GET"): (_PATH,),
    ("/v1/client/fs/readat/{alloc_id}", "GET"): (_PATH, _OFFSET, _LIMIT),
    ("/v1/client/fs/stream/{alloc_id}", "GET"): (_PATH, _OFFSET, _ORIGIN, _FOLLOW),
    ("/v1/client/fs/logs/{alloc_id}", "GET"): (
        _text("task", "the task"),
        _text("type", "`stdout` or `stderr`"),
        _OFFSET,
        _ORIGIN,
        _FOLLOW,
        _flag("plain", "the text itself, not frames with it"),
    ),
    # -- this server and the cluster
    ("/v1/metrics", "GET"): (_text("format", "`prometheus`; else Nomad's JSON"),),
    ("/v1/agent/health", "GET"): (_text("type", "`server` or `client`; else both"),),
    ("/v1/agent/join", "PUT"): (_text("address", "a server's address; may be repeated"),),
    ("/v1/agent/servers", "PUT"): (_text("address", "a server's address; may be repeated"),),
    ("/v1/agent/force-leave", "PUT"): (_text("node", "the server's name"),),
    ("/v1/agent/host", "GET"): (_SERVER, _NODE),
    ("/v1/agent/monitor", "GET"): (
        _SERVER,
        _NODE,
        _text("log_level", "TRACE, DEBUG, INFO, WARN or ERROR"),
        _flag("log_json", "lines as JSON objects"),
        _flag("log_include_location", "each line names its place in the code"),
        _flag("plain", "lines as text, not in frames"),
    ),
    ("/v1/agent/monitor/export", "GET"): (
        _text("service_name", "refused: what keeps the log exports it"),
        _flag("on_disk", "refused: what keeps the log exports it"),
    ),
    ("/v1/agent/pprof/{profile}", "GET"): (
        _SERVER,
        _NODE,
        _number("seconds", "how long to look, 1 to 30"),
    ),
    ("/v1/operator/scheduler/configuration", "PUT"): (_CAS,),
    ("/v1/operator/autopilot/configuration", "PUT"): (_CAS,),
    ("/v1/operator/raft/peer", "DELETE"): _PEER,
    ("/v1/operator/raft/transfer-leadership", "PUT"): _PEER,
    ("/v1/operator/snapshot", "GET"): (_flag("git", "with the git repositories"),),
    ("/v1/operator/snapshot", "PUT"): (_flag("force", "also the snapshot of another cluster"),),
    ("/v1/operator/keyring/rotate", "PUT"): (
        _flag("full", "seals with the new key what the old ones sealed"),
        _number("publish_time", "0: a new key is in use at once, and another time is refused"),
    ),
    ("/v1/operator/keyring/key/{key_id}", "DELETE"): (
        _flag("force", "also while tokens that it signed are in use"),
    ),
    # -- tokens and policies
    ("/v1/acl/tokens", "GET"): _LIST,
    ("/v1/acl/policies", "GET"): (_PREFIX,),
    ("/v1/acl/roles", "GET"): _LIST,
    # -- gitops
    ("/v1/event/stream", "GET"): (_text("topic", "`TOPIC`, `TOPIC:KEY` or `*`; may be repeated"),),
    ("/v1/gitops/sources", "GET"): _PAGE,
    ("/v1/gitops/source/{name}", "DELETE"): (_flag("stop", "stops the source's jobs"),),
    ("/v1/gitops/source/{name}/sync", "PUT"): (
        _text("wait", "answers when the check is done, at the latest after this; at most 10m"),
    ),
    ("/v1/gitops/source/{name}/held", "GET"): (
        _flag("all", "also versions that the source does not want now"),
    ),
    ("/v1/gitops/drift", "GET"): (*_PAGE, _SOURCE),
    ("/v1/gitops/drift/patch", "GET"): (_SOURCE,),
    ("/v1/gitops/rollouts", "GET"): (
        *_PAGE,
        _SOURCE,
        _text("commit", "only of commits whose id begins so"),
        _text("status", "only of this status"),
    ),
    ("/v1/gitops/authors", "GET"): _PAGE,
    ("/v1/gitops/blame/{id:path}", "GET"): (
        _text("type", "what the id names, where several things have it"),
        _text("group", "a group of the job"),
    ),
}
"""By path as in its endpoint, and method."""
