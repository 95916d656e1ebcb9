"""Every kind of log entry, as one tagged union of structs.

A command carries everything its effect depends on: ids, times and seeds are made by the proposer,
so that applying it is deterministic (invariant 2). `now_ns` is the proposer's wall clock. Fields
named `expected_...` are compare-and-set conditions: when one does not hold, the entry changes
nothing and its proposer gets a ConflictError.
"""

from __future__ import annotations

import msgspec

from orchgit.model.acl import (
    AclAuthMethod,
    AclBindingRule,
    AclPolicy,
    AclRole,
    AclToken,
    OneTimeToken,
)
from orchgit.model.allocation import DesiredTransition, NetworkStatus, TaskState
from orchgit.model.author import Author
from orchgit.model.base import Model
from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.drift import JobDrift
from orchgit.model.evaluation import Evaluation
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import ChangedBy, Job, JobSubmission
from orchgit.model.node import DrainStrategy, Namespace, Node, NodeEvent, NodePool
from orchgit.model.operator import AutopilotConfig, SchedulerConfig
from orchgit.model.plan import PlanResult
from orchgit.model.quota import QuotaSpec
from orchgit.model.rollout import Rollout
from orchgit.model.scaling import ScalingEvent
from orchgit.model.server import ServerRecord
from orchgit.model.source import AppliedJob, Source, SourceStatus
from orchgit.model.source_health import SourceHealthChange
from orchgit.model.variable import RootKey, StoredVariable, VariableLock
from orchgit.model.volume import HostVolume


class Entry(Model, tag_field="Kind"):
    """Base of all commands."""

    now_ns: int = 0


class Noop(Entry, tag="noop", kw_only=True):
    """What a new leader commits first."""


class AuthoredEntry(Entry, tag="authored", kw_only=True):
    """Another entry, whose author is recorded with what it changes."""

    author: Author
    entry: bytes
    """As `encode` makes it; never an authored one itself."""


class SetClusterId(Entry, tag="set-cluster-id", kw_only=True):
    """Proposed by the first leader; a cluster that has an id keeps it."""

    cluster_id: str


class JobUpsert(Model):
    """`expected_modify_index`: None: unconditional; 0: must be new; else its JobModifyIndex."""

    job: Job
    submission: JobSubmission | None = None
    expected_modify_index: int | None = None


class JobDeletion(Model):
    namespace: str
    job_id: str
    purge: bool = False
    expected_modify_index: int | None = None


class RegisterJob(Entry, tag="register-job", kw_only=True):
    """One job registered over the API. Unchanged specs create no new version."""

    upsert: JobUpsert
    evaluation: Evaluation | None = None


class DeregisterJob(Entry, tag="deregister-job", kw_only=True):
    deletion: JobDeletion
    evaluation: Evaluation | None = None


class ChangeJob(Entry, tag="change-job", kw_only=True):
    """As `RegisterJob`, of a job that a source owns; the job's origin says who did it."""

    upsert: JobUpsert
    changed_by: ChangedBy
    evaluation: Evaluation | None = None


class StopJob(Entry, tag="stop-job", kw_only=True):
    """As `DeregisterJob`, of a job that a source owns; the job's origin, or, of a purged job, its
    drift says who did it."""

    deletion: JobDeletion
    changed_by: ChangedBy
    evaluation: Evaluation | None = None


class DriftNote(Model):
    namespace: str
    job_id: str
    note: str = ""


class RecordDrift(Entry, tag="record-drift", kw_only=True):
    """Store which jobs have drifted and, in `clear` (namespace, job id), which no longer have.

    `notes` are set on jobs that still are recorded as drifted. Jobs of sources that were removed
    meanwhile are passed over, and so are jobs whose drift was written after the state at `as_of`,
    from which the entry was computed.
    """

    as_of: int = 0
    put: list[JobDrift] = []
    clear: list[tuple[str, str]] = []
    notes: list[DriftNote] = []


class RecordSourceHealth(Entry, tag="record-source-health", kw_only=True):
    """Store the health of sources that got another one. Sources that were removed meanwhile are
    passed over; when each got its health, and what it had before, is set here."""

    changes: list[SourceHealthChange]


class RefMove(Model):
    """A ref of a built-in repository moves from `old` to `new`; "" stands for "is not there"."""

    ref: str
    old: str = ""
    new: str = ""


