"""The tables, as an ordered list of migrations; `PRAGMA user_version` counts those applied.

Columns are what is queried, sorted or overridden; the rest of a struct lies in its msgpack `body`.
A migration, once released, never changes: add the next one. SQL makes tables and columns; what SQL
cannot say in a few lines is a function over `sqlite_utils.Database` (`Database.table(...)` has
`transform`, `convert`, `extract`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sqlite_utils import Database

Migration: TypeAlias = "str | Callable[[Database], object]"

_FIRST = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE table_indexes (name TEXT PRIMARY KEY, idx INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE jobs (
    namespace TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, type TEXT NOT NULL,
    status TEXT NOT NULL, priority INTEGER NOT NULL, parent_id TEXT NOT NULL,
    source TEXT NOT NULL, periodic INTEGER NOT NULL, parameterized INTEGER NOT NULL,
    stop INTEGER NOT NULL, node_pool TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    job_modify_index INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)) WITHOUT ROWID;
CREATE INDEX jobs_by_parent ON jobs (namespace, parent_id, status) WHERE parent_id != '';
CREATE INDEX jobs_by_source ON jobs (source) WHERE source != '';
CREATE INDEX jobs_periodic ON jobs (periodic) WHERE periodic = 1;

CREATE TABLE job_versions (
    namespace TEXT NOT NULL, id TEXT NOT NULL, job_create_index INTEGER NOT NULL,
    version INTEGER NOT NULL, retired INTEGER NOT NULL DEFAULT 0, stable INTEGER NOT NULL,
    tagged INTEGER NOT NULL, status TEXT NOT NULL, status_description TEXT NOT NULL,
    modify_index INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (namespace, id, job_create_index, version));
CREATE TABLE job_submissions (
    namespace TEXT NOT NULL, job_id TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (namespace, job_id, version)) WITHOUT ROWID;
CREATE TABLE job_summaries (
    namespace TEXT NOT NULL, job_id TEXT NOT NULL, task_group TEXT NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0, complete INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0,
    starting INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0,
    unknown INTEGER NOT NULL DEFAULT 0, live INTEGER NOT NULL DEFAULT 0,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    PRIMARY KEY (namespace, job_id, task_group)) WITHOUT ROWID;
CREATE TABLE periodic_launches (
    namespace TEXT NOT NULL, job_id TEXT NOT NULL, launch_time_ns INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    PRIMARY KEY (namespace, job_id)) WITHOUT ROWID;

CREATE TABLE evaluations (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, status TEXT NOT NULL,
    type TEXT NOT NULL, deployment_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX evaluations_by_job ON evaluations (namespace, job_id, status);
CREATE INDEX evaluations_by_status ON evaluations (status);

CREATE TABLE alloc_shared (
    id INTEGER PRIMARY KEY, uses INTEGER NOT NULL, resources BLOB NOT NULL, metrics BLOB);
CREATE TABLE allocations (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, namespace TEXT NOT NULL,
    job_id TEXT NOT NULL, job_version INTEGER NOT NULL, job_type TEXT NOT NULL,
    task_group TEXT NOT NULL, name_index INTEGER NOT NULL,
    node_id TEXT NOT NULL, node_name TEXT NOT NULL, eval_id TEXT NOT NULL,
    deployment_id TEXT NOT NULL, commit_id TEXT NOT NULL, rollout_id TEXT NOT NULL,
    desired_status TEXT NOT NULL, client_status TEXT NOT NULL,
    cpu_shares INTEGER NOT NULL, memory_mb INTEGER NOT NULL, memory_max_mb INTEGER NOT NULL,
    disk_mb INTEGER NOT NULL, has_devices INTEGER NOT NULL, has_cores INTEGER NOT NULL,
    ports BLOB, shared INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    alloc_modify_index INTEGER NOT NULL,
    create_time_ns INTEGER NOT NULL, modify_time_ns INTEGER NOT NULL, body BLOB);
CREATE INDEX allocations_by_job ON allocations (namespace, job_id);
CREATE INDEX allocations_by_node ON allocations (node_id);
CREATE INDEX allocations_by_eval ON allocations (eval_id);
CREATE INDEX allocations_by_deployment ON allocations (deployment_id) WHERE deployment_id != '';
CREATE INDEX allocations_by_change ON allocations (modify_index);

CREATE TABLE nodes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, datacenter TEXT NOT NULL, node_pool TEXT NOT NULL,
    node_class TEXT NOT NULL, computed_class TEXT NOT NULL, status TEXT NOT NULL,
    scheduling_eligibility TEXT NOT NULL, drain INTEGER NOT NULL,
    last_missed_heartbeat_index INTEGER NOT NULL, last_alloc_update_index INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX nodes_by_change ON nodes (modify_index);
CREATE INDEX nodes_by_pool ON nodes (node_pool);
CREATE TABLE node_pools (
    name TEXT PRIMARY KEY, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE namespaces (
    name TEXT PRIMARY KEY, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE scheduler_config (
    id INTEGER PRIMARY KEY, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);

CREATE TABLE deployments (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL,
    job_version INTEGER NOT NULL, job_create_index INTEGER NOT NULL, status TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX deployments_by_job ON deployments (namespace, job_id, create_index);
CREATE INDEX deployments_by_status ON deployments (status);

CREATE TABLE host_volumes (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, node_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX host_volumes_by_node ON host_volumes (node_id);
CREATE TABLE volume_claims (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL,
    task_group_name TEXT NOT NULL, volume_id TEXT NOT NULL, alloc_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX volume_claims_by_job ON volume_claims (namespace, job_id, task_group_name);

CREATE TABLE sources (
    name TEXT PRIMARY KEY, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE rollouts (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, status TEXT NOT NULL, commit_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX rollouts_by_source ON rollouts (source, create_index);
CREATE INDEX rollouts_by_status ON rollouts (status);
"""

