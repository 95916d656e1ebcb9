"""Options that many commands share. Long options are accepted with one dash and with two."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, TypeVar

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.command import CliOption
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError

Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    name: str,
    *aliases: str,
    dest: str | None = None,
    switchable: bool = False,
    **settings: Any,
) -> Callable[[Function], Function]:
    """`-name` and `--name` (and the same for aliases), stored as `dest`, or else as `name`.

    `switchable`: a flag that is on, or decided otherwise, unless `-name=false` or `-no-name`.
    """
    spellings = [
        f"{dash}{each}" + (f"/{dash}no-{each}" if switchable else "")
        for each in (name, *aliases)
        for dash in ("-", "--")
    ]
    return click.option(dest or name.replace("-", "_"), *spellings, cls=CliOption, **settings)


def _general(name: str, **settings: Any) -> Callable[[Function], Function]:
    return option(name, general=True, **settings)


def option_field(name: str, *aliases: str, **settings: Any) -> Any:
    """A field of a dataclass of options, declared like `option`; see `options_of`."""
    unset = () if settings.get("multiple") else False if settings.get("is_flag") else None
    return field(
        default=settings.get("default", unset),
        metadata={"names": (name, *aliases), "settings": settings},
    )


def options_of(struct: type, argument: str = "options") -> Callable[[Function], Any]:
    """Adds the options that the fields of the dataclass `struct` declare.

    The command gets one instance of `struct`, as `argument`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        declared = fields(struct)

        @wraps(command)
        def with_struct(**arguments: Any) -> Any:
            values = {each.name: arguments.pop(each.name) for each in declared}
            return command(**{argument: struct(**values)}, **arguments)

        added = with_struct
        for each in reversed(declared):
            names, settings = each.metadata["names"], each.metadata["settings"]
            added = option(*names, dest=each.name, **settings)(added)
        return added

    return decorate


def named_values(option_name: str, given: Sequence[str]) -> dict[str, str]:
    """The NAME=VALUE texts of an option as a map; raises click.UsageError for anything else."""
    if wrong := [text for text in given if "=" not in text]:
        raise click.UsageError(f"cannot read -{option_name} {wrong[0]!r}: write NAME=VALUE")
    return dict(text.split("=", 1) for text in given)


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def client_of(
    address: str | None,
    namespace: str | None,
    region: str | None,
    token: str | None,
    tls: TlsClient,
) -> ApiClient:
    """Returns the client that the options ask for, or else the environment."""
    return ApiClient(
        address=address or _environment("ORCHGIT_ADDR", "NOMAD_ADDR"),
        namespace=namespace or _environment("ORCHGIT_NAMESPACE", "NOMAD_NAMESPACE"),
        region=region or _environment("ORCHGIT_REGION", "NOMAD_REGION"),
        token=token or _environment("ORCHGIT_TOKEN", "NOMAD_TOKEN"),
        tls=tls,
    )


_NO_SERVER = "this command asks no server"
_TLS_FILES = ("ca-cert", "ca-path", "client-cert", "client-key")
_OF_STRANGE_ANSWERS = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
)


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the connection options and passes an `ApiClient` as the argument `client`."""

    @_general(
        "address", help="A server's address, or several with commas [ORCHGIT_ADDR, NOMAD_ADDR]."
    )
    @_general("namespace", help="Namespace of the request [ORCHGIT_NAMESPACE, NOMAD_NAMESPACE].")
    @_general("region", help="Region to ask [ORCHGIT_REGION, NOMAD_REGION].")
    @_general("token", help="Access token [ORCHGIT_TOKEN, NOMAD_TOKEN].")
    @_colour_options
    @_tls_options
    @wraps(command)
    def with_client(
        address: str | None,
        namespace: str | None,
        region: str | None,
        token: str | None,
        tls: TlsClient,
        **arguments: Any,
    ) -> Any:
        with client_of(address, namespace, region, token, tls) as client:
            try:
                return command(client=client, **arguments)
            except _OF_STRANGE_ANSWERS as error:
                # Commands read answers as the API documents them: any other form ends here.
                if os.environ.get("ORCHGIT_TRACEBACK"):
                    raise
                raise client.unexpected(error) from error

    return with_client


def unconnected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the connection options to a command that asks no server; a given one is warned of."""
    for name in ("token", "region", "address", *_TLS_FILES, "tls-server-name"):
        command = no_effect_option(name, _NO_SERVER, general=True)(command)
    skip = no_effect_option("tls-skip-verify", _NO_SERVER, general=True, is_flag=True)
    return skip(_colour_options(command))