class ApplyRollout(Entry, tag="apply-rollout", kw_only=True):
    """One commit of one source, whole or not at all (invariant 9).

    Moves the source's applied commit and its branch, upserts and stops jobs, stores evaluations and
    the rollout. Upserts are applied before deletions.
    """

    rollout: Rollout
    expected_commit: str = ""
    """The source's applied commit the rollout was computed from; empty = none yet."""
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []


class ApplyCommit(Entry, tag="apply-commit", kw_only=True):
    """`ApplyRollout`, which also remembers what was applied of the jobs that run once.

    `forget` are (namespace, job id) of those that the commit no longer has.
    """

    rollout: Rollout
    expected_commit: str = ""
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []
    remember: list[AppliedJob] = []
    forget: list[tuple[str, str]] = []


class ApplyStage(Entry, tag="apply-stage", kw_only=True):
    """One stage of a commit, whole or not at all (invariant 9); most commits have one stage.

    As `ApplyCommit`, with every field that a rollout has since version 4. `hold` and `unhold`
    change the held versions; `renew` are (namespace, job id) of jobs that get a new version though
    they are registered with the same spec. `expected_rollout_index`, if not 0, is the modify index
    of the rollout as it is recorded: it waited at its gates, or this is a later stage of it. When
    the applied commit moves, other rollouts of the source that wait at their gates are superseded.
    """

    rollout: Rollout
    expected_commit: str = ""
    expected_rollout_index: int = 0
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []
    remember: list[AppliedJob] = []
    forget: list[tuple[str, str]] = []
    hold: list[HeldVersion] = []
    unhold: list[tuple[str, str]] = []
    renew: list[tuple[str, str]] = []


class RecordGates(Entry, tag="record-gates", kw_only=True):
    """Record a rollout that waits at its gates, or that was rejected there.

    `expected_modify_index` is that of the rollout's record, 0 for a new one, and `expected_commit`
    the source's applied commit. Other rollouts of the source that wait are superseded, and the
    source does not apply the commit of a rejected one by itself.
    """

    rollout: Rollout
    expected_modify_index: int = 0
    expected_commit: str = ""
    ref_moves: list[RefMove] = []


class RecordProgress(Entry, tag="record-progress", kw_only=True):
    """As `RecordRollout`, with every field that a rollout has since version 4, and only if the
    rollout is recorded with modify index `expected_modify_index`, where that is not 0.

    `hold` are versions that this rollout applied and that failed. One of a job that a later rollout
    of the source changed is left out.
    """

    rollout: Rollout
    hold: list[HeldVersion] = []
    expected_modify_index: int = 0


class MoveRefs(Entry, tag="move-refs", kw_only=True):
    """Move refs of a built-in repository, all of them or, if one is not at its `old`, none."""

    source: str
    moves: list[RefMove]


class RecordRollout(Entry, tag="record-rollout", kw_only=True):
    """Store a rollout's new state (progress, or a refused commit) without touching any job."""

    rollout: Rollout


class UpsertSource(Entry, tag="upsert-source", kw_only=True):
    """Create or change a source's settings; its status is kept."""

    source: Source


class StoreSource(Entry, tag="store-source", kw_only=True):
    """Create a source (`expected_modify_index` 0), or change the settings of the one that was read
    with that modify index; its kind does not change, and its status is kept."""

    source: Source
    expected_modify_index: int


class RemoveSource(Entry, tag="remove-source", kw_only=True):
    """Its jobs have no source then. `deletions` are jobs to stop, with their evaluations; what was
    remembered of the source's jobs is forgotten with `stop`."""

    name: str
    stop: bool = False
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []


class RenameSource(Entry, tag="rename-source", kw_only=True):
    """The source, its jobs, their records and its history get another name of the source; nothing
    else changes. `released` are (namespace, job id) of the jobs that were released from it."""

    name: str
    new_name: str
    released: list[tuple[str, str]] = []


class SetJobOwner(Entry, tag="set-job-owner", kw_only=True):
    """Release a job from `expected_source` (`source` empty), or give it back to `source`. Makes no
    version of the job."""

    namespace: str
    job_id: str
    source: str = ""
    released_from: str = ""
    expected_source: str = ""


class PutSource(Entry, tag="put-source", kw_only=True):
    """As `StoreSource`, with every setting that a source has since version 4 of the log's language.
    `expected_modify_index` None: unconditional, for a source of the configuration."""

    source: Source
    expected_modify_index: int | None = None