_VARIABLES = """
CREATE TABLE variables (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, path TEXT NOT NULL, key_id TEXT NOT NULL,
    lock_id TEXT NOT NULL, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE INDEX variables_by_path ON variables (namespace, path);
CREATE INDEX variables_by_key ON variables (key_id);
CREATE INDEX variables_locked ON variables (lock_id) WHERE lock_id != '';
CREATE TABLE root_keys (
    key_id TEXT PRIMARY KEY, state TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_USAGE_INDEX = """
-- Only what changes a node's usage concerns the schedulers' columns; most reports do not.
ALTER TABLE allocations ADD COLUMN usage_index INTEGER NOT NULL DEFAULT 0;
UPDATE allocations SET usage_index = modify_index;
DROP INDEX allocations_by_change;
CREATE INDEX allocations_by_usage ON allocations (usage_index);
"""

_SERVERS = """
CREATE TABLE servers (
    address TEXT PRIMARY KEY, id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_RESTORING = """
-- A snapshot on its way in, piece by piece, until it takes the place of the rest.
CREATE TABLE restore_chunks (seq INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""

_GIT_REFS = """
CREATE TABLE git_refs (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, object_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX git_refs_by_source ON git_refs (source);
-- Rollouts from before lead to ancestors of the applied commit, which are kept with it.
ALTER TABLE rollouts ADD COLUMN was_applied INTEGER NOT NULL DEFAULT 0;
"""

_AUTOPILOT = """
CREATE TABLE autopilot_config (
    id INTEGER PRIMARY KEY, create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL,
    body BLOB NOT NULL);
"""

_FREED_NODES = """
-- Where allocations were deleted, and when: what no row tells any more of a node's usage.
CREATE TABLE freed_nodes (node_id TEXT PRIMARY KEY, freed_index INTEGER NOT NULL) WITHOUT ROWID;
"""

_APPLIED_JOBS = """
CREATE TABLE applied_jobs (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, source TEXT NOT NULL,
    content_id TEXT NOT NULL, spec_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX applied_jobs_by_source ON applied_jobs (source);
"""

_REPOSITORIES = """
ALTER TABLE sources ADD COLUMN repository TEXT NOT NULL DEFAULT '';
UPDATE sources SET repository = name;
CREATE INDEX sources_by_repository ON sources (repository);
"""

_DRIFTED_JOBS = """
CREATE TABLE drifted_jobs (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, source TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX drifted_jobs_by_source ON drifted_jobs (source);
"""

_HELD_VERSIONS = """
CREATE TABLE held_versions (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL, source TEXT NOT NULL,
    wanted INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX held_versions_by_source ON held_versions (source);
"""

_ACL_TOKENS = """
CREATE TABLE acl_tokens (
    accessor_id TEXT PRIMARY KEY, secret_hash TEXT NOT NULL, key_id TEXT NOT NULL,
    expiration_time_ns INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX acl_tokens_by_secret ON acl_tokens (secret_hash);
CREATE INDEX acl_tokens_by_key ON acl_tokens (key_id);
CREATE INDEX acl_tokens_expiring ON acl_tokens (expiration_time_ns) WHERE expiration_time_ns > 0;
"""

_ACL_BOOTSTRAP = """
-- One row once a cluster is bootstrapped: the index of the last bootstrap. A restored snapshot
-- brings it with its tokens, so that nobody can bootstrap beside them.
CREATE TABLE acl_bootstrap (id INTEGER PRIMARY KEY, bootstrap_index INTEGER NOT NULL);
"""

_ACL_ONE_TIME_TOKENS = """
CREATE TABLE acl_one_time_tokens (
    secret_hash TEXT PRIMARY KEY, accessor_id TEXT NOT NULL, expires_at_ns INTEGER NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX acl_one_time_tokens_expiring ON acl_one_time_tokens (expires_at_ns);
"""

_ACL_POLICIES = """
CREATE TABLE acl_policies (
    name TEXT PRIMARY KEY,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_ACL_ROLES = """
CREATE TABLE acl_roles (
    id TEXT PRIMARY KEY, name TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE UNIQUE INDEX acl_roles_by_name ON acl_roles (name);
"""

_ACL_AUTH_METHODS = """
CREATE TABLE acl_auth_methods (
    name TEXT PRIMARY KEY, key_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_ACL_BINDING_RULES = """
CREATE TABLE acl_binding_rules (
    id TEXT PRIMARY KEY, auth_method TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX acl_binding_rules_by_method ON acl_binding_rules (auth_method);
"""

_QUOTAS = """
CREATE TABLE quotas (
    name TEXT PRIMARY KEY,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_AUTHORED_CHANGES = """
CREATE TABLE authored_changes (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX authored_changes_by_age ON authored_changes (modify_index, id);
"""

_SCALING_EVENTS = """
CREATE TABLE scaling_events (
    id TEXT PRIMARY KEY, namespace TEXT NOT NULL, job_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_SOURCE_HEALTH = """
CREATE TABLE source_health (
    source TEXT PRIMARY KEY,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

_INDEXES_OF_COMMITS = """
CREATE INDEX rollouts_applied ON rollouts (source, create_index, commit_id) WHERE was_applied;
CREATE INDEX rollouts_by_source_status ON rollouts (source, status);
CREATE INDEX rollouts_by_source_change ON rollouts (source, modify_index);
CREATE INDEX deployments_by_version ON deployments (namespace, job_id, job_version);
"""
"""The column `was_applied` lies behind the body: without the first index, reading it reads the
body."""

_CSI_VOLUMES = """
CREATE TABLE csi_volumes (
    key TEXT PRIMARY KEY, namespace TEXT NOT NULL, plugin_id TEXT NOT NULL,
    create_index INTEGER NOT NULL, modify_index INTEGER NOT NULL, body BLOB NOT NULL);
"""

MIGRATIONS: tuple[str, ...] = (
    *(_FIRST, _VARIABLES, _USAGE_INDEX, _SERVERS, _RESTORING, _GIT_REFS, _AUTOPILOT),
    *(_FREED_NODES, _APPLIED_JOBS, _DRIFTED_JOBS, _HELD_VERSIONS, _REPOSITORIES),
    *(_ACL_TOKENS, _ACL_BOOTSTRAP, _ACL_ONE_TIME_TOKENS, _ACL_POLICIES, _ACL_ROLES),
    *(_ACL_AUTH_METHODS, _ACL_BINDING_RULES, _AUTHORED_CHANGES),
    *(_SCALING_EVENTS, _SOURCE_HEALTH, _QUOTAS, _INDEXES_OF_COMMITS),
    _CSI_VOLUMES,
)

TABLES = (
    "jobs",
    "job_versions",
    "evaluations",
    "allocations",
    "nodes",
    "deployments",
    "host_volumes",
    "volume_claims",
    "sources",
    "rollouts",
    "git_refs",
    "applied_jobs",
    "drifted_jobs",
    "held_versions",
    "node_pools",
    "namespaces",
    "scheduler_config",
    "periodic_launches",
    "variables",
    "root_keys",
    "servers",
    "autopilot_config",
    "acl_tokens",
    "acl_bootstrap",
    "acl_one_time_tokens",
    "acl_policies",
    "acl_roles",
    "acl_auth_methods",
    "acl_binding_rules",
    "authored_changes",
    "scaling_events",
    "source_health",
    "quotas",
    "csi_volumes",
)
"""Names that readers may ask the index of, and wait for."""
