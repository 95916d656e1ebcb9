"""Renders templates. Whatever is shown may come from a repository, so all of it is escaped.

jinja2 is imported with the first page: it takes a tenth of a second, which no start should wait
for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from orchgit.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment

DIRECTORY = Path(__file__).parent
_NS_PER_S = 1_000_000_000
_MAX_SECONDS = 253_402_300_799
"""The last second of the year 9999."""
_GOOD = frozenset(("healthy", "complete", "running", "successful", "ready"))
_BAD = frozenset(("degraded", "failed", "unreachable", "lost", "dead-failed", "reverted"))
_BUSY = frozenset(("progressing", "applied", "pending", "starting", "waiting"))


def render(template: str, values: Mapping[str, Any]) -> str:
    """Returns the page as HTML. May take long for a page of many rows: not for the event loop."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(DIRECTORY / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    environment.filters |= {"utc": utc, "iso": iso, "short": short, "tone": tone, "took": took}
    environment.globals |= {"link": link}
    return environment


def _shown(value: object) -> object:
    """Makes characters visible that would turn the direction of text, or hide some of it."""
    return printable(value) if type(value) is str else value


def link(*parts: str, **query: str | int) -> str:
    """Returns the address of a page; the parts are names of any characters."""
    path = "/".join(("/ui", *(quote(part, safe="") for part in parts)))
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def _moment(time_ns: int) -> datetime:
    return datetime.fromtimestamp(min(max(time_ns // _NS_PER_S, 0), _MAX_SECONDS), UTC)


def utc(time_ns: int) -> str:
    """Returns text like "2026-11-22 23:04:05 UTC", or "-" for 0."""
    return _moment(time_ns).strftime("%Y-%m-%d %H:%M:%S UTC") if time_ns else "-"


def iso(time_ns: int) -> str:
    """Returns the time for the attribute `datetime`."""
    return _moment(time_ns).strftime("%Y-%m-%dT%H:%M:%SZ")


def took(length_ns: int) -> str:
    """Returns text like "11.2 s" or "3 min 5 s"."""
    seconds = length_ns / _NS_PER_S
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def short(identifier: str) -> str:
    """Returns the beginning of an id."""
    return identifier[:8]


def tone(status: str) -> str:
    """Returns the class of a status: good, bad, busy or odd."""
    for name, statuses in (("good", _GOOD), ("bad", _BAD), ("busy", _BUSY)):
        if status in statuses:
            return name
    return "odd"