class DefineSource(Entry, tag="define-source", kw_only=True):
    """As `PutSource`, with every setting that a source has since version 5."""

    source: Source
    expected_modify_index: int | None = None


class SetSourceStatus(Entry, tag="set-source-status", kw_only=True):
    """As `UpdateSourceStatus`, with every field that a status has since version 4."""

    name: str
    status: SourceStatus


class UpdateSourceStatus(Entry, tag="update-source-status", kw_only=True):
    """Record what the reconciler saw; never moves `applied_commit` (ApplyRollout does)."""

    name: str
    status: SourceStatus


class DeleteSource(Entry, tag="delete-source", kw_only=True):
    name: str


class DeleteRollouts(Entry, tag="delete-rollouts", kw_only=True):
    ids: list[str]


class SetJobStability(Entry, tag="set-job-stability", kw_only=True):
    namespace: str
    job_id: str
    version: int
    stable: bool


class SetJobVersionTag(Entry, tag="set-job-version-tag", kw_only=True):
    """Gives a version a tag; a version of another number with this tag is a refusal.

    `version` None is the current one.
    """

    namespace: str
    job_id: str
    version: int | None
    name: str
    description: str = ""


class DeleteJobVersionTag(Entry, tag="delete-job-version-tag", kw_only=True):
    namespace: str
    job_id: str
    name: str


class RecordScalingEvent(Entry, tag="record-scaling-event", kw_only=True):
    namespace: str
    job_id: str
    group: str
    event: ScalingEvent


class UpsertEvaluations(Entry, tag="upsert-evaluations", kw_only=True):
    evaluations: list[Evaluation]


class DeleteEvaluations(Entry, tag="delete-evaluations", kw_only=True):
    """Garbage collection of evaluations and allocations."""

    eval_ids: list[str] = []
    alloc_ids: list[str] = []


class ApplyPlan(Entry, tag="apply-plan", kw_only=True):
    """The committed part of a plan, plus evaluations it causes (preempted jobs)."""

    namespace: str
    job_id: str
    job_version: int
    eval_id: str
    result: PlanResult
    evaluations: list[Evaluation] = []
    job_create_index: int = 0
    """Of the job that was planned for. 0: not told (entries of older versions)."""


class ApplyPlanResult(ApplyPlan, tag="apply-plan-result", kw_only=True):
    """As ApplyPlan, but only an update to a job version makes the allocation one of the plan's
    evaluation; one that notes a follow-up evaluation, a disconnect or a reconnect leaves it."""

    def earlier_form(self) -> ApplyPlan:
        """Returns the entry that servers of version 5 understand."""
        return ApplyPlan(**{name: getattr(self, name) for name in ApplyPlan.__struct_fields__})


class RegisterNode(Entry, tag="register-node", kw_only=True):
    """Store what an agent found; never sets the status of a known node (invariant 5)."""

    node: Node


class UpdateNodeStatus(Entry, tag="update-node-status", kw_only=True):
    """`missed_heartbeat` also stamps the node's last missed heartbeat index."""

    node_id: str
    status: str
    description: str = ""
    missed_heartbeat: bool = False
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class UpdateNodeDrain(Entry, tag="update-node-drain", kw_only=True):
    node_id: str
    drain: DrainStrategy | None = None
    mark_eligible: bool = False
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class SetNodeDrain(Entry, tag="set-node-drain", kw_only=True):
    """Begin, change or (with `drain` None) end a drain. `completed`: all that was to leave has.

    `meta` is what the operator says about it; a drain's end without any keeps that of its start.
    """

    node_id: str
    drain: DrainStrategy | None = None
    mark_eligible: bool = False
    completed: bool = False
    meta: dict[str, str] | None = None
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class UpdateNodeEligibility(Entry, tag="update-node-eligibility", kw_only=True):
    node_id: str
    eligibility: str
    evaluations: list[Evaluation] = []
    event: NodeEvent | None = None


class DeleteNodes(Entry, tag="delete-nodes", kw_only=True):
    node_ids: list[str]
    evaluations: list[Evaluation] = []


class AllocClientUpdate(Model):
    """What an agent reports of one allocation."""

    alloc_id: str
    client_status: str
    client_description: str = ""
    task_states: dict[str, TaskState] | None = None
    deployment_healthy: bool | None = None
    deployment_healthy_at_ns: int = 0
    network_status: NetworkStatus | None = None


