"""Sprig's functions of defaults, JSON, paths, times, URLs, versions and patterns."""

from __future__ import annotations

import base64
import posixpath
import re
from typing import Any

from agent.templates.helpers.encodings import base64_decoded
from agent.templates.sprig.values import is_empty, to_int, to_text
from agent.templates.sprig.versions import VERSIONS
from agent.templates.time_layouts import Moment, parse_time
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, text_fn
from orchgit.go_templates.go_json import from_json, to_json
from orchgit.go_templates.printing import formatted
from orchgit.go_templates.values import GoStruct, Strings, from_bytes, to_bytes
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


def _base32_decoded(text: str) -> str:
    try:
        return from_bytes(base64.b32decode(text))
    except ValueError as error:
        return str(error)


def _base64_decoded(text: str) -> str:
    try:
        return base64_decoded(text)
    except InvalidInputError as error:
        return str(error)


def _duration(seconds: Any) -> str:
    total = to_int(seconds)
    hours, rest = divmod(abs(total), 3600)
    minutes, left = divmod(rest, 60)
    sign = "-" if total < 0 else ""
    if hours:
        return f"{sign}{hours}h{minutes}m{left}s"
    return f"{sign}{minutes}m{left}s" if minutes else f"{sign}{left}s"


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _duration_rounded(value: Any) -> str:
    seconds = float(value) / 1e9 if isinstance(value, int | float) else 0.0
    if isinstance(value, str):
        parts = re.findall(r"([\d.]+)(h|ms|m|s|us|µs|ns)", value)
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    scales = (("y", 31_536_000), ("mo", 2_592_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    for name, size in scales:
        if seconds >= size:
            return f"{int(seconds // size)}{name}"
    return "0s"


class _Time(GoStruct):
    go_type = "time.Time"

    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    def go_method(self, name: str) -> Any:
        return {
            "Format": text_fn(self.moment.format),
            "Unix": lambda: self.moment.ns // 1_000_000_000,
            "Year": lambda: self.moment.date.year,
        }.get(name)

    def go_text(self) -> str:
        return self.moment.format("2006-01-02 15:04:05 +0000 UTC")


def _to_date(layout: str, text: str) -> _Time:
    try:
        return _Time(parse_time(layout, text))
    except InvalidInputError:
        return _Time(Moment(-62_135_596_800 * 1_000_000_000))


def _epoch(value: Any) -> str:
    if not isinstance(value, _Time):
        raise InvalidInputError("unixEpoch takes a time")
    return str(value.moment.ns // 1_000_000_000)


def _url_parsed(text: str) -> dict[str, Any]:
    from urllib.parse import urlsplit

    url = urlsplit(text)
    user = url.netloc.rpartition("@")[0]
    return {
        "scheme": url.scheme,
        "host": url.netloc.rpartition("@")[2],
        "hostname": url.hostname or "",
        "path": url.path,
        "query": url.query,
        "opaque": "",
        "fragment": url.fragment,
        "userinfo": user,
    }


def _url_joined(parts: dict[str, Any]) -> str:
    from urllib.parse import urlunsplit

    user, host = parts.get("userinfo", ""), parts.get("host", "")
    place = f"{user}@{host}" if user else host
    names = ("path", "query", "fragment")
    path, query, fragment = (to_text(parts.get(name, "")) for name in names)
    return str(urlunsplit((parts.get("scheme", ""), place, path, query, fragment)))


def regex_functions(budget: StepBudget) -> dict[str, GoFunction]:
    """Each also with `must` before its name; patterns are RE2."""

    def spans(pattern: str, text: str, count: int) -> list[str]:
        return compile_pattern(pattern).find_all(text, count, budget.spend)

    def replace(pattern: str, text: str, new: str) -> str:
        return compile_pattern(pattern).replace(text, new, budget.spend)

    def replace_literal(pattern: str, text: str, new: str) -> str:
        return compile_pattern(pattern).replace(text, new.replace("$", "$$"), budget.spend)

    def split(pattern: str, text: str, count: int) -> Strings:
        return Strings(compile_pattern(pattern).split(text, count, budget.spend))

    def first(pattern: str, text: str) -> str:
        return next(iter(spans(pattern, text, 1)), "")

    found = {
        "regexMatch": text_fn(lambda pattern, text: compile_pattern(pattern).search(text), 2),
        "regexFindAll": fn(
            lambda pattern, text, count: Strings(spans(pattern, text, count)),
            "string",
            "string",
            "int",
        ),
        "regexFind": text_fn(first, 2),
        "regexReplaceAll": text_fn(replace, 3),
        "regexReplaceAllLiteral": text_fn(replace_literal, 3),
        "regexSplit": fn(split, "string", "string", "int"),
    }
    with_must = {f"mustR{name[1:]}": function for name, function in found.items()}
    quoted = text_fn(lambda text: re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text))
    return {**found, **with_must, "regexQuoteMeta": quoted}


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
    "toRawJson": any_fn(lambda value: _to_json(value, for_html=False)),
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
    "mustToDate": text_fn(lambda layout, text: _Time(parse_time(layout, text)), 2),
    "unixEpoch": any_fn(_epoch),
    "urlParse": text_fn(_url_parsed),
    "urlJoin": fn(_url_joined, "map[string]interface {}"),
}
__all__ = ["OTHERS", "formatted", "regex_functions"]
