"""`orchgit completion SHELL`: the script that completes commands, options and ids."""

from __future__ import annotations

import click

from orchgit.cli.command import cli_command

_HOW = """\
# orchgit completion for {shell}. To use it now:      {now}
# To use it in every shell from now on:  {always}
"""
_SHELLS = {
    "bash": (
        'eval "$(orchgit completion bash)"',
        "orchgit completion bash > ~/.local/share/bash-completion/completions/orchgit",
    ),
    "zsh": (
        'eval "$(orchgit completion zsh)"',
        "add that line to ~/.zshrc, after compinit",
    ),
    "fish": (
        "orchgit completion fish | source",
        "orchgit completion fish > ~/.config/fish/completions/orchgit.fish",
    ),
}


@cli_command("completion")
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
def completion(shell: str) -> None:
    """Print a script for SHELL that completes commands, options and ids.

    \b
      eval "$(orchgit completion bash)"
    """
    from click.shell_completion import get_completion_class

    from orchgit.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    now, always = _SHELLS[shell]
    click.echo(_HOW.format(shell=shell, now=now, always=always))
    script = found(cli, {}, "orchgit", "_ORCHGIT_COMPLETE")
    template = script.source_template
    if shell == "fish":
        # click's own script cuts a description, or an id, at its second comma.
        template = template.replace('string split ","', 'string split -m 1 ","')
    click.echo(template % script.source_vars())
