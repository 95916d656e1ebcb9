"""The server's side of git's receive-pack protocol (version 0): advertisement, request, report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.gitops.git.pktline import FLUSH, Band, ByteReader, band, pkt
from orchgit.gitops.git.refs import ZERO_ID, check_ref_name, is_commit_id
from orchgit.printable import printable

CAPABILITIES = (
    "report-status delete-refs side-band-64k quiet ofs-delta push-options "
    "object-format=sha1 agent=orchgit"
)
MAX_COMMANDS = 1_000
MAX_OPTIONS = 100


@dataclass(frozen=True, slots=True)
class RefCommand:
    """Moves `ref` from `old` to `new`, object ids; `ZERO_ID` stands for no object."""

    old: str
    new: str
    ref: str

    @property
    def is_delete(self) -> bool:
        return self.new == ZERO_ID


@dataclass(frozen=True, slots=True)
class PushRequest:
    """What a push asks for. Its pack is still unread."""

    commands: tuple[RefCommand, ...]
    capabilities: frozenset[str]
    options: frozenset[str]

    @property
    def has_pack(self) -> bool:
        return any(not command.is_delete for command in self.commands)


def advertisement(refs: Mapping[str, str]) -> bytes:
    """Returns the answer to `info/refs?service=git-receive-pack`: branches, tags and notes."""
    shown = [(name, oid) for name, oid in sorted(refs.items()) if _is_public(name)]
    if not shown:
        shown = [("capabilities^{}", ZERO_ID)]
    (first_name, first_id), *others = shown
    lines = [pkt(f"{first_id} {first_name}\0{CAPABILITIES}\n".encode())]
    lines += [pkt(f"{oid} {name}\n".encode()) for name, oid in others]
    return b"".join((pkt(b"# service=git-receive-pack\n"), FLUSH, *lines, FLUSH))


def _is_public(ref: str) -> bool:
    return ref.startswith(("refs/heads/", "refs/tags/", "refs/notes/"))


async def read_request(reader: ByteReader) -> PushRequest:
    """Reads the commands and options of a push. Raises InvalidInputError for anything that is not
    a push."""
    lines = await reader.pkts(MAX_COMMANDS)
    if not lines:
        return PushRequest((), frozenset(), frozenset())
    first, _, capabilities = lines[0].partition(b"\0")
    offered = frozenset(capabilities.decode("utf-8", "replace").split())
    commands = tuple(_read_command(line) for line in (first, *lines[1:]))
    options: Sequence[bytes] = ()
    if "push-options" in offered:
        options = await reader.pkts(MAX_OPTIONS)
    texts = frozenset(option.decode("utf-8", "replace").strip() for option in options)
    return PushRequest(commands, offered, texts)


def _read_command(line: bytes) -> RefCommand:
    parts = line.decode("utf-8", "replace").rstrip("\n").split(" ", 2)
    if parts[0] == "shallow":
        raise InvalidInputError("cannot push from a shallow clone: run `git fetch --unshallow`")
    if len(parts) != 3 or not is_commit_id(parts[0]) or not is_commit_id(parts[1]):
        raise InvalidInputError("cannot read the push: a command is not `old new ref`")
    old, new, ref = parts
    return RefCommand(old, new, ref)


def check_command(command: RefCommand, refs: Mapping[str, str]) -> str:
    """Returns why the command cannot be carried out on these refs, or ''."""
    try:
        check_ref_name(command.ref)
    except OrchgitError as error:
        return str(error)
    if not _is_public(command.ref):
        return "only refs/heads/, refs/tags/ and refs/notes/ can be pushed"
    if refs.get(command.ref, ZERO_ID) != command.old:
        return "the ref moved meanwhile: fetch first"
    return ""


def check_room(command: RefCommand, refs: Mapping[str, str], max_refs: int) -> str:
    """Returns why the repository has no place for a new ref of this name, or ''."""
    if command.is_delete or command.ref in refs:
        return ""
    if len(refs) >= max_refs:
        return f"the repository has {len(refs)} refs, and the limit max_refs is {max_refs}"
    parts = command.ref.split("/")
    above = ("/".join(parts[:count]) for count in range(3, len(parts)))
    clash = next((ref for ref in above if ref in refs), "")
    below = f"{command.ref}/"
    clash = clash or next((ref for ref in refs if ref.startswith(below)), "")
    return f"ref {clash} exists, and git cannot have both" if clash else ""


def report(unpack_error: str, refusals: Iterable[tuple[str, str]]) -> bytes:
    """Returns the report-status, in its band. `refusals` are pairs of a ref and why it was refused,
    or ''; a reason is cut to one line of 400 characters."""
    lines = [pkt(f"unpack {unpack_error or 'ok'}\n".encode())]
    for ref, why in refusals:
        reason = printable(" ".join(why.split()))[:400]
        text = f"ng {ref} {reason}\n" if why else f"ok {ref}\n"
        lines.append(pkt(text.encode()))
    return b"".join(band(Band.DATA, b"".join((*lines, FLUSH))))