class UpdateAllocsFromClient(Entry, tag="update-allocs-from-client", kw_only=True):
    """Stamps the node's last allocation update index (invariant 5), even with no updates."""

    node_id: str
    updates: list[AllocClientUpdate] = []
    evaluations: list[Evaluation] = []


class UpdateAllocTransitions(Entry, tag="update-alloc-transitions", kw_only=True):
    transitions: dict[str, DesiredTransition]
    evaluations: list[Evaluation] = []


class UpdateDeploymentStatus(Entry, tag="update-deployment-status", kw_only=True):
    """`job` is the version to run again, for an automatic revert."""

    update: DeploymentStatusUpdate
    job: Job | None = None
    evaluation: Evaluation | None = None


class ResumeDeployment(Entry, tag="resume-deployment", kw_only=True):
    """A paused deployment goes on; its progress deadlines begin anew."""

    deployment_id: str
    evaluation: Evaluation | None = None


class FailDeployment(Entry, tag="fail-deployment", kw_only=True):
    """`job` is the version to run again, unless the job is not at `expected_modify_index` any more:
    then nothing happens at all."""

    update: DeploymentStatusUpdate
    job: Job | None = None
    expected_modify_index: int | None = None
    evaluation: Evaluation | None = None


class PromoteDeployment(Entry, tag="promote-deployment", kw_only=True):
    """`groups` empty: all of them."""

    deployment_id: str
    groups: list[str] = []
    evaluation: Evaluation | None = None


class SetDeploymentHealth(Entry, tag="set-deployment-health", kw_only=True):
    """Health judged by a person or by the watcher; may end the deployment in the same entry."""

    deployment_id: str
    healthy_alloc_ids: list[str] = []
    unhealthy_alloc_ids: list[str] = []
    update: DeploymentStatusUpdate | None = None
    job: Job | None = None
    evaluation: Evaluation | None = None


class DeleteDeployments(Entry, tag="delete-deployments", kw_only=True):
    ids: list[str]


class RecordPeriodicLaunch(Entry, tag="record-periodic-launch", kw_only=True):
    namespace: str
    job_id: str
    launch_time_ns: int


class SetSchedulerConfig(Entry, tag="set-scheduler-config", kw_only=True):
    config: SchedulerConfig
    expected_modify_index: int | None = None


class UpsertNodePools(Entry, tag="upsert-node-pools", kw_only=True):
    pools: list[NodePool]


class DeleteNodePools(Entry, tag="delete-node-pools", kw_only=True):
    names: list[str]


class UpsertNamespaces(Entry, tag="upsert-namespaces", kw_only=True):
    namespaces: list[Namespace]


class DeleteNamespaces(Entry, tag="delete-namespaces", kw_only=True):
    names: list[str]


class PutQuotas(Entry, tag="put-quotas", kw_only=True):
    quotas: list[QuotaSpec]


class DeleteQuotas(Entry, tag="delete-quotas", kw_only=True):
    """Fails if there is no such quota, or a namespace names it."""

    names: list[str]


class UpsertHostVolume(Entry, tag="upsert-host-volume", kw_only=True):
    volume: HostVolume


class SetHostVolumeStates(Entry, tag="set-host-volume-states", kw_only=True):
    """Volume id -> its state, as the leader finds it. Of one that is deleted: nothing."""

    states: dict[str, str]


class DeleteHostVolume(Entry, tag="delete-host-volume", kw_only=True):
    namespace: str
    volume_id: str


class PutCsiVolume(Entry, tag="put-csi-volume", kw_only=True):
    """A volume as it is registered; claims on a known one stay."""

    volume: CsiVolume


class DeleteCsiVolume(Entry, tag="delete-csi-volume", kw_only=True):
    """`force`: also while allocations claim it."""

    namespace: str = "default"
    volume_id: str = ""
    force: bool = False


class ClaimCsiVolume(Entry, tag="claim-csi-volume", kw_only=True):
    """A claim of an allocation, new or with what publishing gave."""

    namespace: str = "default"
    volume_id: str = ""
    claim: CsiClaim


class ReleaseCsiClaim(Entry, tag="release-csi-claim", kw_only=True):
    namespace: str = "default"
    volume_id: str = ""
    alloc_id: str = ""


