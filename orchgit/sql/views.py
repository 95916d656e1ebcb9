"""The tables that a question in SQL may name: their columns, and where the values come from.

No secret is among them: no variable, key, token, node secret or credential. Times are UTC text as
SQLite's date functions read it. Columns of objects and lists are JSON text: `attributes ->>
'$."kernel.version"'` reads one value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """`value` is SQL over the view's `origin`; it may call the functions of `worker.py`."""

    name: str
    type: str
    value: str
    about: str


@dataclass(frozen=True, slots=True)
class View:
    """One table. `origin` is what stands behind FROM in the state's database; `namespace` is the
    SQL of a row's namespace, '' where rows belong to none."""

    name: str
    about: str
    origin: str
    columns: tuple[Column, ...]
    namespace: str = ""

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def _text(name: str, value: str, about: str) -> Column:
    return Column(name, "TEXT", value, about)


def _integer(name: str, value: str, about: str) -> Column:
    return Column(name, "INTEGER", value, about)


def _json(name: str, value: str, about: str) -> Column:
    return Column(name, "JSON", value, about)


def _time(name: str, unix_ns: str, about: str) -> Column:
    moment = f"strftime('%Y-%m-%dT%H:%M:%fZ', {unix_ns} / 1e9, 'unixepoch')"
    value = f"CASE WHEN {unix_ns} > 0 THEN {moment} END"
    return Column(name, "TIME", value, about)


def _body(path: str, body: str = "body") -> str:
    return f"in_body({body}, '{path}')"


_JOBS = """jobs j JOIN job_versions v ON v.namespace = j.namespace AND v.id = j.id
    AND v.job_create_index = j.create_index AND v.version = j.version"""


def _job(path: str) -> str:
    return _body(path, "v.body")


