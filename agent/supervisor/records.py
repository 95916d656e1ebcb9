"""Reads a task's record, and the small files that a container runtime writes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent.supervisor.journal import Record

_REPORTED = ("key", "pid", "started_ns", "finished_ns", "exit_code", "signal", "oom_killed")
_TAIL_BYTES = 2000


def describe(record: Record, state: str, dropped_bytes: int) -> Record:
    """What the agent may know of a task."""
    report = {name: record[name] for name in _REPORTED if name in record}
    report["state"] = state
    report["error"] = str(record.get("error") or "")
    report["dropped_bytes"] = dropped_bytes
    return report


def pid_in(path: str) -> int:
    """The pid that a runtime wrote; 0 while there is none."""
    try:
        with open(path) as file:
            return int(file.read().strip() or 0)
    except (OSError, ValueError):
        return 0


def tail_of(path: str) -> str:
    """The end of a log, "" if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def as_dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def as_int(value: object) -> int:
    return value if isinstance(value, int) else 0
