"""Signal names of job files as numbers."""

from __future__ import annotations

import signal

from orchgit.errors import DriverError

DEFAULT_KILL_SIGNAL = "SIGINT"


def signal_number(name: str, default: str = DEFAULT_KILL_SIGNAL) -> int:
    """`SIGTERM`, `TERM` or `15` as 15; "" means `default`."""
    text = (name or default).upper()
    if text.isdecimal():
        text = _name_of(int(text))
    text = text if text.startswith("SIG") else f"SIG{text}"
    number = getattr(signal, text, None)
    if not isinstance(number, signal.Signals):
        raise DriverError(f'cannot use signal "{name}": it is not known on this system')
    return int(number)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
