"""The functions of a task's templates: Go's, consul-template's, sprig's, and those that read the
cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agent.templates.debug import DEBUG
from agent.templates.helpers import PURE, regex_functions, timestamp_function
from agent.templates.helpers.scratch import Scratch
from agent.templates.nomad_values import (
    NomadVarItems,
    service_names,
    service_of,
    variable_metadata,
)
from agent.templates.outside import Reading, outside_functions
from agent.templates.queries import Query, QueryKind, service_query, variable_query
from agent.templates.sprig import sprig_functions
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import ANY, GoFunction, fn, text_fn
from orchgit.go_templates.values import to_bytes

DENIED = ("executeTemplate", "plugin", "writeToFile")
"""Functions that the node refuses unless its configuration says otherwise."""


class Known(Enum):
    """How much is known about what a query asks for."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    """The servers have not answered yet."""


@dataclass(frozen=True, slots=True)
class TemplateSources:
    """What a template may read beside its own text. `addresses` are the node's interfaces."""

    env: Mapping[str, str]
    read_file: Callable[[str], str]
    """A file of the task's own directory; raises InvalidInputError."""
    now_ns: int
    ask: Callable[[Query], tuple[Known, Any]]
    """What is known of a query, and its value."""
    sockaddr: Callable[[str], str]
    region: str = "global"
    namespace: str = "default"
    denied: frozenset[str] = frozenset(DENIED)


def task_functions(
    sources: TemplateSources, budget: StepBudget, reading: Reading
) -> dict[str, GoFunction]:
    """Every function by name, for `render`."""
    env = sources.env
    scratch = Scratch()
    cluster = _Cluster(sources, reading)
    functions = {
        **PURE,
        **DEBUG,
        **regex_functions(budget),
        **{f"sprig_{name}": function for name, function in sprig_functions(budget).items()},
        **cluster.functions(),
        "env": text_fn(lambda name: env.get(name, "")),
        "mustEnv": text_fn(lambda name: _must_env(env, name)),
        "envOrDefault": text_fn(lambda name, default: env.get(name, default), 2),
        "file": text_fn(lambda path: sources.read_file(path) if path else ""),
        "scratch": fn(lambda: scratch),
        "sockaddr": text_fn(sources.sockaddr),
        "timestamp": timestamp_function(sources.now_ns),
        "executeTemplate": fn(_not_offered("executeTemplate"), "string", rest=ANY),
        "plugin": fn(_not_offered("plugin"), "string", rest=ANY),
        "writeToFile": fn(_not_offered("writeToFile"), "string", rest="string"),
    }
    for name in sources.denied:
        functions[name] = fn(_denied, rest=ANY)
    return functions


def _denied(*_arguments: object) -> object:
    raise InvalidInputError("function is disabled")


def _not_offered(name: str) -> Callable[..., Any]:
    def refuse(*_arguments: object) -> object:
        raise InvalidInputError(f"cannot use {name}: templates run no programs and write one file")

    return refuse


def _must_env(env: Mapping[str, str], name: str) -> str:
    if name not in env:
        raise InvalidInputError(f"mustEnv: environment variable {name} is not set")
    return env[name]


class _Cluster:
    """The functions that read variables, services, and what needs Consul or Vault."""

    def __init__(self, sources: TemplateSources, reading: Reading) -> None:
        self._sources = sources
        self._reading = reading

    def functions(self) -> dict[str, GoFunction]:
        return {
            **outside_functions(self._ask, self._reading),
            "nomadVar": text_fn(self._variable),
            "nomadVarExists": text_fn(self._exists),
            "nomadVarList": fn(lambda *given: self._list(given), rest="string"),
            "nomadVarListSafe": fn(lambda *given: self._list(given, safe=True), rest="string"),
            "nomadService": fn(self._service, rest=ANY),
            "nomadServices": fn(self._services),
        }

    def _ask(self, query: Query, shown: str, must_exist: bool) -> Any:
        """The query's value; None, and it is missing, while there is none."""
        known, value = self._sources.ask(query)
        if known is Known.FOUND:
            return value
        if known is Known.UNKNOWN or must_exist:
            self._reading.missing.add(shown)
        return None

    def _full(self, query: Query) -> str:
        """`path@namespace.region`."""
        namespace = query.namespace or self._sources.namespace
        return f"{query.name}@{namespace}.{query.region or self._sources.region}"

    def _variable(self, path: str) -> Any:
        if not path:
            return NomadVarItems({}, None)
        query = variable_query(QueryKind.VARIABLE, path)
        found = self._ask(query, f"nomad.var.block({self._full(query)})", must_exist=True)
        if found is None:
            return NomadVarItems({}, None)
        self._reading.secrets.update(value for value in found["Items"].values() if value)
        return NomadVarItems(found["Items"], variable_metadata(found))

    def _exists(self, path: str) -> bool:
        query = variable_query(QueryKind.VARIABLE, path)
        return self._ask(query, f"nomad.var.exists({self._full(query)})", False) is not None

    def _list(self, given: tuple[str, ...], safe: bool = False) -> Any:
        if len(given) > 1:
            name = "nomadVarListSafe" if safe else "nomadVarList"
            raise InvalidInputError(
                f"{name}: wrong number of arguments, expected 0 or 1 but got {len(given)}"
            )
        query = variable_query(QueryKind.VARIABLES, given[0] if given else "")
        shown = f"nomad.var.list({self._full(query)})"
        found = self._ask(query, shown, must_exist=safe) or []
        if safe and not found:
            self._reading.missing.add(shown)
        return [variable_metadata(each) for each in found]

    def _service(self, *given: Any) -> Any:
        count, key = 0, ""
        if len(given) == 3:
            count, key = given[0], given[1]
            if not isinstance(count, int) or isinstance(count, bool):
                raise InvalidInputError("expected integer for <count> argument")
            if not isinstance(key, str):
                raise InvalidInputError("expected string for <key> argument")
        if len(given) not in (1, 3) or not isinstance(given[-1], str):
            raise InvalidInputError("expected arguments <service> or <count> <key> <service>")
        query, tag = service_query(given[-1])
        at_region = f"@{query.region}" if query.region else ""
        shown = f"nomad.service({given[-1].removesuffix(at_region)}{at_region})"
        if len(given) == 3:
            shown = f"{shown[:-1]}:{int(count)}|{key})"
        if count < 0:
            self._reading.missing.add(shown)
            return []
        found = self._ask(query, shown, must_exist=bool(query.region)) or []
        services = [each for each in found if not tag or tag in (each.get("Tags") or ())]
        services.sort(key=lambda each: (each["Address"], each["Port"], each["ID"]))
        if len(given) == 3:
            services = _chosen(services, int(count), key)
        return [service_of(each) for each in services]

    def _services(self) -> Any:
        query = Query(QueryKind.SERVICES, "")
        found = self._ask(query, "nomad.services", must_exist=False) or []
        return service_names(sorted(found, key=lambda each: str(each["ServiceName"])))


def _chosen(services: list[Any], count: int, key: str) -> list[Any]:
    """The `count` services whose hash with the key is highest: few change when services do."""
    import hashlib

    def weight(service: Mapping[str, Any]) -> bytes:
        text = f"{key}{service['ID']}"
        return hashlib.sha256(to_bytes(text)).digest()

    return sorted(services, key=weight)[:count]
