"""`orchgit acl binding-rule`: create, list, info, update, delete."""

from __future__ import annotations

from dataclasses import dataclass

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option, option_field, options_of
from orchgit.cli.printing.acl_text import NONE, print_binding_rule
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("binding-rule")
def binding_rule() -> None:
    """What a login gives."""


@dataclass(frozen=True, slots=True)
class RuleOptions:
    description: str | None = option_field("description", help="What the rule is for.")
    selector: str | None = option_field(
        "selector", help="Which logins it is for, such as '\"ops\" in list.groups'."
    )
    bind_type: str | None = option_field("bind-type", help="role, policy or management.")
    bind_name: str | None = option_field(
        "bind-name", help="The role or policy that logins get; may hold ${value.NAME}."
    )

    def body(self) -> dict[str, str]:
        """Returns what is set, for a request."""
        given = {
            "Description": self.description,
            "Selector": self.selector,
            "BindType": self.bind_type,
            "BindName": self.bind_name,
        }
        return {key: value for key, value in given.items() if value is not None}


@binding_rule.command("create")
@option("auth-method", help="The auth method whose logins the rule is for.")
@options_of(RuleOptions)
@formatted
@connected
def create(
    client: ApiClient, auth_method: str | None, options: RuleOptions, output: OutputFormat
) -> None:
    """Create a binding rule."""
    if not auth_method:
        raise click.UsageError(
            "ACL binding rule auth method must be specified using the -auth-method flag"
        )
    if not options.bind_type:
        raise click.UsageError(
            "ACL binding rule bind type must be specified using the -bind-type flag"
        )
    made = client.put("/v1/acl/binding-rule", {"AuthMethod": auth_method, **options.body()})
    if not output.printed(made):
        print_binding_rule(made)


@binding_rule.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """All binding rules."""
    found = client.get("/v1/acl/binding-rules")
    if not output.printed(found):
        table(
            ("ID", "Description", "Auth Method"),
            (
                (each["ID"], plain(each["Description"] or NONE), plain(each["AuthMethod"]))
                for each in found
            ),
            empty="No ACL binding rules found",
        )


@binding_rule.command("info")
@click.argument("rule_id")
@formatted
@connected
def info(client: ApiClient, rule_id: str, output: OutputFormat) -> None:
    """One binding rule."""
    found = client.get(f"/v1/acl/binding-rule/{quoted(rule_id)}")
    if not output.printed(found):
        print_binding_rule(found)


@binding_rule.command("update")
@click.argument("rule_id")
@options_of(RuleOptions)
@formatted
@connected
def update(client: ApiClient, rule_id: str, options: RuleOptions, output: OutputFormat) -> None:
    """Change a binding rule. What is not named stays."""
    path = f"/v1/acl/binding-rule/{quoted(rule_id)}"
    found = client.get(path)
    kept = {name: found[name] for name in ("Description", "Selector", "BindType", "BindName")}
    changed = client.put(path, {"ID": found["ID"], **kept, **options.body()})
    if not output.printed(changed):
        print_binding_rule(changed)


@binding_rule.command("delete")
@click.argument("rule_id")
@connected
def delete(client: ApiClient, rule_id: str) -> None:
    """Delete a binding rule."""
    client.delete(f"/v1/acl/binding-rule/{quoted(rule_id)}")
    click.echo(f"ACL binding rule {rule_id} successfully deleted")
