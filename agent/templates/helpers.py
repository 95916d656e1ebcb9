"""consul-template's functions that read nothing from outside."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from agent.templates.time_layouts import Moment
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import MAX_TEXT, StepBudget
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, is_number, text_fn
from orchgit.go_templates.go_json import from_json, to_json
from orchgit.go_templates.printing import formatted, quote
from orchgit.go_templates.values import (
    GoChannel,
    GoStruct,
    Int64,
    StringMap,
    Strings,
    Uint64,
    from_bytes,
    plain,
    sorted_keys,
    to_bytes,
    type_name,
)
from orchgit.regex import compile_pattern

_INT64 = 1 << 63
_MOST_ROUNDS = 1_000_000
_LIST = "[]interface {}"
_MAP = "map[string]interface {}"


def wrapped(number: int) -> Int64:
    """The number in 64 bits, as Go's sums have it."""
    return Int64((number + _INT64) % (2 * _INT64) - _INT64)


def check_length(characters: int) -> None:
    if characters > MAX_TEXT:
        raise InvalidInputError(f"the result has over {MAX_TEXT} characters, the limit")


# -- numbers ---------------------------------------------------------------------------------------


def _arithmetic(name: str, work: Callable[[Any, Any], Any]) -> GoFunction:
    def calculate(by: Any, value: Any) -> Any:
        for each in (by, value):
            if not is_number(each):
                shown = quote(each) if isinstance(each, str) else formatted(each)
                raise InvalidInputError(f"{name}: unknown type for {shown} ({type_name(each)})")
        result = work(value, by)
        return float(result) if isinstance(result, float) else wrapped(result)

    return any_fn(calculate, 2)


def go_divide(value: Any, by: Any) -> Any:
    """Whole numbers are cut towards zero."""
    if isinstance(value, float) or isinstance(by, float):
        if by == 0:
            return float("nan") if value == 0 else float("inf") if value > 0 else float("-inf")
        return value / by
    if by == 0:
        raise InvalidInputError("runtime error: integer divide by zero")
    size = abs(value) // abs(by)
    return size if (value < 0) == (by < 0) else -size


def go_modulo(value: Any, by: Any) -> Any:
    if isinstance(value, float) or isinstance(by, float):
        raise InvalidInputError("modulo: only whole numbers have a remainder")
    return value - by * go_divide(value, by)


def parse_int(text: str, function: str = "ParseInt") -> int:
    """A decimal number in 64 bits; errors are those of Go's strconv."""
    unsigned = function == "ParseUint"
    digits = text if unsigned else text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise InvalidInputError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")
    number = int(text) if len(text) < 30 else 2 * _INT64
    if not (0 <= number < 2 * _INT64 if unsigned else -_INT64 <= number < _INT64):
        raise InvalidInputError(f"strconv.{function}: parsing {quote(text)}: value out of range")
    return number


def _parse_int(text: str) -> Int64:
    if not text:
        return Int64(0)
    return Int64(_named("parseInt", lambda: parse_int(text)))


def _parse_uint(text: str) -> Uint64:
    if not text:
        return Uint64(0)
    return Uint64(_named("parseUint", lambda: parse_int(text, "ParseUint")))


def _named(name: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


_FLOAT = re.compile(
    r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan|0x[\da-f.]+p[+-]?\d+)",
    re.IGNORECASE,
)


def parse_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise InvalidInputError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    number = float.fromhex(text) if "x" in text.lower() else float(text)
    if number in (float("inf"), float("-inf")) and "i" not in text.lower():
        raise InvalidInputError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return number


def parse_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise InvalidInputError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def _loop(*bounds: Any) -> GoChannel:
    numbers = []
    for bound in bounds:
        if isinstance(bound, str):
            numbers.append(parse_int(bound))
        elif isinstance(bound, int) and not isinstance(bound, bool):
            numbers.append(int(bound))
        else:
            raise InvalidInputError(f"loop: bad parameter type {type_name(bound)}")
    if not 1 <= len(numbers) <= 2:
        got = len(numbers)
        raise InvalidInputError(f"loop: wrong number of arguments, expected 1 or 2, but got {got}")
    start, end = numbers if len(numbers) == 2 else (0, numbers[0])
    if end - start > _MOST_ROUNDS:
        raise InvalidInputError(f"loop: over {_MOST_ROUNDS} rounds")
    return GoChannel(Int64(number) for number in range(start, end))