VIEWS: tuple[View, ...] = (
    View(
        "jobs",
        "Registered jobs, each in its current version.",
        _JOBS,
        (
            _text("namespace", "j.namespace", "the job's namespace"),
            _text("id", "j.id", "unique within the namespace"),
            _text("name", _job("Name"), "as in the job file"),
            _integer("version", "j.version", "counts from 0"),
            _text("type", "j.type", "service, batch, system or sysbatch"),
            _text("status", "j.status", "pending, running or dead"),
            _integer("stopped", "j.stop", "1: a person or a commit stopped the job"),
            _integer("priority", "j.priority", "1 to 100"),
            _text("node_pool", "j.node_pool", "where the job may run"),
            _json("datacenters", _job("Datacenters"), "globs of datacenters"),
            _text("source", "j.source", "the source that owns the job, or ''"),
            _text("commit_id", _job("Origin.CommitID"), "the commit that registered this version"),
            _text("author", _job("Origin.Author"), "the author of that commit"),
            _text("subject", _job("Origin.Subject"), "the subject of that commit"),
            _text("file", _job("Origin.File"), "the job's file in the repository"),
            _integer("line", _job("Origin.Line"), "where the job begins in its file"),
            _text(
                "rollout_id", _job("Origin.RolloutID"), "the rollout that registered the version"
            ),
            _text("parent_id", "j.parent_id", "the job that launched this one, or ''"),
            _integer("periodic", "j.periodic", "1: launches others by a schedule"),
            _integer("parameterized", "j.parameterized", "1: launches others when dispatched"),
            _json("meta", _job("Meta"), "the job's meta block"),
            _time("submit_time", _job("SubmitTime"), "when this version was registered"),
            _integer("create_index", "j.create_index", "the log index that created the job"),
            _integer("modify_index", "j.modify_index", "the log index that changed it last"),
        ),
        "j.namespace",
    ),
    View(
        "task_groups",
        "Task groups of registered jobs.",
        f"{_JOBS} JOIN json_each(in_body(v.body, 'TaskGroups')) g",
        (
            _text("namespace", "j.namespace", "the job's namespace"),
            _text("job_id", "j.id", "the job"),
            _text("name", "g.value ->> '$.Name'", "unique within the job"),
            _integer("count", "g.value ->> '$.Count'", "how many allocations are wanted"),
            _json("tasks", "each_of(g.value -> '$.Tasks', 'Name')", "names of the group's tasks"),
            _json(
                "drivers", "each_of(g.value -> '$.Tasks', 'Driver')", "drivers of the group's tasks"
            ),
        ),
        "j.namespace",
    ),
    View(
        "allocations",
        "Allocations that are still stored, ended ones included.",
        """allocations a LEFT JOIN rollouts r ON r.id = a.rollout_id
            LEFT JOIN alloc_shared s ON s.id = a.shared""",
        (
            _text("id", "a.id", "unique in the cluster"),
            _text(
                "name",
                "a.job_id || '.' || a.task_group || '[' || a.name_index || ']'",
                "job.group[n]",
            ),
            _text("namespace", "a.namespace", "the job's namespace"),
            _text("job_id", "a.job_id", "the job"),
            _integer("job_version", "a.job_version", "the version that runs"),
            _text("job_type", "a.job_type", "service, batch, system or sysbatch"),
            _text("task_group", "a.task_group", "the group"),
            _text("node_id", "a.node_id", "where it runs"),
            _text("node_name", "a.node_name", "the name of that node"),
            _text("eval_id", "a.eval_id", "the evaluation that placed it"),
            _text("deployment_id", "a.deployment_id", "the deployment it counts for, or ''"),
            _text("source", "coalesce(r.source, '')", "the source whose commit placed it, or ''"),
            _text("commit_id", "a.commit_id", "the commit that placed it, or ''"),
            _text("rollout_id", "a.rollout_id", "the rollout that placed it, or ''"),
            _text("desired_status", "a.desired_status", "run, stop or evict"),
            _text("client_status", "a.client_status", "pending, running, complete, failed, ..."),
            _text("description", _body("client_description", "a.body"), "why it has that status"),
            _json("task_states", _body("task_states", "a.body"), "state and events of each task"),
            _integer("cpu_mhz", "a.cpu_shares", "reserved"),
            _integer("memory_mb", "a.memory_mb", "reserved"),
            _integer("disk_mb", "a.disk_mb", "reserved"),
            _text("previous_id", _body("previous_allocation", "a.body"), "what it replaces"),
            _text("next_id", _body("next_allocation", "a.body"), "what replaces it"),
            _time("create_time", "a.create_time_ns", "when it was placed"),
            _time("modify_time", "a.modify_time_ns", "when it changed last"),
            _integer("create_index", "a.create_index", "the log index that placed it"),
            _integer("modify_index", "a.modify_index", "the log index that changed it last"),
        ),
        "a.namespace",
    ),
    View(
        "nodes",
        "Nodes that are registered.",
        "nodes n",
        (
            _text("id", "n.id", "unique in the cluster"),
            _text("name", "n.name", "the host's name"),
            _text("datacenter", "n.datacenter", "the node's datacenter"),
            _text("node_pool", "n.node_pool", "the node's pool"),
            _text("node_class", "n.node_class", "the node's class, or ''"),
            _text("status", "n.status", "initializing, ready, down or disconnected"),
            _text("eligibility", "n.scheduling_eligibility", "eligible or ineligible"),
            _integer("draining", "n.drain", "1: its allocations move away"),
            _text("address", _body("HTTPAddr", "n.body"), "host:port of the agent's HTTP"),
            _json("attributes", _body("Attributes", "n.body"), "what the agent found"),
            _json("meta", _body("Meta", "n.body"), "meta of the agent's configuration"),
            _json("drivers", _body("Drivers", "n.body"), "drivers and their health"),
            _integer("cpu_mhz", _body("NodeResources.Cpu.CpuShares", "n.body"), "in total"),
            _integer("memory_mb", _body("NodeResources.Memory.MemoryMB", "n.body"), "in total"),
            _integer("disk_mb", _body("NodeResources.Disk.DiskMB", "n.body"), "in total"),
            _integer("create_index", "n.create_index", "the log index that created it"),
            _integer("modify_index", "n.modify_index", "the log index that changed it last"),
        ),
    ),
    View(
        "evaluations",
        "Evaluations that are still stored.",
        "evaluations e",
        (
            _text("id", "e.id", "unique in the cluster"),
            _text("namespace", "e.namespace", "the job's namespace"),
            _text("job_id", "e.job_id", "the job"),
            _text("status", "e.status", "pending, complete, failed, blocked or canceled"),
            _text("description", _body("StatusDescription", "e.body"), "why it has that status"),
            _text("type", "e.type", "which scheduler decides it"),
            _text("triggered_by", _body("TriggeredBy", "e.body"), "what caused it"),
            _integer("priority", _body("Priority", "e.body"), "1 to 100"),
            _text("node_id", _body("NodeID", "e.body"), "the node that caused it, or ''"),
            _text("deployment_id", _body("DeploymentID", "e.body"), "its deployment, or ''"),
            _text("rollout_id", _body("RolloutID", "e.body"), "the rollout that caused it, or ''"),
            _text("blocked_id", _body("BlockedEval", "e.body"), "what waits for room, or ''"),
            _json("failed_groups", _body("FailedTGAllocs", "e.body"), "groups without a place"),
            _time("create_time", _body("CreateTime", "e.body"), "when it was made"),
            _time("modify_time", _body("ModifyTime", "e.body"), "when it changed last"),
            _integer("create_index", "e.create_index", "the log index that created it"),
            _integer("modify_index", "e.modify_index", "the log index that changed it last"),
        ),
        "e.namespace",
    ),
    View(
        "deployments",
        "Deployments that are still stored.",
        "deployments d",
        (
            _text("id", "d.id", "unique in the cluster"),
            _text("namespace", "d.namespace", "the job's namespace"),
            _text("job_id", "d.job_id", "the job"),
            _integer("job_version", "d.job_version", "the version that it rolls out"),
            _text("status", "d.status", "running, paused, successful, failed, cancelled, ..."),
            _text("description", _body("StatusDescription", "d.body"), "why it has that status"),
            _json("task_groups", _body("TaskGroups", "d.body"), "counts of each group"),
            _text("commit_id", _body("CommitID", "d.body"), "the commit that caused it, or ''"),
            _text("rollout_id", _body("RolloutID", "d.body"), "the rollout that caused it, or ''"),
            _time("create_time", _body("CreateTime", "d.body"), "when it began"),
            _time("modify_time", _body("ModifyTime", "d.body"), "when it changed last"),
            _integer("create_index", "d.create_index", "the log index that created it"),
            _integer("modify_index", "d.modify_index", "the log index that changed it last"),
        ),
        "d.namespace",
    ),
    View(
        "rollouts",
        "Commits that were applied or refused, as far as they are still stored.",
        "rollouts r",
        (
            _text("id", "r.id", "unique in the cluster"),
            _text("source", "r.source", "the source"),
            _text("status", "r.status", "healthy, failed, reverted, ..."),
            _text("description", _body("StatusDescription", "r.body"), "why it has that status"),
            _text("commit_id", "r.commit_id", "the commit"),
            _text("author", _body("Commit.Author", "r.body"), "the commit's author"),
            _text("subject", _body("Commit.Subject", "r.body"), "the commit's subject"),
            _text("previous_commit", _body("PreviousCommit", "r.body"), "what was applied before"),
            _text("trigger", _body("Trigger", "r.body"), "push, webhook, poll, watch, api, ..."),
            _text("pusher", _body("Pusher", "r.body"), "who pushed, as far as it is known"),
            _json("jobs", _body("Jobs", "r.body"), "what it does to each job, and the result"),
            _json("problems", _body("Problems", "r.body"), "why it was refused"),
            _time("create_time", _body("CreateTime", "r.body"), "when it was recorded"),
            _time("applied_time", _body("AppliedTime", "r.body"), "when it was applied"),
            _time("finished_time", _body("FinishedTime", "r.body"), "when it ended"),
            _integer("create_index", "r.create_index", "the log index that recorded it"),
            _integer("modify_index", "r.modify_index", "the log index that changed it last"),
        ),
        "(SELECT in_body(x.body, 'Namespace') FROM sources x WHERE x.name = r.source)",
    ),
    View(
        "sources",
        "Repositories that the cluster follows.",
        "sources s",
        (
            _text("name", "s.name", "unique in the cluster"),
            _text("kind", _body("Kind", "s.body"), "builtin, remote or local"),
            _text("url", f"without_login({_body('URL', 's.body')})", "'' for a built-in one"),
            _text("ref", _body("Ref", "s.body"), "what is followed"),
            _text("namespace", _body("Namespace", "s.body"), "the namespace of its jobs"),
            _integer("paused", _body("Paused", "s.body"), "1: its commits are not applied"),
            _text("applied_commit", _body("Status.AppliedCommit", "s.body"), "what runs"),
            _text("applied_rollout", _body("Status.AppliedRollout", "s.body"), "that rollout"),
            _text("seen_commit", _body("Status.SeenCommit", "s.body"), "the newest that was tried"),
            _text("last_error", _body("Status.LastError", "s.body"), "'' if there is none"),
            _integer("create_index", "s.create_index", "the log index that created it"),
            _integer("modify_index", "s.modify_index", "the log index that changed it last"),
        ),
        _body("Namespace", "s.body"),
    ),
    View(
        "services",
        "Services of running allocations (provider nomad).",
        "services v",
        (
            _text("id", "v.id", "unique in the cluster"),
            _text("namespace", "v.namespace", "the job's namespace"),
            _text("name", "v.name", "the service"),
            _text("job_id", "v.job_id", "the job"),
            _text("alloc_id", "v.alloc_id", "the allocation"),
            _text("node_id", "v.node_id", "where it runs"),
            _text("datacenter", "v.datacenter", "where it runs"),
            _text("address", "v.address", "its address"),
            _integer("port", "v.port", "its port"),
            _json("tags", "v.tags", "its tags"),
        ),
        "v.namespace",
    ),
)

BY_NAME = {view.name: view for view in VIEWS}
