"""Applying one entry to the state: decode, find the handler, keep the whole effect or none."""

from __future__ import annotations

import logging
import sqlite3

import msgspec

from orchgit.errors import InvariantError, OrchgitError
from orchgit.replication import commands
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

_LOG = logging.getLogger(__name__)


def apply_entry(txn: WriteTxn, index: int, payload: bytes, effects: Effects) -> object:
    """What the handler returns, or the error (returned, not raised) that refused the entry.

    A refused entry has been applied: it changes nothing, here and on every other server. Only an
    error of the database itself is raised; it says nothing about the entry.
    """
    own = Effects()
    try:
        command = commands.decode(payload)
    except msgspec.MsgspecError as error:
        return InvariantError(f"cannot read log entry {index}: {error}; upgrade this server")
    txn.begin_entry(index, command.now_ns)
    try:
        result = HANDLERS[type(command)](txn, command, own)
        txn.end_entry()
    except sqlite3.OperationalError:
        raise
    except OrchgitError as error:
        txn.undo_entry()
        return error
    except Exception as error:  # noqa: BLE001 (a faulty handler must not end the server)
        # The same entry fails the same way everywhere: skipping it keeps servers equal, stopping
        # would keep them all from ever starting again.
        txn.undo_entry()
        _LOG.exception("log entry refused: its handler failed (index %d)", index)
        return InvariantError(f"cannot apply {type(command).__name__} at index {index}: {error!r}")
    effects.merge(own)
    return result
