"""Sprig's functions of defaults, JSON, paths, times, URLs, versions and patterns."""

from __future__ import annotations

import base64
import posixpath
import re
from typing import Any

from agent.templates.go_times import ZERO_TIME, GoTime
from agent.templates.helpers.encodings import base64_decoded
from agent.templates.sprig.urls import joined_url, parsed_url
from agent.templates.sprig.values import is_empty, to_int
from agent.templates.sprig.versions import VERSIONS
from agent.templates.time_layouts import parse_time
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, text_fn
from orchgit.go_templates.go_json import from_json, to_json
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import NilStrings, Strings, from_bytes, to_bytes, type_name
from orchgit.regex import compile_pattern


def _coalesced(*values: Any) -> Any:
    return next((value for value in values if not is_empty(value)), None)


def _default(default: Any, *given: Any) -> Any:
    return default if not given or is_empty(given[0]) else given[0]


def _from_json(text: str) -> Any:
    try:
        return from_json(text)
    except InvalidInputError:
        return None


def _to_json(value: Any, **options: Any) -> str:
    try:
        return to_json(value, **options)
    except InvalidInputError:
        return ""


def _fail(message: str) -> Any:
    raise InvalidInputError(message)


def _extension(path: str) -> str:
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2]}" if "." in name else ""


def _base(path: str) -> str:
    return posixpath.basename(path.rstrip("/")) or ("/" if path else ".")


def _clean(path: str) -> str:
    cleaned = posixpath.normpath(path) if path else "."
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _directory(path: str) -> str:
    return _clean(path.rpartition("/")[0] + ("/" if path.startswith("/") else ""))


_BASE_32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def _base32_decoded(text: str) -> str:
    data = to_bytes(text).replace(b"\r", b"").replace(b"\n", b"")
    body = data.rstrip(b"=")
    wrong = next((at for at, byte in enumerate(body) if byte not in _BASE_32), None)
    if wrong is None and (len(data) % 8 or len(data) - len(body) not in (0, 1, 3, 4, 6)):
        wrong = len(data) // 8 * 8
    if wrong is not None:
        return f"illegal base32 data at input byte {wrong}"
    return from_bytes(base64.b32decode(data))


def _base64_decoded(text: str) -> str:
    try:
        return base64_decoded(text)
    except InvalidInputError as error:
        return str(error)


