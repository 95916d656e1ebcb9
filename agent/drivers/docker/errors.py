"""What an engine may answer, told apart by the driver."""

from __future__ import annotations

from orchgit.errors import DriverError


class NotThereError(DriverError):
    """The engine has no such container, image or command."""


class UnreadableLogsError(DriverError):
    """The container's logging driver gives nothing back: its output goes elsewhere."""
