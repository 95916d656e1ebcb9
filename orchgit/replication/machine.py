"""Applying one entry to the state: decode, find the handler, keep the whole effect or none."""

from __future__ import annotations

import sqlite3

import msgspec
import structlog

from orchgit.errors import InvariantError, OrchgitError
from orchgit.replication.apply.authored import record_author
from orchgit.replication.apply.handlers import HANDLERS
from orchgit.replication.commands import codec
from orchgit.replication.commands.entry import AuthoredEntry, Entry
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

_log = structlog.get_logger(component="raft")


class _Kind(msgspec.Struct):
    kind: str = msgspec.field(default="", name="Kind")


_KINDS: list[type[Entry]] = [*HANDLERS, AuthoredEntry]
_KNOWN = {command.__struct_config__.tag for command in _KINDS}


def apply_entry(txn: WriteTxn, index: int, payload: bytes, effects: Effects) -> object:
    """What the handler returns, or the error (returned, not raised) that refused the entry.

    A refused entry has been applied: it changes nothing, here and on every other server. Raised is
    only what says nothing about the entry: an error of the database, or an entry of a kind that
    this version does not know, which must not be passed over; and MustStartOver.
    """
    own = Effects()
    authored = None
    try:
        command = codec.decode(payload)
        if isinstance(command, AuthoredEntry):
            authored, payload = command, command.entry
            command = codec.decode(payload)
    except msgspec.MsgspecError as error:
        return _unreadable(index, payload, error)
    txn.begin_entry(index, command.now_ns, authored.author if authored is not None else None)
    try:
        result = HANDLERS[type(command)](txn, command, own)
        if txn.author is not None:
            record_author(txn, txn.author, command)
        txn.end_entry()
    except (sqlite3.OperationalError, MemoryError, OSError):
        raise  # of this machine, not of the entry: other servers may well have applied it
    except OrchgitError as error:
        txn.undo_entry()
        return error
    except Exception as error:  # noqa: BLE001 (a faulty handler must not end the server)
        # The same entry fails the same way everywhere: skipping it keeps servers equal, stopping
        # would keep them all from ever starting again.
        txn.undo_entry()
        _log.exception("log entry refused: its handler failed", index=index)
        return InvariantError(f"cannot apply {type(command).__name__} at index {index}: {error!r}")
    effects.merge(own)
    return result


def _unreadable(index: int, payload: bytes, error: msgspec.MsgspecError) -> InvariantError:
    """A known kind with wrong values is refused by every server of this version alike."""
    kind = msgspec.msgpack.decode(payload, type=_Kind).kind
    if kind not in _KNOWN:
        raise InvariantError(
            f"cannot apply log entry {index}: this version does not know {kind!r}; upgrade this "
            "server"
        ) from error
    return InvariantError(f"cannot apply {kind} at index {index}: {error}")
