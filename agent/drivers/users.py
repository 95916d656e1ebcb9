"""The `user` of a task as the ids a process is started with."""

from __future__ import annotations

import os
import pwd

import msgspec

from orchgit.errors import DriverError


class UserIds(msgspec.Struct, frozen=True):
    uid: int
    gid: int
    groups: list[int]


DEFAULT_CHROOT_USER = "nobody"
"""Who a task in a chroot runs as when it names no user."""


def resolve_user(user: str) -> UserIds | None:
    """`name`, `uid` or `uid:gid`; None for "" (the agent's own user)."""
    if not user:
        return None
    name, _, group = user.partition(":")
    entry = _entry(name)
    if entry is None and not name.isdecimal():
        raise DriverError(f'cannot run as user "{user}": this node has no such user')
    uid = entry.pw_uid if entry else int(name)
    gid = entry.pw_gid if entry else uid
    if group:
        if not group.isdecimal():
            raise DriverError(f'cannot run as user "{user}": the group must be a number')
        gid = int(group)
    groups = os.getgrouplist(entry.pw_name, gid) if entry else [gid]
    return UserIds(uid, gid, groups)


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        return None