def _colour_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds -no-color and -force-color."""
    for name, colours, says in (
        ("no-color", False, "Print without colours [NO_COLOR, NOMAD_CLI_NO_COLOR]."),
        ("force-color", True, "Print with colours, whatever reads them [NOMAD_CLI_FORCE_COLOR]."),
    ):

        def chosen(
            context: click.Context, _: click.Parameter, given: bool, colours: bool = colours
        ) -> None:
            if given:
                context.color = colours

        add = _general(name, is_flag=True, expose_value=False, callback=chosen, help=says)
        command = add(command)
    return command


def tls_client_of(given: TlsClient) -> TlsClient:
    """Returns what is given, and what the environment says of the rest."""
    return TlsClient(
        ca_cert=given.ca_cert or _of_both("CACERT"),
        ca_path=given.ca_path or _of_both("CAPATH"),
        client_cert=given.client_cert or _of_both("CLIENT_CERT"),
        client_key=given.client_key or _of_both("CLIENT_KEY"),
        server_name=given.server_name or _of_both("TLS_SERVER_NAME"),
        skip_verify=given.skip_verify or _is_true("SKIP_VERIFY"),
    )


def _tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of https:// and passes them as the argument `tls`."""

    @_general("ca-cert", help="PEM file of the authority of the servers [NOMAD_CACERT].")
    @_general("ca-path", help="Directory of such files, if there is no -ca-cert [NOMAD_CAPATH].")
    @_general("client-cert", help="PEM file of the certificate to show [NOMAD_CLIENT_CERT].")
    @_general("client-key", help="PEM file of its key [NOMAD_CLIENT_KEY].")
    @_general(
        "tls-server-name", help="Server name to verify in the certificate [NOMAD_TLS_SERVER_NAME]."
    )
    @_general("tls-skip-verify", is_flag=True, help="Trust any certificate [NOMAD_SKIP_VERIFY].")
    @wraps(command)
    def with_tls(
        ca_cert: str | None,
        ca_path: str | None,
        client_cert: str | None,
        client_key: str | None,
        tls_server_name: str | None,
        tls_skip_verify: bool,
        **arguments: Any,
    ) -> Any:
        given = TlsClient(
            ca_cert or "",
            ca_path or "",
            client_cert or "",
            client_key or "",
            tls_server_name or "",
            tls_skip_verify,
        )
        return command(tls=tls_client_of(given), **arguments)

    return with_tls


def _of_both(name: str) -> str:
    return _environment(f"ORCHGIT_{name}", f"NOMAD_{name}") or ""


def _is_true(name: str) -> bool:
    text = _of_both(name)
    if text.lower() in ("", "0", "f", "false"):
        return False
    if text.lower() in ("1", "t", "true"):
        return True
    raise InvalidInputError(f"cannot use {name} = {text!r} of the environment: write true or false")


def formatted(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `-json` and `-t TEMPLATE`, and passes an `OutputFormat` as the argument `output`."""

    @option("json", dest="as_json", is_flag=True, help="Print the answer as JSON.")
    @option("t", dest="template", help="Format the answer with a Go template, such as '{{.ID}}'.")
    @wraps(command)
    def with_output(as_json: bool, template: str | None, **arguments: Any) -> Any:
        return command(output=OutputFormat(as_json, template), **arguments)

    return with_output


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which part of a list to show."""

    filter: str | None = option_field(
        "filter", help="Only what this expression is true of, as in 'Status == \"running\"'."
    )
    per_page: int | None = option_field("per-page", type=int, help="At most so many.")
    page_token: str | None = option_field("page-token", help="Where the last page ended.")

    def params(self) -> dict[str, Any]:
        return {"filter": self.filter, "per_page": self.per_page, "next_token": self.page_token}

    def get(self, client: ApiClient, path: str, **params: Any) -> Any:
        """Returns the part of a list; says on standard error how to get the next one."""
        found, token = client.get_page(path, **self.params(), **params)
        if token and self.per_page:
            click.echo(f"There is more: the next page begins with -page-token {token}", err=True)
        return found


def no_effect_option(name: str, why: str, **settings: Any) -> Callable[[Function], Function]:
    """An option that scripts written for Nomad may give: it is accepted, and warned of."""

    def warn(_: click.Context, __: click.Parameter, given: object) -> None:
        if given:
            click.echo(f"Warning: -{name} has no effect: {why}", err=True)

    help_text = f"Accepted for Nomad's scripts, without effect: {why}."
    return option(name, expose_value=False, callback=warn, help=help_text, **settings)


def length(text: str) -> str:
    """The type of an option that takes a length of time, such as 30s. Returns the text."""
    try:
        parse_length_ns(text)
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error
    return text


enterprise_option = no_effect_option(
    "policy-override", "there are no Sentinel policies", is_flag=True
)
filter_option = option("filter", help="Only what this expression is true of.")
ui_option = no_effect_option("ui", "`orchgit ui` prints the address of a page", is_flag=True)
whole_ids_option = no_effect_option("verbose", "ids are printed whole anyway", is_flag=True)
verbose_option = option("verbose", is_flag=True, help="Show whole ids and more columns.")
detach_option = option("detach", is_flag=True, help="Return at once instead of watching.")
yes_option = option("yes", is_flag=True, help="Do not ask for confirmation.")