# -- texts -----------------------------------------------------------------------------------------


def go_title(text: str) -> str:
    """The first letter of each word in upper case, the others as they are."""
    parts, after_letter = [], False
    for character in text:
        parts.append(character if after_letter else go_upper(character))
        is_word = character == "_" or character.isalnum()
        after_letter = is_word or (ord(character) > 0x7F and not character.isspace())
    return "".join(parts)


def go_upper(text: str) -> str:
    """Letter by letter: a letter that would become two stays as it is."""
    return "".join(each.upper() if len(each.upper()) == 1 else each for each in text)


def go_lower(text: str) -> str:
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)


def go_split(text: str, separator: str) -> Strings:
    return Strings(text.split(separator)) if separator else Strings(text)


def _split(separator: str, text: str) -> Strings:
    text = text.strip()
    return go_split(text, separator) if text else Strings()


def _split_to_map(separator: str, inner: str, text: str) -> StringMap:
    found = StringMap()
    for pair in _split(separator, text):
        key, mark, value = pair.partition(inner)
        if not mark:
            raise InvalidInputError(f"splitToMap: {quote(pair)} has no {quote(inner)}")
        found[key] = value
    return found


def _join(separator: str, values: list[str]) -> str:
    check_length(sum(map(len, values)) + len(separator) * len(values))
    return separator.join(values)


