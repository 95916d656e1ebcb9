"""The settings of a source as options of the command line, and as the body of a request."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from orchgit.cli.gate_options import GateOptions, switched
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import named_values, option_field, options_of
from orchgit.durations import parse_length_ns


@dataclass(frozen=True, slots=True)
class SourceOptions:
    ref: str | None = option_field(
        "ref",
        help="What to follow: a branch, tag, full ref name or commit id, or the newest tag in a "
        "range of versions, 'semver:>=1.2 <2'; refs/heads/main at first.",
    )
    tag_prefix: str | None = option_field(
        "tag-prefix", help="With a range of versions: only tags that begin so, as in 'shop/v'."
    )
    prereleases: bool = option_field(
        "prereleases", is_flag=True, help="With a range of versions: pre-releases too."
    )
    no_prereleases: bool = option_field("no-prereleases", is_flag=True, help="Not -prereleases.")
    repository: str | None = option_field(
        "repository",
        help="Built-in repository to follow, which several sources may share; the source's name "
        "at first.",
    )
    path: tuple[str, ...] = option_field(
        "path", multiple=True, help="Glob of job files inside the tree; may be repeated."
    )
    exclude: tuple[str, ...] = option_field(
        "exclude", multiple=True, help="Glob of files that are no job files; may be repeated."
    )
    target_namespace: str | None = option_field(
        "target-namespace", help="Namespace of the source's jobs; default at first."
    )
    target_region: str | None = option_field(
        "target-region", help="Region of jobs that name none; the cluster's at first."
    )
    var: tuple[str, ...] = option_field(
        "var", multiple=True, help="Variable for the job files, NAME=VALUE; may be repeated."
    )
    var_file: tuple[str, ...] = option_field(
        "var-file", multiple=True, help="Path inside the tree of a variable file."
    )
    poll_interval: str | None = option_field(
        "poll-interval", help="How often to look for new commits; 15s at first."
    )
    rollout_deadline: str | None = option_field(
        "rollout-deadline",
        help="How long a job of a rollout may make no progress; 0: its own progress deadline.",
    )
    depends_on: tuple[str, ...] = option_field(
        "depends-on",
        multiple=True,
        help="Source that must be healthy first; may be repeated; '' depends on none.",
    )
    credential: str | None = option_field(
        "credential", help="Name of a credential of the server's config."
    )
    ca_file: str | None = option_field(
        "ca-file",
        help="File of PEM certificates: the authorities of an https:// remote, and no others; "
        "'' for those of the servers' machines.",
    )
    webhook_secret: str | None = option_field(
        "webhook-secret", help="Name of a webhook secret of the server's config."
    )
    allow_rewind: bool = option_field(
        "allow-rewind",
        is_flag=True,
        help="Apply commits that do not descend from the last.",
    )
    no_allow_rewind: bool = option_field("no-allow-rewind", is_flag=True, help="Not -allow-rewind.")
    adopt: bool = option_field(
        "adopt",
        is_flag=True,
        help="Take over jobs of removed sources, where there is a file of them.",
    )
    no_adopt: bool = option_field("no-adopt", is_flag=True, help="Not -adopt.")
    policy: tuple[str, ...] = option_field(
        "policy",
        multiple=True,
        help="Policy with whose rights commits are applied while access control is on; may be "
        "repeated; '' for none, '*' for all rights.",
    )

    drift: str | None = option_field(
        "drift",
        type=click.Choice(["report", "heal", "adopt"]),
        help="What becomes of jobs that were changed by hand; report at first.",
    )
    drift_ignore: tuple[str, ...] = option_field(
        "drift-ignore",
        multiple=True,
        help="Path that may differ, such as group.*.count; may be repeated; '' ignores none.",
    )
    drift_delay: str | None = option_field(
        "drift-delay", help="How long after a change a job is healed or adopted; 5s at first."
    )

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by their names in the API."""
        prereleases = switched("prereleases", self.prereleases, self.no_prereleases)
        tags = {"Prefix": self.tag_prefix, "Prereleases": prereleases}
        drift = {
            "Action": self.drift,
            "Ignore": [each for each in self.drift_ignore if each] if self.drift_ignore else None,
            "Delay": _length_ns(self.drift_delay),
        }
        settings = {
            "Ref": self.ref,
            "Tags": {name: value for name, value in tags.items() if value is not None} or None,
            "Repository": self.repository,
            "Paths": list(self.path) or None,
            "Exclude": list(self.exclude) or None,
            "Namespace": self.target_namespace,
            "Region": self.target_region,
            "VarFiles": list(self.var_file) or None,
            "PollInterval": _length_ns(self.poll_interval),
            "RolloutDeadline": _length_ns(self.rollout_deadline),
            "DependsOn": [each for each in self.depends_on if each] if self.depends_on else None,
            "Credential": self.credential,
            # No path removes the certificates; without the option they stay.
            "CaCertificates": text_of_path(self.ca_file) if self.ca_file else self.ca_file,
            "WebhookSecret": self.webhook_secret,
            "AllowRewind": switched("allow-rewind", self.allow_rewind, self.no_allow_rewind),
            "Adopt": switched("adopt", self.adopt, self.no_adopt),
            "Policies": [each for each in self.policy if each] if self.policy else None,
            "Drift": {name: value for name, value in drift.items() if value is not None} or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an option for each setting of a source.

    The command gets those given as `settings`, by their names in the API, and `variables` apart,
    since each has a name of its own.
    """

    @options_of(SourceOptions)
    @options_of(GateOptions, "gates")
    @wraps(command)
    def with_settings(options: SourceOptions, gates: GateOptions, **arguments: Any) -> Any:
        settings = options.settings() | gates.settings()
        return command(settings=settings, variables=named_values("var", options.var), **arguments)

    return with_settings  # type: ignore[no-any-return]


def location(url: str | None) -> dict[str, str]:
    """Returns the kind and the URL of a source from what a person writes."""
    if url is None:
        return {"Kind": "builtin", "URL": ""}
    if os.path.isdir(url):
        return {"Kind": "local", "URL": os.path.abspath(url)}
    return {"Kind": "remote", "URL": url}


def _length_ns(text: str | None) -> int | None:
    return None if text is None else parse_length_ns(text)
