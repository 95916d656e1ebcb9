"""The functions of a task's templates beside Go's own; only those of `TemplateSources` do I/O."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import MAX_TEXT, StepBudget
from orchgit.go_templates.functions import Function, text_of
from orchgit.regex import compile_pattern

NS_PER_S = 1_000_000_000

_NOT_HERE = (
    "key", "keyOrDefault", "keyExists", "ls", "safeLs", "tree", "safeTree", "secret", "secrets",
    "service", "services", "node", "nodes", "datacenters", "connect", "caRoots", "caLeaf",
    "pkiCert", "nomadVar", "nomadVarList", "nomadVarExists", "nomadService", "nomadServices",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TemplateSources:
    """What a template may read beside its own text."""

    env: Mapping[str, str]
    read_file: Callable[[str], str]
    """A file of the task's own directory; raises InvalidInputError."""
    now_ns: int


def task_functions(sources: TemplateSources, budget: StepBudget) -> dict[str, Function]:
    """Every function by name, for `render`."""
    env = sources.env
    return {
        **_PURE,
        **{name: _missing(name) for name in _NOT_HERE},
        "env": lambda name: env.get(name, ""),
        "mustEnv": lambda name: _must_env(env, name),
        "envOrDefault": lambda name, default: env.get(name, default),
        "file": sources.read_file,
        "regexReplaceAll": lambda pattern, new, text: compile_pattern(pattern).replace(
            text, new, budget.spend
        ),
        "timestamp": lambda layout="": _timestamp(sources.now_ns, layout),
    }


def _missing(name: str) -> Function:
    def refuse(*_arguments: object) -> object:
        raise InvalidInputError(
            f'function "{name}" reads from a service that this node does not talk to'
        )

    return refuse


def _must_env(env: Mapping[str, str], name: str) -> str:
    if name not in env:
        raise InvalidInputError(f'environment variable "{name}" is not set')
    return env[name]


def _timestamp(now_ns: int, layout: str) -> str:
    moment = datetime.fromtimestamp(now_ns // NS_PER_S, UTC)
    if layout == "unix":
        return str(now_ns // NS_PER_S)
    if layout:
        raise InvalidInputError(f'timestamp layout "{layout}" is not supported, only "unix"')
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"parseJSON: {error}") from None


def _parse_int(text: str) -> int:
    try:
        return int(text) if text else 0
    except ValueError:
        raise InvalidInputError(f'parseInt: "{text}" is not a whole number') from None


def _parse_bool(text: str) -> bool:
    if text.lower() in ("1", "t", "true"):
        return True
    if text.lower() in ("0", "f", "false", ""):
        return False
    raise InvalidInputError(f'parseBool: "{text}" is neither true nor false')


def _multiply(by: Any, value: Any) -> Any:
    if not isinstance(by, int | float) or not isinstance(value, int | float):
        raise InvalidInputError("multiply: only numbers can be multiplied")
    return value * by


def _join(separator: str, values: Any) -> str:
    parts = [text_of(value) for value in values]
    _check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _replace_all(old: str, new: str, text: str) -> str:
    _check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indent(spaces: int, text: str) -> str:
    _check_length(len(text) + max(0, spaces) * (text.count("\n") + 1))
    return "\n".join(" " * spaces + line for line in text.split("\n"))


def _check_length(characters: int) -> None:
    if characters > MAX_TEXT:
        raise InvalidInputError(f"the result has over {MAX_TEXT} characters, the limit")


def _divide(by: Any, value: Any) -> Any:
    if not by:
        raise InvalidInputError("divide: by zero")
    return value // by if isinstance(value, int) and isinstance(by, int) else value / by


def _modulo(by: int, value: int) -> int:
    if not by:
        raise InvalidInputError("modulo: by zero")
    return value % by


def _loop(*bounds: int) -> list[int]:
    if any(abs(bound) > 1_000_000 for bound in bounds):
        raise InvalidInputError("loop: over 1000000 rounds")
    return list(range(*bounds))


def _digest(kind: str) -> Function:
    def digest(text: str) -> str:
        import hashlib  # loads OpenSSL; not on the start path of the process that renders

        return hashlib.new(kind, text.encode(), usedforsecurity=False).hexdigest()

    return digest


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError as error:
        raise InvalidInputError(f"base64Decode: {error}") from None


_PURE: dict[str, Function] = {
    "add": lambda by, value: value + by,
    "subtract": lambda by, value: value - by,
    "multiply": _multiply,
    "divide": _divide,
    "modulo": _modulo,
    "minimum": lambda first, second: min(first, second),
    "maximum": lambda first, second: max(first, second),
    "loop": _loop,
    "in": lambda values, value: value in values,
    "contains": lambda part, values: part in values,
    "join": _join,
    "split": lambda separator, text: text.split(separator) if text else [],
    "replaceAll": _replace_all,
    "regexMatch": lambda pattern, text: compile_pattern(pattern).search(text),
    "toLower": str.lower,
    "toUpper": str.upper,
    "toTitle": str.title,
    "trimSpace": str.strip,
    "trim": lambda cut, text: text.strip(cut),
    "trimPrefix": lambda prefix, text: text.removeprefix(prefix),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "indent": _indent,
    "parseJSON": _parse_json,
    "parseInt": _parse_int,
    "parseFloat": float,
    "parseBool": _parse_bool,
    "toJSON": lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True),
    "toJSONPretty": lambda value: json.dumps(value, indent=2, sort_keys=True),
    "base64Encode": lambda text: base64.b64encode(text.encode()).decode(),
    "base64Decode": _decoded,
    "sha256Hex": _digest("sha256"),
    "sha1Hex": _digest("sha1"),
    "md5sum": _digest("md5"),
}