def replaced(text: str, old: str, new: str) -> str:
    check_length(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indent(spaces: int, text: str) -> str:
    if spaces < 0:
        raise InvalidInputError("indent value must be a positive integer")
    check_length(len(text) + spaces * (text.count("\n") + 1))
    return re.sub(r"(?m)^(?=[^\n])", " " * spaces, text)


def indented(spaces: int, text: str) -> str:
    """Each line, empty ones too, behind so many blanks."""
    check_length(len(text) + max(0, spaces) * (text.count("\n") + 1))
    return " " * spaces + text.replace("\n", "\n" + " " * spaces)


# -- lists and maps --------------------------------------------------------------------------------


def is_in(values: Any, value: Any) -> bool:
    values, value = plain(values), plain(value)
    if isinstance(values, str):
        return isinstance(value, str) and value in values
    if not isinstance(values, list) or isinstance(values, GoChannel):
        return False
    return any(_same(plain(each), value) for each in values)


def _same(each: Any, value: Any) -> bool:
    if isinstance(each, bool) or isinstance(value, bool):
        return False
    for kind in (str, int, float):
        if isinstance(each, kind):
            return isinstance(value, kind) and each == value
    return False


def _of(test: Callable[[int, int], bool]) -> GoFunction:
    """A function of (wanted, values); `test` gets how many are there, and how many are wanted."""

    def check(wanted: list[Any], values: list[Any]) -> bool:
        return test(sum(is_in(values, each) for each in wanted), len(wanted))

    return fn(check, _LIST, _LIST)


def _merged(winner: Mapping[str, Any], loser: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(loser)
    for key, value in winner.items():
        known = merged.get(key)
        if type(value) is dict and type(known) is dict:
            value = _merged(value, known)
        merged[key] = value
    return merged


def _explode_map(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted_keys(values):
        *directories, name = path.split("/")
        place = found
        for directory in directories:
            inner = place.setdefault(directory, {})
            if not isinstance(inner, dict):
                shown = f"%!q({type_name(inner)}={formatted(inner)})"
                raise InvalidInputError(
                    f"explodeMap: not a map: {quote(path)}: {quote(directory)} already has value "
                    f"{shown}"
                )
            place = inner
        value = values[path]
        place[name] = _explode_map(value) if type(value) is dict else value
    return found


def _by_tag(services: Any) -> dict[str, Any]:
    if not isinstance(services, list):
        raise InvalidInputError(f"don't know what to do with type {type_name(services)}")
    found: dict[str, Any] = {}
    for service in services:
        for tag in service.go_field("Tags"):
            found.setdefault(tag, []).append(service)
    return found


def _by_port(services: Any) -> dict[Any, Any]:
    if not isinstance(services, list):
        raise InvalidInputError(f"don't know what to do with type {type_name(services)}")
    found: dict[Any, Any] = {}
    for service in services:
        found.setdefault(service.go_field("Port"), []).append(service)
    return found


def _by_meta(keys: str, services: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for service in services or ():
        meta = service.go_field("Meta") or {}
        name = "_".join(str(meta.get(key.split("|")[0], "")) for key in keys.split(","))
        found.setdefault(name, []).append(service)
    return found


# -- encodings -------------------------------------------------------------------------------------

_STANDARD = frozenset((string.ascii_letters + string.digits + "+/").encode())
_URL = frozenset((string.ascii_letters + string.digits + "-_").encode())


def base64_decoded(text: str, for_urls: bool = False) -> str:
    """Raises InvalidInputError with the place of the first wrong byte."""
    data = to_bytes(text).replace(b"\r", b"").replace(b"\n", b"")
    known = _URL if for_urls else _STANDARD
    body = (
        data.rstrip(b"=")
        if len(data) % 4 == 0 and len(data) - len(data.rstrip(b"=")) <= 2
        else data
    )
    for place, byte in enumerate(body):
        if byte not in known:
            raise InvalidInputError(f"illegal base64 data at input byte {place}")
    if len(data) % 4:
        raise InvalidInputError(f"illegal base64 data at input byte {len(data) // 4 * 4}")
    return from_bytes((base64.urlsafe_b64decode if for_urls else base64.b64decode)(data))


def digest(kind: str) -> Callable[[str], str]:
    def hexadecimal(text: str) -> str:
        import hashlib  # loads OpenSSL; not on the start path of the process that renders

        return hashlib.new(kind, to_bytes(text), usedforsecurity=False).hexdigest()

    return hexadecimal


def _hmac(message: str, key: str) -> str:
    import hmac

    return hmac.new(to_bytes(key), to_bytes(message), "sha256").hexdigest()


def _from_yaml(text: str) -> Any:
    from agent.templates.yaml_text import from_yaml  # few templates need YAML, which loads slowly

    return from_yaml(text)


def _to_yaml(value: Any) -> str:
    from agent.templates.yaml_text import to_yaml

    return to_yaml(value)


def _to_toml(value: Any) -> str:
    from agent.templates.toml_text import to_toml

    return to_toml(value)


def timestamp_function(now_ns: int) -> GoFunction:
    def timestamp(*layouts: str) -> str:
        if len(layouts) > 1:
            raise InvalidInputError(
                f"timestamp: wrong number of arguments, expected 0 or 1, but got {len(layouts)}"
            )
        if not layouts:
            return Moment(now_ns).format("2006-01-02T15:04:05Z07:00")
        if layouts[0] == "unix":
            return str(now_ns // 1_000_000_000)
        return Moment(now_ns).format(layouts[0])

    return fn(timestamp, rest="string")


class Scratch(GoStruct):
    """Values that a template keeps under names while it is rendered."""

    go_type = "*template.Scratch"

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def go_method(self, name: str) -> Callable[..., Any] | None:
        return {  # type: ignore[return-value]
            "Key": text_fn(lambda key: key in self._values),
            "Get": text_fn(lambda key: self._values.get(key)),
            "Set": fn(self._set, "string", ANY),
            "SetX": fn(self._set_once, "string", ANY),
            "MapSet": fn(self._map_set, "string", "string", ANY),
            "MapSetX": fn(self._map_set_once, "string", "string", ANY),
            "MapValues": text_fn(self._map_values),
        }.get(name)

    def _set(self, key: str, value: Any) -> str:
        self._values[key] = value
        return ""

    def _set_once(self, key: str, value: Any) -> str:
        self._values.setdefault(key, value)
        return ""

    def _map(self, key: str) -> dict[str, Any]:
        found = self._values.setdefault(key, {})
        if not isinstance(found, dict):
            raise InvalidInputError(f"{quote(key)} is not a map")
        return found

    def _map_set(self, key: str, inner: str, value: Any) -> str:
        self._map(key)[inner] = value
        return ""

    def _map_set_once(self, key: str, inner: str, value: Any) -> str:
        self._map(key).setdefault(inner, value)
        return ""

    def _map_values(self, key: str) -> list[Any]:
        if key not in self._values:
            return []
        values = self._map(key)
        return [values[inner] for inner in sorted_keys(values)]


def regex_functions(budget: StepBudget) -> dict[str, GoFunction]:
    return {
        "regexMatch": text_fn(lambda pattern, text: compile_pattern(pattern).search(text), 2),
        "regexReplaceAll": text_fn(
            lambda pattern, new, text: compile_pattern(pattern).replace(text, new, budget.spend), 3
        ),
    }


PURE: dict[str, GoFunction] = {
    "add": _arithmetic("add", lambda value, by: value + by),
    "subtract": _arithmetic("subtract", lambda value, by: value - by),
    "multiply": _arithmetic("multiply", lambda value, by: value * by),
    "divide": _arithmetic("divide", go_divide),
    "modulo": _arithmetic("modulo", go_modulo),
    "minimum": _arithmetic("minimum", min),
    "maximum": _arithmetic("maximum", max),
    "loop": fn(_loop, rest=ANY),
    "parseBool": text_fn(
        lambda text: _named("parseBool", lambda: parse_bool(text)) if text else False
    ),
    "parseFloat": text_fn(
        lambda text: _named("parseFloat", lambda: parse_float(text)) if text else 0.0
    ),
    "parseInt": text_fn(_parse_int),
    "parseUint": text_fn(_parse_uint),
    "parseJSON": text_fn(lambda text: from_json(text) if text else {}),
    "parseYAML": text_fn(_from_yaml),
    "in": any_fn(is_in, 2),
    "contains": any_fn(lambda value, values: is_in(values, value), 2),
    "containsAll": _of(lambda found, wanted: found == wanted),
    "containsAny": _of(lambda found, wanted: found > 0),
    "containsNone": _of(lambda found, wanted: found == 0),
    "containsNotAll": _of(lambda found, wanted: found < wanted),
    "join": fn(_join, "string", "[]string"),
    "split": text_fn(_split, 2),
    "splitToMap": text_fn(_split_to_map, 3),
    "replaceAll": text_fn(lambda old, new, text: replaced(text, old, new), 3),
    "toLower": text_fn(go_lower),
    "toUpper": text_fn(go_upper),
    "toTitle": text_fn(go_title),
    "trim": text_fn(lambda cut, text: text.strip(cut) if cut else text, 2),
    "trimSpace": text_fn(str.strip),
    "trimPrefix": text_fn(lambda prefix, text: text.removeprefix(prefix), 2),
    "trimSuffix": text_fn(lambda suffix, text: text.removesuffix(suffix), 2),
    "indent": fn(_indent, "int", "string"),
    "toJSON": any_fn(lambda value: _named("toJSON", lambda: to_json(value))),
    "toJSONPretty": any_fn(lambda value: _named("toJSONPretty", lambda: to_json(value, "  "))),
    "toUnescapedJSON": any_fn(
        lambda value: _named("toUnescapedJSON", lambda: to_json(value, for_html=False))
    ),
    "toUnescapedJSONPretty": any_fn(
        lambda value: _named("toUnescapedJSONPretty", lambda: to_json(value, "  ", False))
    ),
    "toYAML": any_fn(_to_yaml),
    "toTOML": any_fn(_to_toml),
    "base64Encode": text_fn(lambda text: base64.b64encode(to_bytes(text)).decode()),
    "base64Decode": text_fn(lambda text: _named("base64Decode", lambda: base64_decoded(text))),
    "base64URLEncode": text_fn(lambda text: base64.urlsafe_b64encode(to_bytes(text)).decode()),
    "base64URLDecode": text_fn(
        lambda text: _named("base64URLDecode", lambda: base64_decoded(text, for_urls=True))
    ),
    "sha256Hex": text_fn(digest("sha256")),
    "md5sum": text_fn(digest("md5")),
    "hmacSHA256Hex": text_fn(_hmac, 2),
    "explodeMap": fn(_explode_map, _MAP),
    "mergeMap": fn(
        lambda winner, loser, *_: _merged(winner, loser), _MAP, _MAP, rest="func(*mergo.Config)"
    ),
    "mergeMapWithOverride": fn(lambda loser, winner: _merged(winner, loser), _MAP, _MAP),
    "byTag": any_fn(_by_tag),
    "byPort": any_fn(_by_port),
    "byMeta": fn(_by_meta, "string", "[]*dep.HealthService"),
    "byKey": fn(lambda pairs: {}, "[]*dep.KeyPair"),
    "explode": fn(lambda pairs: {}, "[]*dep.KeyPair"),
}
