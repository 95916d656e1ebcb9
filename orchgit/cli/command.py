"""Commands and groups of commands of the command line: what all of them have in common."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from orchgit.cli.go_flags import canonical, nearest

FAILURE = 1
_TWO_DASHES = re.compile(r", --[\w-]+")

LazyTable = Mapping[str, tuple[str, str, str]]
"""Name -> (module below orchgit.cli.commands, attribute, help in a few words)."""


class CliOption(click.Option):
    """An option whose help shows the spelling with one dash; `general` ones are listed last."""

    def __init__(self, *arguments: Any, general: bool = False, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.general = general

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        return record and (_TWO_DASHES.sub("", record[0]), record[1])


class CliCommand(click.Command):
    """A command that reads its options as Go programs do; see `orchgit.cli.go_flags`.

    `failure_code` is the exit code of whatever goes wrong. `ignores_extra`: further arguments, or
    as many as it says, are named in a warning instead of refused, as scripts written for Nomad may
    give them.
    """

    def __init__(
        self,
        *arguments: Any,
        failure_code: int = FAILURE,
        ignores_extra: bool | int = False,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.failure_code = failure_code
        self._most_extra = sys.maxsize if ignores_extra is True else int(ignores_extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not (ctx.resilient_parsing or ctx.ignore_unknown_options):
            try:
                args = canonical(args, self.get_params(ctx), ctx.allow_interspersed_args)
            except click.UsageError as error:
                error.ctx = ctx
                raise
        # What is too much is refused below, in words of our own.
        ctx.allow_extra_args = True
        try:
            extra = super().parse_args(ctx, args)
        except click.MissingParameter as error:
            name = error.param.human_readable_name if error.param else "an argument"
            raise click.UsageError(f"cannot run without {name}", ctx) from error
        if extra and not isinstance(self, CliGroup):
            names = " ".join(repr(each) for each in extra)
            what = "argument" if len(extra) == 1 else "arguments"
            if len(extra) > self._most_extra:
                ctx.fail(f"cannot use the {what} {names}: this command takes no more")
            click.echo(f"Warning: {what} {names} ignored: this command takes no more", err=True)
        return extra

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        general = [each for each in options if getattr(each, "general", False)]
        own = [each for each in options if each not in general]
        for title, listed in (("Options", own), ("General options", general)):
            records = [record for each in listed if (record := each.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class CliGroup(CliCommand, click.Group):
    """A group of commands. Those in `lazy` are imported when they are asked for, so that every
    command starts fast."""

    command_class = CliCommand

    def __init__(self, *arguments: Any, lazy: LazyTable | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.lazy: LazyTable = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.lazy, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module_name, attribute, _ = self.lazy[cmd_name]
        module = importlib.import_module(f"orchgit.cli.commands.{module_name}")
        command = getattr(module, attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing:
            path = ctx.command_path
            near = [f"`{path} {each}`" for each in nearest(name, self.list_commands(ctx))]
            hint = f"did you mean {' or '.join(near)}?" if near else f"`{path} -help` lists them"
            ctx.fail(f"cannot find command {name!r}: {hint}")
        return name if command else None, command, args[1:]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy:
                rows.append((name, self.lazy[name][2]))
            elif command := self.get_command(ctx, name):
                rows.append((name, command.get_short_help_str(limit=100)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


CliGroup.group_class = CliGroup


def cli_command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], CliCommand]:
    """Makes a `CliCommand` of a function, as click.command does."""
    return click.command(name, cls=CliCommand, **settings)


def cli_group(name: str, **settings: Any) -> Callable[[Callable[..., Any]], CliGroup]:
    """Makes a `CliGroup` of a function, as click.group does."""
    return click.group(name, cls=CliGroup, **settings)
