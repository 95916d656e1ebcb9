"""Signal names of job files as numbers."""

from __future__ import annotations

import signal

from orchgit.errors import DriverError, InvalidInputError
from orchgit.whole_number import whole_number

DEFAULT_KILL_SIGNAL = "SIGINT"


def signal_number(name: str) -> int:
    """`SIGTERM`, `TERM` or `15` as 15; "" means the default."""
    text = (name or DEFAULT_KILL_SIGNAL).upper()
    if (number := whole_number(text)) is not None:
        text = _name_of(number)
    text = text if text.startswith("SIG") else f"SIG{text}"
    found = getattr(signal, text, None)
    if not isinstance(found, signal.Signals):
        raise DriverError(f'cannot use signal "{name}": it is not known on this system')
    return int(found)


def check_signal(name: str) -> None:
    """Raises InvalidInputError for a signal that a client of the API may not send."""
    try:
        signal_number(name)
    except DriverError as error:
        raise InvalidInputError(str(error)) from None


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
