"""Linux capabilities of tasks: what they have, may add and may drop. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orchgit.errors import DriverError

DEFAULT_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
"""What a task has unless the job or the agent's config says otherwise; as in Nomad."""

ALL_CAPABILITIES = (
    *DEFAULT_CAPABILITIES,
    *("AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE"),
    *("DAC_READ_SEARCH", "IPC_LOCK", "IPC_OWNER", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN"),
    *("MAC_OVERRIDE", "NET_ADMIN", "NET_BROADCAST", "NET_RAW", "PERFMON", "SYS_ADMIN"),
    *("SYS_BOOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "SYSLOG", "WAKE_ALARM"),
)
_ALL = "ALL"


def effective_capabilities(
    add: Sequence[str], drop: Sequence[str], allowed: Collection[str], option: str
) -> list[str]:
    """Returns the plain names (`NET_RAW`) that a task has in the end.

    `all` in `drop` drops the defaults; what `add` names is there in the end. DriverError for one
    that the agent's config, in `option`, does not allow.
    """
    may = {plain_capability(name) for name in allowed}
    added = [plain_capability(name) for name in add]
    for name, shown in zip(added, add, strict=True):
        if name not in may and _ALL not in may:
            raise DriverError(
                f'cannot add capability "{shown}": the agent\'s config does not have it in {option}'
            )
    if _ALL in added:
        return list(ALL_CAPABILITIES)
    dropped = {plain_capability(name) for name in drop}
    kept = [
        name
        for name in DEFAULT_CAPABILITIES
        if _ALL not in dropped and name not in dropped and (name in may or _ALL in may)
    ]
    return list(dict.fromkeys([*kept, *added]))


def plain_capability(name: str) -> str:
    """`cap_net_raw`, `NET_RAW` and `net_raw` as `NET_RAW`."""
    return name.upper().removeprefix("CAP_")