class DeleteVolumeClaim(Entry, tag="delete-volume-claim", kw_only=True):
    """Un-stick a group from its volume by hand; the workload keeps running."""

    claim_id: str


class UpsertVariable(Entry, tag="upsert-variable", kw_only=True):
    """Of `variable`: where it is and its sealed items; a lock on it stays.

    Refused (VariableConflictError) unless `lock_id` is that of the lock held, empty if none is.
    """

    variable: StoredVariable
    expected_modify_index: int | None = None
    lock_id: str = ""


class DeleteVariable(Entry, tag="delete-variable", kw_only=True):
    """Deleting what is not there is no error; what is locked has to be released first."""

    namespace: str
    path: str
    expected_modify_index: int | None = None


class AcquireVariableLock(Entry, tag="acquire-variable-lock", kw_only=True):
    """Lock a variable, created if there is none.

    `keep_items`: a variable that is there keeps its items.
    """

    variable: StoredVariable
    lock: VariableLock
    keep_items: bool = False


class RenewVariableLock(Entry, tag="renew-variable-lock", kw_only=True):
    """In the log, so that a leader that was deposed meanwhile cannot confirm it."""

    namespace: str
    path: str
    lock_id: str


class ReleaseVariableLock(Entry, tag="release-variable-lock", kw_only=True):
    """`unrenewed_since`: the leader ends a lock that was not renewed after this index."""

    namespace: str
    path: str
    lock_id: str
    unrenewed_since: int | None = None


class ResealVariables(Entry, tag="reseal-variables", kw_only=True):
    """The same items under another root key; those changed meanwhile are left alone."""

    variables: list[StoredVariable]


class PutRootKey(Entry, tag="put-root-key", kw_only=True):
    """The key becomes the active one. `only_first`: a cluster that has one keeps it."""

    key: RootKey
    only_first: bool = False


class DeleteRootKey(Entry, tag="delete-root-key", kw_only=True):
    key_id: str


class PutServer(Entry, tag="put-server", kw_only=True):
    """A server's own record, or that of one which joins. Refused with another cluster key."""

    server: ServerRecord


class DeleteServer(Entry, tag="delete-server", kw_only=True):
    """Deleting what is not there is no error."""

    address: str


class SetClusterKeyCheck(Entry, tag="set-cluster-key-check", kw_only=True):
    """Proposed by the leader; a cluster that has one keeps it."""

    check: str


class SetServerStatus(Entry, tag="set-server-status", kw_only=True):
    """The leader hears of a server again, or no more. Of one without a record: nothing."""

    address: str
    status: str


class SetAutopilotConfig(Entry, tag="set-autopilot-config", kw_only=True):
    config: AutopilotConfig
    expected_modify_index: int | None = None


class BeginRestore(Entry, tag="begin-restore", kw_only=True):
    """A snapshot will be sent in; another one that was begun is forgotten."""

    restore_id: str


class AddRestoreChunk(Entry, tag="add-restore-chunk", kw_only=True):
    """The next piece of the archive."""

    restore_id: str
    seq: int
    data: bytes


class CommitRestore(Entry, tag="commit-restore", kw_only=True):
    """The archive is complete: it takes the place of the state, if it is whole."""

    restore_id: str
    sha256: str


class AbortRestore(Entry, tag="abort-restore", kw_only=True):
    restore_id: str


class BootstrapAcl(Entry, tag="bootstrap-acl", kw_only=True):
    """The first management token. A later one needs `reset_index`, the index of the last."""

    token: AclToken
    reset_index: int = 0


class CreateAclToken(Entry, tag="create-acl-token", kw_only=True):
    token: AclToken


class ChangeAclToken(Entry, tag="change-acl-token", kw_only=True):
    """Stores name, type, policies and roles of a known token; the rest of the token stays."""

    token: AclToken


class DeleteAclTokens(Entry, tag="delete-acl-tokens", kw_only=True):
    """Deletes none where one is unknown, unless `missing_ok`."""

    accessor_ids: list[str]
    missing_ok: bool = False


class PutAclPolicies(Entry, tag="put-acl-policies", kw_only=True):
    policies: list[AclPolicy]


class DeleteAclPolicies(Entry, tag="delete-acl-policies", kw_only=True):
    """Unknown names are passed over."""

    names: list[str]


class PutAclRole(Entry, tag="put-acl-role", kw_only=True):
    role: AclRole


