"""Compares an answer with a recorded one: status, headers, text, JSON types, keys and values.

What a recording cannot fix is masked: `<uuid>`, `<ns>`, `<alloc:web.0>` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx

_MASK = re.compile(r"<[a-z0-9]+(?::[^<>]*(?:<n>)?)?>")
_WHOLE_NUMBERS = ("<ns>", "<seconds>", "<index>", "<int>")
_OF_TYPE: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(_WHOLE_NUMBERS, int),
    "<number>": (int, float),
    "<float>": (int, float),
    "<string>": str,
    "<bool>": bool,
    "<object>": dict,
    "<array>": list,
}
_IN_TEXTS = {
    "time": r"\d{4}-\d\d-\d\d[T ][^\"]+?",
    "n": r"[\d.]+",
    "duration": r"-?[\dhmsµn.]+",
    "seconds": r"\d+",
    "index": r"\d+",
    "ns": r"\d+",
    "int": r"\d+",
}
_ADDRESS = re.compile(r"(127\.0\.0\.1):155\d\d")
"""An address of the recorded agent; other agents have other ports."""
_FREE_HEADERS = frozenset(("date", "content-length", "connection", "transfer-encoding"))
"""How a server frames its answer is no part of the API."""
_UNORDERED = re.compile(
    # By random ids, by ties of an index, or in the order of a map; recorded in another, sorted one.
    r"/v1/(allocations|evaluations|deployments|jobs/statuses|volumes)$"
    r"|/v1/(job|node|evaluation|deployment|allocation)/.*/"
    r"(allocations|evaluations|deployments|services)$"
)
_ONLY_IN_ONE = ": only in one recording"


def step_differences(step: Mapping[str, Any], answer: httpx.Response) -> list[str]:
    """Returns a line per place where the answer is not the recorded one."""
    wanted = step["response"]
    if wanted["status"] not in (answer.status_code, "<int>"):
        return [
            f"status {wanted['status']} expected, got {answer.status_code}: {answer.text[:300]}"
        ]
    # Of a stream that was cut off no headers were recorded.
    found = [*_of_headers(wanted["headers"], answer.headers)] if wanted.get("headers") else []
    if "json" in wanted:
        try:
            value = answer.json()
        except ValueError:
            return [*found, f"JSON expected, got {answer.text[:300]!r}"]
        optional = tuple(
            "$" + each.removeprefix(".response.json").removesuffix(_ONLY_IN_ONE)
            for each in step.get("unstable") or ()
            if each.endswith(_ONLY_IN_ONE)
        )
        path = step.get("request", {}).get("path", "").partition("?")[0]
        recorded = wanted["json"]
        if isinstance(recorded, list) and isinstance(value, list) and _UNORDERED.search(path):
            value = _in_recorded_order(recorded, value)
        lines = differences(recorded, value)
        found += (line for line in lines if not line.startswith(optional or ("\0",)))
    elif "text" in wanted:
        found += differences(wanted["text"], answer.text)
    return found


def _in_recorded_order(wanted: list[Any], found: list[Any]) -> list[Any]:
    """Returns the items of `found`, each at the place of the recorded item that it is most like."""
    pairs = sorted(
        (sum(1 for _ in differences(one, other)), place, at)
        for place, one in enumerate(wanted)
        for at, other in enumerate(found)
    )
    chosen: dict[int, int] = {}
    for _, place, at in pairs:
        if place not in chosen and at not in chosen.values():
            chosen[place] = at
    rest = [each for at, each in enumerate(found) if at not in chosen.values()]
    return [found[chosen[place]] for place in sorted(chosen)] + rest


def _of_headers(wanted: Mapping[str, str], found: httpx.Headers) -> Iterator[str]:
    names = {name.lower() for name in wanted} | {name.lower() for name in found}
    recorded = {name.lower(): value for name, value in wanted.items()}
    for name in sorted(names - _FREE_HEADERS):
        value = found.get(name)
        if name not in recorded:
            yield f"header {name}: not expected, got {value!r}"
        elif value is None:
            yield f"header {name}: {recorded[name]!r} expected, got none"
        elif not _matches(recorded[name], value):
            yield f"header {name}: {recorded[name]!r} expected, got {value!r}"


def differences(wanted: Any, found: Any, path: str = "$") -> Iterator[str]:
    """Yields a line per place where two JSON values differ; masks are taken for what they mask."""
    if isinstance(wanted, str):
        if not _is_masked_value(wanted, found):
            yield f"{path}: {_short(wanted)} expected, got {_short(found)}"
    elif isinstance(wanted, dict):
        if set(wanted) == {"<array>"}:
            yield from _of_samples(wanted["<array>"], found, path)
        elif not isinstance(found, dict):
            yield f"{path}: an object expected, got {_short(found)}"
        else:
            yield from _of_objects(wanted, found, path)
    elif isinstance(wanted, list):
        if not isinstance(found, list):
            yield f"{path}: an array expected, got {_short(found)}"
        elif len(wanted) != len(found):
            yield f"{path}: {len(wanted)} items expected, got {len(found)}: {_short(found)}"
        else:
            for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
                yield from differences(one, other, f"{path}[{place}]")
    elif wanted != found or isinstance(wanted, bool) != isinstance(found, bool):
        yield f"{path}: {_short(wanted)} expected, got {_short(found)}"


def _of_objects(wanted: dict[str, Any], found: dict[str, Any], path: str) -> Iterator[str]:
    has_masked_keys = any(_MASK.search(key) for key in wanted)
    for key, value in wanted.items():
        if key in found:
            yield from differences(value, found[key], f"{path}.{key}")
        elif not _MASK.search(key):
            yield f"{path}.{key}: missing"
    if not has_masked_keys:
        for key in found.keys() - wanted.keys():
            yield f"{path}.{key}: not expected"


def _of_samples(samples: list[Any], found: Any, path: str) -> Iterator[str]:
    if not isinstance(found, list):
        yield f"{path}: an array expected, got {_short(found)}"
    elif samples and found and isinstance(samples[0], dict):
        wanted = _types_of(samples[0])
        yield from min((list(differences(wanted, each, path)) for each in found), key=len)


def _types_of(value: Any) -> Any:
    """Returns the value with masks for everything but its keys."""
    if isinstance(value, dict):
        return {
            key: "<object>" if key == "Labels" else _types_of(each) for key, each in value.items()
        }
    if isinstance(value, str):
        return value if value in _OF_TYPE or value == "<any>" else "<string>"
    kinds = {bool: "<bool>", int: "<number>", float: "<number>", list: "<array>"}
    return kinds.get(type(value), "<any>")


def _is_masked_value(wanted: str, found: Any) -> bool:
    if wanted == "<any>":
        return True
    if wanted in _OF_TYPE:
        is_number = wanted in _WHOLE_NUMBERS or wanted in ("<number>", "<float>")
        return isinstance(found, _OF_TYPE[wanted]) and not (is_number and isinstance(found, bool))
    return isinstance(found, str) and _matches(wanted, found)


def _matches(wanted: str, found: str) -> bool:
    wanted = _ADDRESS.sub(r"\1:<n>", wanted)
    if "<" not in wanted:
        return wanted == found
    parts, at = [], 0
    for mask in _MASK.finditer(wanted):
        parts.append(re.escape(wanted[at : mask.start()]))
        parts.append(_IN_TEXTS.get(mask[0][1:-1], ".+?"))
        at = mask.end()
    parts.append(re.escape(wanted[at:]))
    return re.fullmatch("".join(parts), found, re.DOTALL) is not None


def _short(value: Any) -> str:
    return repr(value)[:200]


Intended = tuple[str, str, str]
"""In which step, and in which of its lines, a difference is meant (both regular expressions), and
why."""


def without_intended(
    found: Mapping[str, list[str]], rows: Iterable[Intended]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns the differences that nobody wants, and the reasons of steps that have only others."""
    known = tuple(rows)
    unwanted, reasons = {}, {}
    for name, lines in found.items():
        meant = [row for row in known if re.search(row[0], name)]
        left = [each for each in lines if not any(re.search(row[1], each) for row in meant)]
        if lines and not left:
            held = {row[2]: None for row in meant for each in lines if re.search(row[1], each)}
            reasons[name] = "; ".join(held)
        else:
            unwanted[name] = left
    return unwanted, reasons


def print_result(
    found: Mapping[str, Sequence[str]], reasons: Mapping[str, str] | None = None
) -> int:
    """Prints what differs in each case, and `N passed, N failed`; returns the exit status.
    `reasons` are those of cases that differ on purpose: they count as neither."""
    for name, reason in (reasons or {}).items():
        print(f"{name}: {reason}")
    if reasons is not None:
        print(f"{len(reasons)} different for a reason")
    failed = {name: lines for name, lines in found.items() if lines}
    for name, lines in failed.items():
        print(f"{name}:", *lines[:12], sep="\n    ")
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not found else 0
