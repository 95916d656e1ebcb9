"""Turns the `audit` block of a configuration file into the settings of the audit log."""

from __future__ import annotations

from pathlib import Path

from orchgit.configuration.schema import AuditSection, AuditSinkSection
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError
from orchgit.server.audit.settings import (
    DEFAULT_PATH,
    AuditSettings,
    audit_filter,
    check_sink,
    parse_mode,
)


def audit_settings(section: AuditSection) -> AuditSettings | None:
    """Returns None where no audit log is wanted.

    Raises InvalidInputError for settings that cannot be used, even where the log is off.
    """
    if len(section.sink) > 1:
        raise InvalidInputError(
            f"cannot use the audit section: it has {len(section.sink)} sinks, and may have one"
        )
    sink = next(iter(section.sink.values()), AuditSinkSection())
    check_sink(sink.type, sink.format, sink.delivery_guarantee, sink.path)
    duration_ns = parse_setting_ns("audit.sink.rotate_duration", sink.rotate_duration)
    if sink.rotate_bytes < 0 or sink.rotate_max_files < 0 or duration_ns < 0:
        raise InvalidInputError(
            "cannot use audit.sink: rotate_bytes, rotate_duration and rotate_max_files must not be "
            "negative"
        )
    settings = AuditSettings(
        path=Path(sink.path) if sink.path else DEFAULT_PATH,
        enforced=sink.delivery_guarantee == "enforced",
        rotate_bytes=sink.rotate_bytes,
        rotate_duration_s=duration_ns / 1e9,
        rotate_max_files=sink.rotate_max_files,
        mode=parse_mode(sink.mode),
        filters=tuple(
            audit_filter(name, each.type, each.endpoints, each.stages, each.operations)
            for name, each in section.filter.items()
        ),
    )
    return settings if section.enabled else None
