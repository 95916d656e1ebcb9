"""Why a program could not be started, in the words of Nomad's executor, which tools look for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchgit.errors import DriverError

_PREFIX = "failed to launch command with executor: rpc error: code = Unknown desc = "
_REFUSED = re.compile(r"cannot (?:execute|change to its directory) .*: ([^:]+)", re.DOTALL)


def not_found(command: str) -> DriverError:
    return DriverError(f'{_PREFIX}binary "{command}" could not be found')


def not_found_below(command: str, task_dir: str) -> DriverError:
    """The program is not in the root of the task."""
    return DriverError(f"{_PREFIX}file {command} not found under path {task_dir}")


def not_started(argv: Sequence[str], reason: str) -> DriverError:
    shown = " ".join(f'"{each}"' for each in argv)
    return DriverError(
        f'{_PREFIX}failed to start command path="{argv[0]}" --- args=[{shown}]: '
        f"fork/exec {argv[0]}: {reason}"
    )


def explained(error: DriverError, argv: Sequence[str]) -> DriverError:
    """Returns the error of the supervisor as one of these; any other as it is."""
    found = _REFUSED.fullmatch(str(error))
    if found is None:
        return error
    return not_started(argv, f"{found[1][:1].lower()}{found[1][1:]}")
