"""The settings of a source as options of the command line, and as the body of a request."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.options import option
from orchgit.durations import parse_length_ns

_SWITCHES = (
    ("prune", "no-prune", "Stop jobs whose files are gone (as it is at first), or never do."),
    ("allow-rewind", "no-allow-rewind", "Apply commits that do not descend from the last."),
    ("adopt", "no-adopt", "Take over jobs of removed sources, where there is a file of them."),
)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each setting; the command gets those given, as `settings`: JSON names to
    values. `variables` are apart, since each has a name of its own."""

    @wraps(command)
    def with_settings(
        ref: str | None,
        path: tuple[str, ...],
        var: tuple[str, ...],
        var_file: tuple[str, ...],
        poll_interval: str | None,
        rollout_deadline: str | None,
        credential: str | None,
        webhook_secret: str | None,
        **arguments: Any,
    ) -> Any:
        settings: dict[str, Any] = {
            "Ref": full_ref(ref) if ref is not None else None,
            "Paths": list(path) or None,
            "VarFiles": list(var_file) or None,
            "PollInterval": _duration_ns(poll_interval),
            "RolloutDeadline": _duration_ns(rollout_deadline),
            "Credential": credential,
            "WebhookSecret": webhook_secret,
            "AllowRewind": _switched("allow-rewind", arguments),
            "Adopt": _switched("adopt", arguments),
        }
        prune = _switched("prune", arguments)
        settings["Prune"] = None if prune is None else {"Enabled": prune}
        return command(
            settings={name: value for name, value in settings.items() if value is not None},
            variables=dict(_variable(each) for each in var),
            **arguments,
        )

    added = with_settings
    for on, off, text in reversed(_SWITCHES):
        added = option(off, is_flag=True, help=f"Not -{on}.")(added)
        added = option(on, is_flag=True, help=text)(added)
    for decorate in reversed(_VALUES):
        added = decorate(added)
    return added


_VALUES = (
    option("ref", help="Branch, tag or full ref name to follow; refs/heads/main at first."),
    option("path", multiple=True, help="Glob of job files inside the tree; may be repeated."),
    option("var", multiple=True, help="Variable for the job files, NAME=VALUE; may be repeated."),
    option("var-file", multiple=True, help="Path inside the tree of a variable file."),
    option("poll-interval", help="How often to look for new commits; 15s at first."),
    option(
        "rollout-deadline",
        help="How long a job of a rollout may make no progress; 0: its own progress deadline.",
    ),
    option("credential", help="Name of a credential of the server's config."),
    option("webhook-secret", help="Name of a webhook secret of the server's config."),
)


def full_ref(ref: str) -> str:
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def location(url: str | None) -> dict[str, str]:
    """The kind and the URL that a source gets from what a person writes."""
    if url is None:
        return {"Kind": "builtin", "URL": ""}
    if os.path.isdir(url):
        return {"Kind": "local", "URL": os.path.abspath(url)}
    return {"Kind": "remote", "URL": url}


def _switched(name: str, arguments: dict[str, Any]) -> bool | None:
    """None where neither was given."""
    on = arguments.pop(name.replace("-", "_"))
    off = arguments.pop(f"no_{name.replace('-', '_')}")
    if on and off:
        raise ApiError(f"cannot use -{name} and -no-{name} together: give one of them")
    return bool(on) if on or off else None


def _duration_ns(text: str | None) -> int | None:
    if text is None:
        return None
    return parse_length_ns(text)


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ApiError(f"cannot read -var {text!r}: write NAME=VALUE")
    return name, value
