"""A task as the job file describes it."""

from __future__ import annotations

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.constraint import Affinity, Constraint
from orchgit.model.resources import Resources
from orchgit.model.service import Service
from orchgit.model.volume import VolumeMount


class RestartPolicy(Model):
    attempts: int = 2
    interval_ns: int = 1_800_000_000_000
    delay_ns: int = 15_000_000_000
    mode: str = "fail"
    render_templates: bool = False


class LogConfig(Model):
    max_files: int = 10
    max_file_size_mb: int = 10
    disabled: bool = False
    enabled: bool | None = None


class TaskArtifact(Model):
    getter_source: str = ""
    getter_options: dict[str, str] | None = None
    getter_headers: dict[str, str] | None = None
    getter_mode: str = "any"
    getter_insecure: bool = False
    relative_dest: str = "local/"
    chown: bool = False


class ChangeScript(Model):
    command: str = ""
    args: list[str] | None = None
    timeout_ns: int = 5_000_000_000
    fail_on_error: bool = False
    run_on_first_render: bool = False


class Template(Model):
    source_path: str = ""
    dest_path: str = ""
    embedded_tmpl: str = ""
    change_mode: str = "restart"
    change_signal: str = ""
    change_script: ChangeScript | None = None
    once: bool = False
    splay_ns: int = 5_000_000_000
    perms: str = "0644"
    uid: int | None = field(default=None, name="Uid")
    gid: int | None = field(default=None, name="Gid")
    left_delim: str = "{{"
    right_delim: str = "}}"
    envvars: bool = False
    vault_grace_ns: int = 0
    wait: dict[str, object] | None = None
    err_missing_key: bool = False


class TaskLifecycle(Model):
    """`hook` is prestart, poststart or poststop; a sidecar keeps running beside the main tasks."""

    hook: str = ""
    sidecar: bool = False


class DispatchPayload(Model):
    file: str = ""


class TaskAction(Model):
    name: str = ""
    command: str = ""
    args: list[str] | None = None


class Task(Model):
    name: str = ""
    driver: str = ""
    config: dict[str, object] | None = None
    env: dict[str, str] | None = None
    user: str = ""
    meta: dict[str, str] | None = None
    constraints: list[Constraint] | None = None
    affinities: list[Affinity] | None = None
    services: list[Service] | None = None
    resources: Resources = field(default_factory=Resources)
    restart_policy: RestartPolicy | None = None
    log_config: LogConfig = field(default_factory=LogConfig)
    kill_timeout_ns: int = 5_000_000_000
    kill_signal: str = ""
    shutdown_delay_ns: int = 0
    leader: bool = False
    lifecycle: TaskLifecycle | None = None
    artifacts: list[TaskArtifact] | None = None
    templates: list[Template] | None = None
    dispatch_payload: DispatchPayload | None = None
    volume_mounts: list[VolumeMount] | None = None
    actions: list[TaskAction] | None = None
    scaling_policies: list[dict[str, object]] | None = None
    vault: dict[str, object] | None = None
    consul: dict[str, object] | None = None
    csi_plugin_config: dict[str, object] | None = field(default=None, name="CSIPluginConfig")
    identity: dict[str, object] | None = None
    identities: list[dict[str, object]] | None = None
    secrets: list[dict[str, object]] | None = None
    schedule: dict[str, object] | None = None
    kind: str = ""
