"""The `user` of a task as the ids a process is started with."""

from __future__ import annotations

import os
import pwd

import msgspec

from orchgit.errors import DriverError
from orchgit.whole_number import whole_number


class UserIds(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    groups: list[int]


DEFAULT_CHROOT_USER = "nobody"
"""Who a task in a chroot runs as when it names no user."""
_NO_CHANGE = 0xFFFFFFFF


def resolve_user(user: str) -> UserIds | None:
    """`name`, `uid` or `uid:gid`; None for "" (the agent's own user)."""
    if not user:
        return None
    name, _, group = user.partition(":")
    entry = _entry(name)
    uid = entry.pw_uid if entry else _id(name)
    if uid is None:
        raise DriverError(f'cannot run as user "{user}": this node has no such user')
    gid = entry.pw_gid if entry else uid
    if group:
        wanted = _id(group)
        if wanted is None:
            raise DriverError(f'cannot run as user "{user}": the group must be a number')
        gid = wanted
    groups = os.getgrouplist(entry.pw_name, gid) if entry else [gid]
    return UserIds(uid, gid, groups)


def host_user(user: str) -> UserIds | None:
    """As `resolve_user`; a user of the host that is not there is refused in the recorded words."""
    try:
        return resolve_user(user)
    except DriverError:
        name = user.partition(":")[0]
        if _entry(name) is None and _id(name) is None:
            raise DriverError(
                f'failed host user validation: failed to identify user "{user}": '
                f"user: unknown user {name}"
            ) from None
        raise


def user_variables(user: str) -> dict[str, str]:
    """HOME, LOGNAME and USER of `name`, `uid` or `uid:gid`; {} for a user unknown to the node."""
    entry = _entry(user.partition(":")[0])
    if entry is None:
        return {}
    return {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name, "USER": entry.pw_name}


def _entry(name: str) -> pwd.struct_passwd | None:
    number = _id(name)
    try:
        return pwd.getpwnam(name) if number is None else pwd.getpwuid(number)
    except (KeyError, ValueError):  # ValueError: a NUL in the name
        return None


def _id(text: str) -> int | None:
    """A user's or group's number; the largest of 32 bits means "no change" to the system."""
    number = whole_number(text)
    return number if number is not None and 0 <= number < _NO_CHANGE else None