def _duration(seconds: Any) -> str:
    is_taken = isinstance(seconds, str) or type_name(seconds) == "int64"
    total = to_int(seconds) if is_taken else 0
    hours, rest = divmod(abs(total), 3600)
    minutes, left = divmod(rest, 60)
    sign = "-" if total < 0 else ""
    if hours:
        return f"{sign}{hours}h{minutes}m{left}s"
    return f"{sign}{minutes}m{left}s" if minutes else f"{sign}{left}s"


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _duration_rounded(value: Any) -> str:
    seconds = float(value) / 1e9 if type_name(value) == "int64" else 0.0
    if isinstance(value, str):
        parts = re.findall(r"([\d.]+)(h|ms|m|s|us|µs|ns)", value)
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    scales = (("y", 31_536_000), ("mo", 2_592_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    for name, size in scales:
        if seconds >= size:
            return f"{int(seconds // size)}{name}"
    return "0s"


def _to_date(layout: str, text: str) -> GoTime:
    try:
        return GoTime(parse_time(layout, text))
    except InvalidInputError:
        return ZERO_TIME


def _must_modify_date(text: str, time: GoTime) -> GoTime:
    from orchgit.durations import parse_ns

    try:
        return GoTime(time.moment.at(time.moment.ns + parse_ns(text)))
    except InvalidInputError as error:
        raise InvalidInputError(f"time: {error}") from None


def regex_functions(budget: StepBudget) -> dict[str, GoFunction]:
    """Each also with `must` before its name; patterns are RE2."""

    def spans(pattern: str, text: str, count: int) -> list[str]:
        return compile_pattern(pattern).find_all(text, count, budget.spend)

    def replace(pattern: str, text: str, new: str) -> str:
        return compile_pattern(pattern).replace(text, new, budget.spend)

    def replace_literal(pattern: str, text: str, new: str) -> str:
        return compile_pattern(pattern).replace(text, new.replace("$", "$$"), budget.spend)

    def matches(pattern: str, text: str) -> bool:
        return compile_pattern(pattern).search(text)

    def matches_or_wrong(pattern: str, text: str) -> bool:
        try:
            return matches(pattern, text)
        except InvalidInputError:
            return False

    def find_all(pattern: str, text: str, count: int) -> Strings:
        found = spans(pattern, text, count)
        return Strings(found) if found else NilStrings()

    def split(pattern: str, text: str, count: int) -> Strings:
        if count == 0:
            return NilStrings()
        return Strings(compile_pattern(pattern).split(text, count, budget.spend))

    def first(pattern: str, text: str) -> str:
        return next(iter(spans(pattern, text, 1)), "")

    found = {
        "regexMatch": text_fn(matches, 2),
        "regexFindAll": fn(find_all, "string", "string", "int"),
        "regexFind": text_fn(first, 2),
        "regexReplaceAll": text_fn(replace, 3),
        "regexReplaceAllLiteral": text_fn(replace_literal, 3),
        "regexSplit": fn(split, "string", "string", "int"),
    }
    with_must = {f"mustR{name[1:]}": function for name, function in found.items()}
    quoted = text_fn(lambda text: re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text))
    return {
        **found,
        **with_must,
        "regexMatch": text_fn(matches_or_wrong, 2),
        "regexQuoteMeta": quoted,
    }


OTHERS: dict[str, GoFunction] = {
    **VERSIONS,
    "default": fn(_default, ANY, rest=ANY),
    "empty": any_fn(is_empty),
    "coalesce": fn(_coalesced, rest=ANY),
    "all": fn(lambda *values: not any(map(is_empty, values)), rest=ANY),
    "any": fn(lambda *values: not all(map(is_empty, values)), rest=ANY),
    "ternary": fn(lambda yes, no, condition: yes if condition else no, ANY, ANY, "bool"),
    "fail": text_fn(_fail),
    "fromJson": text_fn(_from_json),
    "toJson": any_fn(_to_json),
    "toPrettyJson": any_fn(lambda value: _to_json(value, indent="  ")),
    "toRawJson": any_fn(lambda value: to_json(value, for_html=False)),
    "mustFromJson": text_fn(from_json),
    "mustToJson": any_fn(to_json),
    "mustToPrettyJson": any_fn(lambda value: to_json(value, "  ")),
    "mustToRawJson": any_fn(lambda value: to_json(value, for_html=False)),
    "b64enc": text_fn(lambda text: base64.b64encode(to_bytes(text)).decode()),
    "b64dec": text_fn(_base64_decoded),
    "b32enc": text_fn(lambda text: base64.b32encode(to_bytes(text)).decode()),
    "b32dec": text_fn(_base32_decoded),
    **{
        name: text_fn(function)
        for base, function in (
            ("base", _base),
            ("dir", _directory),
            ("clean", _clean),
            ("ext", _extension),
            ("isAbs", lambda path: path.startswith("/")),
        )
        for name in (base, f"os{base[0].upper()}{base[1:]}")
    },
    "ago": any_fn(lambda value: "0s"),
    "duration": any_fn(_duration),
    "durationRound": any_fn(_duration_rounded),
    "toDate": text_fn(_to_date, 2),
    "mustToDate": text_fn(lambda layout, text: GoTime(parse_time(layout, text)), 2),
    "must_date_modify": fn(_must_modify_date, "string", GoTime.go_type),
    "mustDateModify": fn(_must_modify_date, "string", GoTime.go_type),
    "unixEpoch": fn(lambda time: str(time.unix_s), GoTime.go_type),
    "urlParse": text_fn(parsed_url),
    "urlJoin": fn(joined_url, "map[string]interface {}"),
}
__all__ = ["OTHERS", "formatted", "regex_functions"]