class DeleteAclRoles(Entry, tag="delete-acl-roles", kw_only=True):
    role_ids: list[str]


class PutAclAuthMethod(Entry, tag="put-acl-auth-method", kw_only=True):
    """`expected_modify_index` is that of the method whose unset fields were taken over; 0: new."""

    method: AclAuthMethod
    expected_modify_index: int


class DeleteAclAuthMethods(Entry, tag="delete-acl-auth-methods", kw_only=True):
    """Binding rules of deleted methods stay."""

    names: list[str]


class PutAclBindingRule(Entry, tag="put-acl-binding-rule", kw_only=True):
    rule: AclBindingRule


class DeleteAclBindingRules(Entry, tag="delete-acl-binding-rules", kw_only=True):
    rule_ids: list[str]


class PutOneTimeToken(Entry, tag="put-one-time-token", kw_only=True):
    token: OneTimeToken


class UseOneTimeToken(Entry, tag="use-one-time-token", kw_only=True):
    """Deletes it, and answers with the token for which it stands."""

    secret_hash: str


class DeleteOneTimeTokens(Entry, tag="delete-one-time-tokens", kw_only=True):
    secret_hashes: list[str]


class ResealAclSecrets(Entry, tag="reseal-acl-secrets", kw_only=True):
    """The same secrets under another root key; nothing of what has changed since it was read."""

    tokens: list[AclToken]
    methods: list[AclAuthMethod]


Command = (
    Noop
    | AuthoredEntry
    | SetClusterId
    | RegisterJob
    | DeregisterJob
    | ApplyRollout
    | ApplyCommit
    | MoveRefs
    | RecordRollout
    | UpsertSource
    | StoreSource
    | PutSource
    | DefineSource
    | SetSourceStatus
    | ApplyStage
    | RecordProgress
    | RecordGates
    | ChangeJob
    | StopJob
    | RecordDrift
    | RecordSourceHealth
    | RemoveSource
    | RenameSource
    | SetJobOwner
    | UpdateSourceStatus
    | DeleteSource
    | DeleteRollouts
    | SetJobStability
    | SetJobVersionTag
    | DeleteJobVersionTag
    | RecordScalingEvent
    | UpsertEvaluations
    | DeleteEvaluations
    | ApplyPlan
    | ApplyPlanResult
    | RegisterNode
    | UpdateNodeStatus
    | UpdateNodeDrain
    | SetNodeDrain
    | UpdateNodeEligibility
    | DeleteNodes
    | UpdateAllocsFromClient
    | UpdateAllocTransitions
    | UpdateDeploymentStatus
    | PromoteDeployment
    | ResumeDeployment
    | FailDeployment
    | SetDeploymentHealth
    | DeleteDeployments
    | RecordPeriodicLaunch
    | SetSchedulerConfig
    | UpsertNodePools
    | DeleteNodePools
    | UpsertNamespaces
    | DeleteNamespaces
    | UpsertHostVolume
    | SetHostVolumeStates
    | DeleteHostVolume
    | PutCsiVolume
    | DeleteCsiVolume
    | ClaimCsiVolume
    | ReleaseCsiClaim
    | DeleteVolumeClaim
    | UpsertVariable
    | DeleteVariable
    | AcquireVariableLock
    | RenewVariableLock
    | ReleaseVariableLock
    | ResealVariables
    | PutRootKey
    | DeleteRootKey
    | PutServer
    | DeleteServer
    | SetClusterKeyCheck
    | SetServerStatus
    | SetAutopilotConfig
    | BeginRestore
    | AddRestoreChunk
    | CommitRestore
    | AbortRestore
    | BootstrapAcl
    | CreateAclToken
    | ChangeAclToken
    | DeleteAclTokens
    | PutAclPolicies
    | DeleteAclPolicies
    | PutAclRole
    | DeleteAclRoles
    | PutAclAuthMethod
    | DeleteAclAuthMethods
    | PutAclBindingRule
    | DeleteAclBindingRules
    | PutOneTimeToken
    | UseOneTimeToken
    | DeleteOneTimeTokens
    | ResealAclSecrets
    | PutQuotas
    | DeleteQuotas
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """A command as it lies in the log."""
    return _ENCODER.encode(command)


def decode(data: bytes) -> Command:
    """Raises msgspec.DecodeError on anything that is not a command."""
    return _DECODER.decode(data)
