"""Reads the command line as Go programs do: `-name value`, `-name=value`, `-flag=false`. Pure but
for the names of the options, which come from click's parameters."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import click

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_SHOWN_NAMES = 3


class UnknownOptionError(click.UsageError):
    """An option that the command does not have."""


def canonical(
    arguments: Sequence[str], parameters: Iterable[click.Parameter], may_mix: bool
) -> list[str]:
    """Returns the arguments with every option in the one spelling that click reads without doubt.

    Values become part of the option's argument, so a value may begin with a dash. `may_mix`:
    options may follow other arguments; otherwise what follows the first of those is left as it is.
    Raises UnknownOptionError, which names the nearest options, and click.UsageError.
    """
    options = {
        name.lstrip("-"): each
        for each in parameters
        if isinstance(each, click.Option)
        for name in (*each.opts, *each.secondary_opts)
    }
    result: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*result, argument, *rest]
        if argument == "-" or not argument.startswith("-"):
            result.append(argument)
            if may_mix:
                continue
            return [*result, *rest]
        name, has_value, value = argument[1:].removeprefix("-").partition("=")
        option = options.get(name)
        if option is None:
            near = [f"-{each}" for each in nearest(name, options)]
            hint = f"did you mean {' or '.join(near)}?" if near else "-help lists the options"
            raise UnknownOptionError(f"cannot find option -{name}: {hint}")
        spellings = (*option.opts, *option.secondary_opts)
        spelling = next(each for each in (f"--{name}", f"-{name}") if each in spellings)
        if option.is_flag or option.count:
            if has_value and value not in _TRUE | _FALSE:
                raise click.UsageError(f"cannot read -{name}={value}: write true or false")
            if has_value and value in _FALSE:
                # A flag that is on by default has a second name, which switches it off.
                result += [each for each in option.secondary_opts if each.startswith("--")]
            else:
                result.append(spelling)
            continue
        if not has_value:
            if not rest:
                raise click.UsageError(f"cannot use -{name} alone: it needs a value")
            value = rest.pop(0)
        # click takes "=" for a part of the value of an option with one dash.
        result += [f"{spelling}={value}"] if spelling.startswith("--") else [spelling, value]
    return result


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that the user may have meant, the likeliest first."""
    return difflib.get_close_matches(name, sorted(names), _SHOWN_NAMES, 0.6)
