"""Options that several drivers share: which users of the node tasks may not run as. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.drivers.users import UserIds
from orchgit.errors import DriverError
from orchgit.whole_number import whole_number


def check_ids(user: UserIds, uids: str, gids: str, driver: str) -> None:
    """DriverError for a user or a group in `denied_host_uids` or `denied_host_gids` of a plugin:
    numbers and ranges, `0,10-20`."""
    if _contains(uids, user.uid, driver):
        raise DriverError(
            f"cannot run as user {user.uid}: the agent's config has it in {driver}.denied_host_uids"
        )
    for gid in (user.gid, *user.groups):
        if _contains(gids, gid, driver):
            raise DriverError(
                f"cannot run as group {gid}: the agent's config has it in {driver}.denied_host_gids"
            )


def check_name(name: str, user: UserIds, denied: Sequence[str], option: str) -> None:
    """DriverError for a user in a list of names; `root` is also user 0."""
    if name in denied or (user.uid == 0 and "root" in denied):
        raise DriverError(f'cannot run as "{name}": the agent\'s config has it in {option}')


def _contains(ranges: str, number: int, driver: str) -> bool:
    for text in filter(None, (part.strip() for part in ranges.split(","))):
        first, dash, last = text.partition("-")
        low, high = whole_number(first), whole_number(last if dash else first)
        if low is None or high is None or high < low:
            raise DriverError(f'cannot read the ids "{ranges}" of {driver}: write "0,10-20"')
        if low <= number <= high:
            return True
    return False
