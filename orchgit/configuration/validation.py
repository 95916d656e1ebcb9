"""What `orchgit config validate` says of configuration files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchgit.configuration import nomad_checks
from orchgit.configuration.file import unusable, warnings_of
from orchgit.configuration.loading import load
from orchgit.configuration.plugins import plugin_warnings


@dataclass(slots=True)
class Validated:
    """Lines for standard output and standard error, in Nomad's words and then orchgit's."""

    valid: bool
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def validate(paths: Sequence[str]) -> Validated:
    """Reads and checks the files and directories in order."""
    loaded = load(paths)
    if loaded.failed:
        count = len(loaded.failed)
        result = Validated(False)
        result.errors.append(f"{count} error{'s' if count > 1 else ''} occurred:")
        for failed in loaded.failed:
            path = failed.path
            result.errors.append(f"\t* Error loading configuration from {path}: {failed.nomad}")
        result.errors += ["", *(line for failed in loaded.failed for line in failed.lines)]
        result.errors += [_unusable(line) for line in unusable(loaded)]
        return result
    verdict = nomad_checks.check(loaded.values)
    result = Validated(verdict.valid)
    result.errors += [f"No configuration loaded from {path}" for path in loaded.empty]
    result.errors += verdict.lines
    if verdict.valid:
        result.output.append("Configuration is valid!")
    else:
        result.errors.append("Configuration is invalid")
    result.errors += [_unusable(line) for line in unusable(loaded)]
    plugins = plugin_warnings(loaded.values.labelled.get("plugin", {}), loaded.places)
    result.errors += [f"WARNING: {text}" for text in (*plugins, *warnings_of(loaded))]
    return result


def _unusable(line: str) -> str:
    return f"WARNING: an agent does not start with this configuration: {line}"
