"""Sets images in a job file, and leaves every other byte as it was.

Only a literal's own bytes are replaced. A computed image is not changed: the problem names the
variable to set instead, which `var.NAME` does, in its declaration or in a var-file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from jobspec.errors import Diagnostics, HclError, Problem, SourceText, problem_at
from jobspec.hcl.tree import (
    Attribute,
    Block,
    Body,
    Expression,
    LiteralExpression,
    Parens,
    TemplateExpression,
    Traversal,
    walk,
)
from jobspec.hcl.writer import quoted
from jobspec.parse import read_body, source_text
from orchgit.errors import InvalidInputError

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_TASKS = ("task", "sidecar_task")
_NAMED = ("var", "local")


@dataclass(frozen=True, slots=True)
class Setting:
    """What to set. `target` is JOB/GROUP/TASK, or the last parts of it, with `*` for any name;
    var.NAME or local.NAME; or empty: every image of the same repository."""

    target: str
    value: str

    @property
    def is_named(self) -> bool:
        return self.target.partition(".")[0] in _NAMED and "." in self.target

    def fits(self, place: Sequence[str]) -> bool:
        parts = self.target.split("/")
        if len(parts) > len(place):
            return False
        last = place[len(place) - len(parts) :]
        return all(fnmatchcase(name, part) for name, part in zip(last, parts, strict=True))


@dataclass(frozen=True, slots=True)
class Edit:
    """One value; equal `old` and `new` say that it was so already."""

    place: str
    line: int
    old: str
    new: str


@dataclass(slots=True)
class Edited:
    """`content` is the whole file. `used` are the settings that something in it answered to, be it
    an edit or a problem."""

    content: bytes
    edits: list[Edit] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    used: set[Setting] = field(default_factory=set)


def setting_of(argument: str) -> Setting:
    """Reads `[TARGET=]VALUE`; raises InvalidInputError for a value that is not an image."""
    target, equals, value = argument.rpartition("=") if "=" in argument else ("", "", argument)
    if equals and not target:
        raise InvalidInputError(f"cannot read {argument!r}: there is nothing before the =")
    if target.partition(".")[0] in _NAMED and "." in target:
        name, _, value = argument.partition("=")
        return Setting(name, value)
    if _IMAGE.fullmatch(value) is None:
        raise InvalidInputError(
            f"cannot set {value!r}: an image is written as REPOSITORY[:TAG][@DIGEST]"
        )
    return Setting(target, value)


def repository_of(image: str) -> str:
    """The image without tag and digest."""
    image = image.partition("@")[0]
    head, colon, tag = image.rpartition(":")
    return head if colon and "/" not in tag else image


def set_images(content: bytes, filename: str, settings: Sequence[Setting]) -> Edited:
    """Returns the file with the settings applied; where several fit, the last counts. Raises
    JobFileErrors for a file that is neither HCL nor JSON."""
    source = source_text(content, filename)
    text = source.text
    diagnostics = Diagnostics(source)
    body = read_body(source, diagnostics)
    diagnostics.raise_if_any()
    result = Edited(content)
    found: dict[tuple[int, int], tuple[LiteralExpression, str]] = {}
    for place, attribute in _places(body):
        for setting in settings:
            _consider(setting, place, attribute, source, result, found)
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    pieces: list[str] = []
    at = 0
    for (start, end), (node, value) in sorted(found.items(), key=lambda item: item[0]):
        pieces += [text[at:start], _written(text, node, value, is_json)]
        at = end
    result.content = "".join([*pieces, text[at:]]).encode()
    return result


def _consider(
    setting: Setting,
    place: tuple[str, ...],
    attribute: Attribute,
    source: SourceText,
    result: Edited,
    found: dict[tuple[int, int], tuple[LiteralExpression, str]],
) -> None:
    named = place[0] in _NAMED
    if setting.is_named != named:
        return
    shown = ".".join(place) if named else "/".join(place)
    if named and setting.target != shown:
        return
    if not named and setting.target and not setting.fits(place):
        return
    node = attribute.expr.inner if isinstance(attribute.expr, Parens) else attribute.expr
    is_text = isinstance(node, LiteralExpression) and isinstance(node.value, str)
    if not named and not setting.target and not _of_repository(node, setting.value):
        return
    result.used.add(setting)
    if not isinstance(node, LiteralExpression) or not is_text:
        result.problems.append(problem_at(_computed(setting, shown, node), source))
        return
    found[node.start, node.end] = (node, setting.value)
    line, _ = source.position(attribute.start)
    result.edits = [each for each in result.edits if (each.place, each.line) != (shown, line)]
    result.edits.append(Edit(shown, line, node.value.strip(), setting.value))


def _of_repository(node: Expression, image: str) -> bool:
    """Whether the image, or its text before the first `${`, is of the repository."""
    wanted = repository_of(image)
    if isinstance(node, LiteralExpression):
        return isinstance(node.value, str) and repository_of(node.value.strip()) == wanted
    first = node.parts[0] if isinstance(node, TemplateExpression) else None
    if not isinstance(first, LiteralExpression):
        return False
    return str(first.value).startswith((f"{wanted}:", f"{wanted}@"))


def _computed(setting: Setting, place: str, node: Expression) -> HclError:
    names = sorted({name for each in walk(node) if (name := _name_of(each))})
    if not names:
        hint = "Edit this line by hand."
    else:
        value = _value_for(names[0], node, setting.value)
        hint = f"Set what it is made of instead: {names[0]}={value}"
    return HclError(f"Cannot set {place}: it is not plain text.", node.start, node.end, hint)


def _value_for(name: str, node: Expression, image: str) -> str:
    """What the variable has to be, where it is all of the image, its tag or its digest."""
    if isinstance(node, Traversal) and _name_of(node) == name:
        return image
    if (
        isinstance(node, TemplateExpression)
        and len(node.parts) == 2
        and isinstance(node.parts[0], LiteralExpression)
    ):
        known = str(node.parts[0].value)
        if image.startswith(known):
            return image.removeprefix(known)
    return "VALUE"


def _name_of(node: Expression) -> str:
    if not isinstance(node, Traversal) or node.root not in _NAMED or not node.steps:
        return ""
    return f"{node.root}.{node.steps[0].key}"


# -- where images and variables stand -------------------------------------------------------------


def _places(body: Body) -> Iterator[tuple[tuple[str, ...], Attribute]]:
    """Every image with the names of its job, group and task, and every variable and local."""
    for block in body.blocks:
        yield from _declared(block)
        if block.type == "job":
            yield from _images(block.body, (_label(block),))
    if not body.blocks:  # a var-file
        for attribute in body.attributes.values():
            yield ("var", attribute.name), attribute


def _declared(block: Block) -> Iterator[tuple[tuple[str, ...], Attribute]]:
    if block.type == "variable" and "default" in block.body.attributes:
        yield ("var", _label(block)), block.body.attributes["default"]
    elif block.type in ("variables", "locals"):
        root = "var" if block.type == "variables" else "local"
        for attribute in block.body.attributes.values():
            yield (root, attribute.name), attribute


def _images(body: Body, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Attribute]]:
    for block in body.blocks:
        type_, inner = _unwrapped(block)
        name = "?" if inner is not block.body else _label(block)
        if type_ == "group":
            yield from _images(inner, (*place[:1], name))
        elif type_ in _TASKS:
            group = place if len(place) > 1 else (*place, name)
            yield from _task_images(inner, (*group[:2], name or "connect-proxy"))
        else:
            yield from _images(inner, place)


def _task_images(body: Body, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Attribute]]:
    for block in body.blocks:
        type_, inner = _unwrapped(block)
        if type_ == "config" and "image" in inner.attributes:
            yield place, inner.attributes["image"]


def _unwrapped(block: Block) -> tuple[str, Body]:
    """What a `dynamic` block makes, and its content."""
    if block.type != "dynamic":
        return block.type, block.body
    content = next((inner for inner in block.body.blocks if inner.type == "content"), None)
    return _label(block), block.body if content is None else content.body


def _label(block: Block) -> str:
    return block.labels[0].value if block.labels else ""


# -- the literal's bytes --------------------------------------------------------------------------


def _written(text: str, node: LiteralExpression, value: str, is_json: bool) -> str:
    if is_json:
        doubled = value.replace("${", "$${").replace("%{", "%%{")
        return json.dumps(doubled, ensure_ascii=False)
    old = text[node.start : node.end]
    if old.startswith("<<") and "\n" not in value:
        first, _, rest = old.partition("\n")
        inner = rest[: rest.rindex("\n") + 1]
        kept = inner.strip()
        if kept and "\n" not in kept and not {"$", "%", "\\"} & set(value):
            return f"{first}\n{inner.replace(kept, value)}{rest[len(inner) :]}"
    return quoted(value)
