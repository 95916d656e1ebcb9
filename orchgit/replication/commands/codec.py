"""Commands as they lie in the log: the union of all kinds, told apart by their tags."""

from __future__ import annotations

import msgspec

from orchgit.replication.commands.acl import AclCommand
from orchgit.replication.commands.acl_logins import AclLoginCommand
from orchgit.replication.commands.allocations import AllocationCommand
from orchgit.replication.commands.csi_volumes import CsiVolumeCommand
from orchgit.replication.commands.deployments import DeploymentCommand
from orchgit.replication.commands.drift import DriftCommand
from orchgit.replication.commands.entry import AuthoredEntry, Noop
from orchgit.replication.commands.evaluations import EvaluationCommand
from orchgit.replication.commands.gitops import GitopsCommand
from orchgit.replication.commands.jobs import JobCommand
from orchgit.replication.commands.nodes import NodeCommand
from orchgit.replication.commands.plans import PlanCommand
from orchgit.replication.commands.restoring import RestoreCommand
from orchgit.replication.commands.root_keys import RootKeyCommand
from orchgit.replication.commands.servers import ServerCommand
from orchgit.replication.commands.settings import SettingsCommand
from orchgit.replication.commands.variables import VariableCommand
from orchgit.replication.commands.volumes import HostVolumeCommand

Command = (
    Noop
    | AuthoredEntry
    | JobCommand
    | DriftCommand
    | GitopsCommand
    | EvaluationCommand
    | PlanCommand
    | NodeCommand
    | AllocationCommand
    | DeploymentCommand
    | SettingsCommand
    | HostVolumeCommand
    | CsiVolumeCommand
    | VariableCommand
    | RootKeyCommand
    | ServerCommand
    | RestoreCommand
    | AclCommand
    | AclLoginCommand
)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """A command as it lies in the log."""
    return _ENCODER.encode(command)


def decode(data: bytes) -> Command:
    """Raises msgspec.DecodeError on anything that is not a command."""
    return _DECODER.decode(data)
