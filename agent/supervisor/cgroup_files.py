"""Creates, kills and removes a task's control group, by the files that the agent names.

A group is a dict: `dirs` to make (and to remove in the end), `values` {file: text} to write,
`members` files that a process joins by writing 0, `kill` the directory whose members are all killed
("" if none), `oom` the file that counts out-of-memory kills ("" if none). Values that the kernel
refuses are skipped: a limit that cannot be set is reported by the fingerprint, not by every task.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # `signal` imports enum, a tenth of this process

Group = dict[str, object]

_KILL_ROUNDS = 20


def create(group: Group) -> None:
    for directory in _names(group, "dirs"):
        os.makedirs(directory, exist_ok=True)
    values = group.get("values")
    if isinstance(values, dict):
        for path, text in values.items():
            _write(str(path), str(text))


def join(group: Group) -> None:
    """Called in the child: everything it starts is a member too."""
    for path in _names(group, "members"):
        with open(path, "w") as file:
            file.write("0")


def kill_all(group: Group) -> None:
    """Kill every member, atomically where the kernel can (cgroup.kill). Frozen members are killed
    until none is new: a freezer stops a group one process after the other, while others fork."""
    directory = str(group.get("kill") or "")
    if not directory or _write(os.path.join(directory, "cgroup.kill"), "1"):
        return
    freezer = os.path.join(directory, "freezer.state")
    killed: set[int] = set()
    for _ in range(_KILL_ROUNDS):
        _write(freezer, "FROZEN")
        pids = set(members(directory))
        for pid in pids - killed:
            _kill(pid)
        if pids <= killed:
            break
        killed |= pids
    _write(freezer, "THAWED")


def members(directory: str) -> list[int]:
    try:
        with open(os.path.join(directory, "cgroup.procs")) as file:
            return [int(line) for line in file]
    except OSError:
        return []


def oom_kills(group: Group) -> int:
    """How many members the kernel has killed for memory; 0 when nothing counts them."""
    try:
        with open(str(group.get("oom") or "")) as file:
            pairs = [line.split() for line in file]
    except OSError:
        return 0
    return sum(int(pair[1]) for pair in pairs if pair[0] == "oom_kill")


def remove(group: Group) -> bool:
    """Remove the directories; False while a member is still dying."""
    gone = True
    for directory in reversed(_names(group, "dirs")):
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone


def _names(group: Group, field: str) -> list[str]:
    names = group.get(field)
    return [str(name) for name in names] if isinstance(names, list) else []


def _write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, text.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        return
