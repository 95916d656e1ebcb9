"""Where two jobs differ, by the names that a job file has for it. Pure.

The table of blocks that drives reading and writing job files drives this walk as well, so a new
field is compared as soon as there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from jobspec.blocks.table import JOB, BlockField, BlockTable
from orchgit.durations import to_text
from orchgit.gitops.git.globs import Globs, compile_globs
from orchgit.gitops.git.urls import redact
from orchgit.jobdiff.spec import bare_spec
from orchgit.model.drift import DriftField
from orchgit.model.job import Job

HIDDEN = "(hidden)"
_MAX_PATH = 200
_MAX_FIELDS = 20
_MAX_VALUE = 80
_SECRET = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|credential|private|api_?key|_key$|dsn$|auth$|cookie", re.I
)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: `old` and `new` are values as the API has them, None where there is none.

    `path` are the names of the blocks, their labels, and the attribute or key: ("group", "web",
    "count"). `kind` is the attribute's kind in the table of blocks; "" for a key of a free block,
    "block" for a whole block.
    """

    path: tuple[str, ...]
    old: Any
    new: Any
    kind: str = ""

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @property
    def may_be_secret(self) -> bool:
        """Whether a name on the path tells of a secret."""
        return any(_SECRET.search(part) for part in self.path[1:])


def differences(old: Job, new: Job) -> list[Difference]:
    """Returns every difference between the specifications of two jobs of one id."""
    trees = [msgspec.to_builtins(replace(bare_spec(job), update=None)) for job in (old, new)]
    return list(_of_table(JOB, trees[0], trees[1], ()))


def _of_table(
    table: BlockTable, old: Mapping[str, Any], new: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Difference]:
    attributes = {field.key.lstrip("+~"): name for name, field in table.attributes.items()}
    blocks = {field.key: (name, field) for name, field in table.blocks.items()}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if key in blocks:
            name, field = blocks[key]
            yield from _of_block(name, field, before, after, path)
        else:
            name = attributes.get(key) or _WORD_START.sub("_", key).lower()
            kind = table.attributes[name].kind if key in attributes else "-"
            yield Difference((*path, name), before, after, kind)


def _of_block(
    name: str, field: BlockField, old: Any, new: Any, path: tuple[str, ...]
) -> Iterator[Difference]:
    here = (*path, name)
    if field.table is None:
        yield from _of_tree(old or {}, new or {}, here)
    elif field.how == "one":
        yield from _of_one(field.table, old, new, here)
    elif field.how == "keyed":
        before, after = old or {}, new or {}
        for label in {**before, **after}:
            yield from _of_one(field.table, before.get(label), after.get(label), (*here, label))
    elif field.table.label_key in (None, "-"):
        # Blocks without a label are known by their place.
        olds, news = old or [], new or []
        count = max(len(olds), len(news))
        for number in range(count):
            sides = [side[number] if number < len(side) else None for side in (olds, news)]
            label = name if count == 1 else f"{name}[{number}]"
            yield from _of_one(field.table, sides[0], sides[1], (*path, label))
    else:
        before, after = _by_label(field.table, old or []), _by_label(field.table, new or [])
        for label in {**before, **after}:
            yield from _of_one(field.table, before.get(label), after.get(label), (*here, label))


def _of_one(table: BlockTable, old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Difference]:
    if old == new:
        return
    if old is None or new is None:
        yield Difference(path, old, new, "block")
    else:
        yield from _of_table(table, old, new, path)


def _by_label(table: BlockTable, blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of two blocks with one label the last is compared."""
    return {str(block.get(table.label_key or "") or ""): block for block in blocks}


def _of_tree(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Difference]:
    """Compares free blocks, `meta` and `env` key by key; a list is one value."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _of_tree(old.get(key), new.get(key), (*path, str(key)))
    else:
        yield Difference(path, old, new)


# -- ignored paths -----------------------------------------------------------------------------


def compile_ignored(patterns: Sequence[str]) -> Globs | None:
    """Returns the compiled globs of dotted paths, None if there are none. A glob matches what lies
    below it as well."""
    slashed = [pattern.strip(".").replace(".", "/") for pattern in patterns]
    return compile_globs((*slashed, *(f"{each}/**" for each in slashed))) if slashed else None


def without_ignored(found: Sequence[Difference], ignored: Globs | None) -> list[Difference]:
    """Returns the differences that no pattern matches."""
    if ignored is None:
        return list(found)
    return [
        each
        for each in found
        if not ignored.fullmatch(each.dotted.replace("/", ":").replace(".", "/"))
    ]


# -- as people see it ----------------------------------------------------------------------------


def shown_fields(
    found: Sequence[Difference], variables: Mapping[str, str]
) -> tuple[list[DriftField], int]:
    """Returns the first differences, shortened and without secrets, and how many are left out.

    Hidden are values under a name that tells of a secret, and those that contain the value of a
    variable with such a name.
    """
    secrets = [value for name, value in variables.items() if _SECRET.search(name) and value]
    fields = []
    for each in sorted(found, key=lambda each: each.path)[:_MAX_FIELDS]:
        old, new = _shown_value(each.old, each.kind), _shown_value(each.new, each.kind)
        if each.may_be_secret or any(secret in text for text in (old, new) for secret in secrets):
            old, new = old and HIDDEN, new and HIDDEN
        fields.append(DriftField(each.dotted[:_MAX_PATH], _shortened(old), _shortened(new)))
    return fields, max(0, len(found) - _MAX_FIELDS)


def _shown_value(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "block":
        return "(block)"
    if isinstance(value, str):
        return value
    if kind == "duration" and isinstance(value, int):
        return to_text(value)
    return msgspec.json.encode(value).decode()


def _shortened(text: str) -> str:
    line = redact(text).replace("\n", "\\n")
    return line if len(line) <= _MAX_VALUE else line[: _MAX_VALUE - 3] + "..."
