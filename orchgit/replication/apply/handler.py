"""The shape of a handler, and of an area's table of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from orchgit.replication.commands.entry import Entry
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

Handlers: TypeAlias = dict[type[Entry], Callable[[WriteTxn, Any, Effects], object]]
"""Kind of command -> what it does to the state."""
