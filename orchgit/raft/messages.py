"""What members of a cluster say to each other: msgpack of these structs, nothing else is read."""

from __future__ import annotations

import msgspec


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    term: int
    payload: bytes


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    term: int
    """The sender's; a reply repeats it, so an old one never counts for a new leadership."""


class PreVote(_Message, frozen=True, tag=1):
    """Would you vote for me? `term` is the one I would stand in; nobody's term changes."""

    last_index: int
    last_term: int
    log_id: str = ""
    """Of which log the sender speaks, where it knows: each cluster's has an id of its own. So too
    in all that a leader or a candidate says."""


class PreVoteReply(_Message, frozen=True, tag=2):
    """`term` is the one that was asked for when granted, else the refusing member's."""

    granted: bool


class RequestVote(_Message, frozen=True, tag=3):
    last_index: int
    last_term: int
    transfer: bool = False
    """The leader itself asked for this election, so its followers need not stay with it."""
    log_id: str = ""


class VoteReply(_Message, frozen=True, tag=4):
    granted: bool


class Append(_Message, frozen=True, tag=5):
    """Entries that follow (prev_index, prev_term); without any, a heartbeat."""

    prev_index: int
    prev_term: int
    entries: list[LogEntry]
    commit_index: int
    round: int
    """Counts the leader's questions "am I still leading?"; replies repeat it."""
    log_id: str = ""


class AppendReply(_Message, frozen=True, tag=6):
    """`index`: when accepted, the log is the leader's up to here, on disk. When refused, the last
    place where the two may still agree (its term in `hint_term`), `refused` the prev_index.
    `has_room`: the sender could lead; its disk is not full. (Members of older versions do not say,
    and do not read it.)"""

    accepted: bool
    index: int
    round: int
    refused: int = 0
    hint_term: int = 0
    has_room: bool = True


class SnapshotChunk(_Message, frozen=True, tag=7):
    """A part of the state as of (index, index_term), `size` bytes in all."""

    index: int
    index_term: int
    size: int
    offset: int
    data: bytes
    log_id: str = ""


class SnapshotReply(_Message, frozen=True, tag=8):
    """`offset`: what is wanted next; `installed` when the state at `index` is on disk."""

    index: int
    offset: int
    installed: bool


class TimeoutNow(_Message, frozen=True, tag=9):
    """Stand for election at once: the leader hands over."""

    log_id: str = ""


class Forwarded(_Message, frozen=True, tag=10):
    """A command of a follower; its entry names it, so the follower finds it when it applies it."""

    request: int
    payload: bytes


class ForwardRefused(_Message, frozen=True, tag=11):
    """The command was not appended: the receiver does not lead, has too much to do, or there is
    the `reason`."""

    request: int
    too_much: bool = False
    reason: str = ""


class NotMember(_Message, frozen=True, tag=12):
    """The configuration at `index` is committed, and the receiver is not in it: it was removed, and
    need not stand for election any more."""

    index: int


class OtherLog(_Message, frozen=True, tag=13):
    """The receiver spoke of another log than that of the sender's cluster, and was not heard."""

    log_id: str


RulingMessage = PreVote | RequestVote | Append | SnapshotChunk | TimeoutNow
"""What leaders and candidates say."""

Message = (
    PreVote
    | PreVoteReply
    | RequestVote
    | VoteReply
    | Append
    | AppendReply
    | SnapshotChunk
    | SnapshotReply
    | TimeoutNow
    | Forwarded
    | ForwardRefused
    | NotMember
    | OtherLog
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """Raises msgspec.MsgspecError for anything that is not one of these."""
    return _DECODER.decode(data)


def size_of(message: Message) -> int:
    """About how many bytes it holds."""
    if isinstance(message, Append):
        return sum(len(entry.payload) for entry in message.entries)
    if isinstance(message, SnapshotChunk):
        return len(message.data)
    return len(message.payload) if isinstance(message, Forwarded) else 0


def may_overtake(message: Message) -> bool:
    """Whether it may come before what was sent earlier. A heartbeat that names the entry before it
    may not: the receiver would refuse it for an entry that is still on its way."""
    if isinstance(message, Append):
        return message.prev_index == 0
    return not isinstance(message, SnapshotChunk | Forwarded)
