"""The agent's view of the supervisor's messages."""

from __future__ import annotations

import msgspec


class LogStream(msgspec.Struct, frozen=True):
    """Where one output stream goes: `<directory>/<prefix>.<index>`."""

    directory: str
    prefix: str
    max_files: int
    max_bytes: int


class ControlGroup(msgspec.Struct, frozen=True):
    """The files of a task's control group; `cgroup_files` uses them."""

    dirs: list[str] = []
    values: dict[str, str] = {}
    members: list[str] = []
    kill: str = ""
    oom: str = ""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process to start. `env` is never written to disk."""

    key: str
    argv: list[str]
    """argv[0] is an absolute path."""
    cwd: str
    env: dict[str, str] = {}
    uid: int | None = None
    gid: int | None = None
    groups: list[int] = []
    streams: list[LogStream] = []
    """stdout, stderr; none: output is thrown away."""
    group: ControlGroup | None = None
    oom_score_adj: int = 0
    network_namespace: str = ""
    """A path; "" is the supervisor's own namespace, which is the host's."""
    pid_file: str = ""
    """Set for a container runtime: it ends after writing here the pid of what it started."""
    error_log: str = ""
    """Where the runtime writes why it failed."""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor knows of a task."""

    key: str
    state: str
    pid: int = 0
    started_ns: int = 0
    finished_ns: int = 0
    exit_code: int = 0
    signal: int = 0
    oom_killed: bool = False
    error: str = ""
    dropped_bytes: int = 0

    @property
    def ended(self) -> bool:
        return self.state == "exited"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer (it has the request's id) or a pushed event."""

    id: int | None = None
    error: str = ""
    event: str = ""
    task: TaskReport | None = None
    tasks: list[TaskReport] = []
    pid: int = 0
    protocol: int = 0
