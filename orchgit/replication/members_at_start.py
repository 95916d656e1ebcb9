"""Who the members are when a server starts: from its state, its config, or an operator's file.

`raft/self` keeps what a server knows of itself beside the log: the address by which it was a member
last, and members that were forced on it because a majority was lost. `raft/peers.json` is how an
operator forces them: the same file on every server that is left, before they are started. It is
read once, and renamed to `peers.json.used`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.host_port import split_host_port
from orchgit.raft.configuration import (
    CONFIGURATION,
    Configuration,
    ConfigurationEntry,
    ConfigurationHistory,
    Member,
    decode_configuration,
)
from orchgit.raft_log.checked_file import CheckedFile
from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.journal import Journal

_log = structlog.get_logger(component="raft")


class Self(msgspec.Struct, frozen=True):
    """`forced`: the members behind the entry `forced_index`, whatever the log says up to there."""

    address: str = ""
    forced_index: int = 0
    forced: tuple[Member, ...] = ()


class RecoveredPeer(msgspec.Struct, frozen=True):
    """One entry of peers.json, in Nomad's shape."""

    address: str
    id: str = ""
    non_voter: bool = False


class MembersAtStart:
    """Of the member called `address`; `directory` holds its log."""

    def __init__(self, directory: Path, address: str, journal: Journal, disk: Disk = DISK) -> None:
        self._peers_file = directory / "peers.json"
        self._own = CheckedFile(disk, directory / "self", Self)
        self._address = address
        self._journal = journal
        self._disk = disk

    def members(self, kept: ConfigurationEntry | None, given: Iterable[str]) -> ConfigurationEntry:
        """`kept`: what the state says; `given`: what to begin with when nothing else is known."""
        first = kept or ConfigurationEntry(0, Configuration.of(given), logged=False)
        own = self._own.value
        if own.forced and own.forced_index >= first.index:
            first = ConfigurationEntry(own.forced_index, Configuration(own.forced), logged=False)
        if self._peers_file.exists():
            return self._forced(self._read_peers_file())
        newest = ConfigurationHistory(first, self._logged()).newest.configuration
        if own.address not in ("", self._address):
            if newest.addresses == {own.address}:
                # Alone, it is its own majority: nobody else knows it by the old address.
                return self._forced(Configuration.of([self._address]))
            _log.warning(
                "the address of this server changed: join it again, and remove the old one",
                was=own.address,
                now=self._address,
            )
        return first

    def remember_address(self) -> None:
        """When the server starts by it."""
        self._keep(msgspec.structs.replace(self._own.value, address=self._address))

    def _logged(self) -> Iterable[ConfigurationEntry]:
        for index in self._journal.of_kind(CONFIGURATION):
            yield ConfigurationEntry(
                index, decode_configuration(self._journal.record(index).payload)
            )

    def _forced(self, configuration: Configuration) -> ConfigurationEntry:
        """On disk before the operator's file goes."""
        index = self._journal.last_index
        self._keep(Self(self._address, index, configuration.members))
        if self._peers_file.exists():
            self._disk.replace(self._peers_file, self._peers_file.with_suffix(".json.used"))
            self._disk.sync_dir(self._peers_file.parent)
            _log.warning("members forced by peers.json", members=sorted(configuration.addresses))
        return ConfigurationEntry(index, configuration, logged=False)

    def _keep(self, own: Self) -> None:
        if own != self._own.value:
            self._own.store(own)

    def _read_peers_file(self) -> Configuration:
        try:
            data = self._peers_file.read_bytes()
            peers = msgspec.json.decode(data, type=list[RecoveredPeer])
            for peer in peers:
                split_host_port(peer.address)
        except (msgspec.MsgspecError, OrchgitError) as error:
            raise self._bad_peers_file(str(error)) from error
        configuration = Configuration(
            tuple(Member(peer.address, not peer.non_voter) for peer in peers)
        )
        if len(configuration.addresses) != len(peers):
            raise self._bad_peers_file("it names a server twice")
        if not configuration.voters:
            raise self._bad_peers_file("it has no server with a vote")
        if self._address not in configuration.addresses:
            raise self._bad_peers_file(f"it does not name this server, {self._address}")
        return configuration

    def _bad_peers_file(self, problem: str) -> InvalidInputError:
        return InvalidInputError(
            f"cannot recover with {self._peers_file}: {problem}; write a list like "
            f'[{{"address": "{self._address}"}}], the same on every server that is left, or remove '
            "the file"
        )
