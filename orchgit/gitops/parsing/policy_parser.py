"""Parses `orchgit.hcl` into a `RepositoryPolicy`. Pure.

Values are literals: the file has no variables and calls no function, so reading it has no effect
and no cost beyond its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import available_timezones

from jobspec.blocks import scalars
from jobspec.errors import Diagnostics, HclError, SourceText, did_you_mean
from jobspec.evaluation.evaluate import Scope, SilentError, evaluate
from jobspec.evaluation.numbers import NULL
from jobspec.evaluation.values import ConvertError, Value, elements, to_bool
from jobspec.functions.call import refuse_calls
from jobspec.hcl import tree
from jobspec.hcl.parser import parse_body
from orchgit.cron_expression import CronError, parse_cron
from orchgit.errors import JobFileError
from orchgit.gitops.parsing.job_names import split_dependency
from orchgit.model.base import NS_PER_S
from orchgit.model.gates import HealthAction, WindowAction
from orchgit.model.repository_policy import (
    POLICY_PATH,
    GateRule,
    Hook,
    HookRun,
    HookStage,
    JobDependency,
    JobRule,
    PruneRule,
    RepositoryPolicy,
    SourceDependency,
    WaitCondition,
    WindowRule,
)
from orchgit.model.source import is_source_name

MAX_POLICY_BYTES = 256 * 1024
MAX_DEPENDENCIES = 100
"""How many jobs one job may name in `depends_on`."""
MAX_HOOKS = 20
MAX_WINDOWS = 50
MAX_APPROVALS = 10
_MAX_DAYS = 31
_MAX_DURATION_NS = _MAX_DAYS * 24 * 3600 * NS_PER_S

_BLOCKS = ("job", "hook", "window", "gate", "prune")
_TOP_BLOCKS = (*_BLOCKS, "source")
_NOTIFICATIONS = frozenset(("notify", "notification", "notifications", "route", "routes"))

Converter = Callable[[Value], Any]


class _WrongName(ConvertError):
    """A text that is none of the known ones. `hint` names the nearest."""

    def __init__(self, message: str, text: str, known: Iterable[str]) -> None:
        super().__init__(message)
        self.hint = did_you_mean(text, known)


def parse_policy(content: bytes) -> RepositoryPolicy:
    """Returns the policy. Raises JobFileError with every problem as `file:line:column: message`."""
    text = _text_of(content)
    source = SourceText(POLICY_PATH, text)
    diagnostics = Diagnostics(source)
    policy = RepositoryPolicy()
    try:
        body = parse_body(source, diagnostics)
        if not diagnostics.found:
            policy = _PolicyReader(source, diagnostics).read(body)
    except RecursionError:
        raise _refused([f"{POLICY_PATH}:1:1: it is nested too deeply to be read"]) from None
    if diagnostics.found:
        raise _refused([str(problem) for problem in diagnostics.found])
    return policy


def _text_of(content: bytes) -> str:
    if len(content) > MAX_POLICY_BYTES:
        raise _refused(
            [
                f"{POLICY_PATH}:1:1: it has {len(content)} bytes, more than the limit of "
                f"{MAX_POLICY_BYTES}"
            ]
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused([f"{POLICY_PATH}:{line}:1: the file must be UTF-8"]) from None


def _refused(problems: list[str]) -> JobFileError:
    return JobFileError(f"cannot read {POLICY_PATH}:\n" + "\n".join(problems), problems)


class _PolicyReader:
    """Reads the blocks of one file; problems go to the diagnostics, so that all are shown."""

    def __init__(self, source: SourceText, diagnostics: Diagnostics) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._scope = Scope({}, source.text, refuse_calls, runtime=False)

    def read(self, body: tree.Body, blocks: Sequence[str] = _TOP_BLOCKS) -> RepositoryPolicy:
        """Reads the file, or the body of a `source` block, which has no such block itself."""
        top = self._attributes(body, {"depends_on_sources": _source_names})
        policy = RepositoryPolicy(
            depends_on_sources=[
                SourceDependency(name, line=line, column=column)
                for name, line, column in self._items(body, "depends_on_sources", top)
            ]
        )
        single: dict[str, tree.Block] = {}
        for block in body.blocks:
            if block.type not in blocks:
                self._unknown_block(block, blocks)
                continue
            is_named = block.type not in ("gate", "prune")
            label = self._label(block, is_named)
            if bool(label) is not is_named:
                continue  # reported
            if self._is_first(block, f'{block.type} "{label}"' if label else block.type, single):
                self._read_block(policy, block, label)
        self._check_count("hook", len(policy.hooks), MAX_HOOKS, body)
        self._check_count("window", len(policy.windows), MAX_WINDOWS, body)
        return policy

    def _read_block(self, policy: RepositoryPolicy, block: tree.Block, name: str) -> None:
        line, column = self._place(block.start)
        match block.type:
            case "job":
                found = self._attributes(block.body, _JOB, block)
                depends_on = [
                    JobDependency(*split_dependency(text), line=line_of, column=column_of)
                    for text, line_of, column_of in self._items(block.body, "depends_on", found)
                ]
                policy.jobs.append(JobRule(name, depends_on, line, column))
            case "hook":
                found = self._attributes(block.body, _HOOK, block, required=("stage", "job"))
                if "stage" in found and "job" in found:
                    policy.hooks.append(Hook(name, **found, line=line, column=column))
            case "window":
                window = self._window(block, name)
                if window is not None:
                    policy.windows.append(window)
            case "source":
                policy.sources[name] = self.read(block.body, _BLOCKS)
            case "gate":
                found = self._attributes(block.body, _GATE, block)
                deadline_ns = found.pop("deadline", None)
                policy.gate = GateRule(**found, deadline_ns=deadline_ns, line=line, column=column)
            case _:
                found = self._attributes(block.body, _PRUNE, block)
                policy.prune = PruneRule(**found, line=line, column=column)

    def _window(self, block: tree.Block, name: str) -> WindowRule | None:
        found = self._attributes(block.body, _WINDOW, block, required=("duration",))
        given = [action for action in WindowAction if action in block.body.attributes]
        if len(given) != 1:
            self._diagnostics.report(
                f'Window "{name}" needs either "allow" or "deny".',
                block.start,
                block.end,
                'Write allow = "0 9 * * MON-FRI" or deny = "0 0 24 12 *".',
            )
            return None
        action = given[0]
        if action not in found or "duration" not in found:
            return None
        line, column = self._place(block.start)
        return WindowRule(
            name=name,
            action=action,
            cron=found[action],
            duration_ns=found["duration"],
            time_zone=found.get("time_zone", "UTC"),
            line=line,
            column=column,
        )

    # -- parts of blocks ----------------------------------------------------------------------

    def _attributes(
        self,
        body: tree.Body,
        known: Mapping[str, Converter],
        block: tree.Block | None = None,
        required: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Returns the attributes of a body as plain values. `block` is None for the file itself."""
        found: dict[str, Any] = {}
        for name, attribute in body.attributes.items():
            if name not in known:
                names = ", ".join(known)
                self._diagnostics.report(
                    f'Unsupported argument: "{name}" is not expected here.',
                    attribute.start,
                    attribute.end,
                    did_you_mean(name, (*known, *_TOP_BLOCKS)) or f"Known: {names}.",
                )
                continue
            try:
                value = evaluate(attribute.expr, self._scope)
                if value is NULL:
                    raise ConvertError("null is no value")
                found[name] = known[name](value)
            except SilentError:
                continue
            except HclError as error:
                self._diagnostics.add(error)
            except ConvertError as error:
                self._diagnostics.report(
                    f'Incorrect value for "{name}": {error}.',
                    attribute.expr.start,
                    attribute.expr.end,
                    error.hint if isinstance(error, _WrongName) else "",
                )
        if block is None:
            return found
        for inner in body.blocks:
            self._diagnostics.report(
                f'Unsupported block type: blocks of type "{inner.type}" are not expected in '
                f'"{block.type}".',
                inner.start,
                inner.type_end,
                did_you_mean(inner.type, known),
            )
        for name in required:
            if name not in body.attributes:
                self._diagnostics.report(
                    f'Missing argument: "{block.type}" needs "{name}".', block.start, block.end
                )
        return found

    def _items(
        self, body: tree.Body, name: str, found: Mapping[str, Any]
    ) -> Iterator[tuple[str, int, int]]:
        """Yields the texts of a list, each with its own line and column."""
        texts = found.get(name, ())
        if not texts:
            return
        expression = body.attributes[name].expr
        items = expression.items if isinstance(expression, tree.Tuple) else []
        seen: set[str] = set()
        for number, text in enumerate(texts):
            node = items[number] if number < len(items) else expression
            line, column = self._place(tree.start_of(node, self._source.text))
            if text in seen:
                self._diagnostics.report(f'"{text}" is named twice.', node.start, node.end)
                continue
            seen.add(text)
            yield text, line, column

    def _label(self, block: tree.Block, named: bool) -> str:
        """Returns the block's label, or '' after a problem and for a block that has none."""
        for extra in block.labels[1 if named else 0 :]:
            wanted = "only 1 label (its name) is" if named else "no label is"
            self._diagnostics.report(
                f'Extraneous label for "{block.type}": {wanted} expected.', extra.start, extra.end
            )
        if not named:
            return block.labels[0].value if block.labels else ""
        name = block.labels[0].value if block.labels else ""
        if not name:
            self._diagnostics.report(
                f'Missing name: "{block.type}" needs 1 label.',
                block.start,
                block.end,
                f'Write {block.type} "NAME" {{ ... }}.',
            )
        return name

    def _is_first(self, block: tree.Block, what: str, seen: dict[str, tree.Block]) -> bool:
        first = seen.setdefault(what, block)
        if first is block:
            return True
        line, column = self._place(first.start)
        self._diagnostics.report(
            f"Duplicate block: {what} is given twice. The previous one is at line {line}, column "
            f"{column}.",
            block.start,
            block.end,
        )
        return False

    def _unknown_block(self, block: tree.Block, blocks: Sequence[str]) -> None:
        message = f'Unsupported block type: "{block.type}" is not expected here.'
        if block.type in _NOTIFICATIONS:
            hint = "Notification routes are not supported yet."
        else:
            hint = did_you_mean(block.type, blocks) or (
                f"{POLICY_PATH} holds {', '.join(blocks)} and depends_on_sources; notification "
                "routes are not supported yet."
            )
        self._diagnostics.report(message, block.start, block.type_end, hint)

    def _check_count(self, what: str, count: int, limit: int, body: tree.Body) -> None:
        if count > limit:
            self._diagnostics.report(
                f'Too many "{what}" blocks: {count}, more than the limit of {limit}.',
                body.start,
                body.start,
            )

    def _place(self, offset: int) -> tuple[int, int]:
        return self._source.position(offset)


# -- values -----------------------------------------------------------------------------------


def _string(value: Value) -> str:
    if type(value) is not str or not value.strip():
        raise ConvertError("a text is required")
    return value


def _strings(value: Value) -> list[str]:
    items = elements(value)
    if items is None:
        raise ConvertError('a list such as ["db"] is required')
    return [_string(item) for item in items]


def _dependency_names(value: Value) -> list[str]:
    names = _strings(value)
    if len(names) > MAX_DEPENDENCIES:
        raise ConvertError(f"{len(names)} jobs are more than the limit of {MAX_DEPENDENCIES}")
    for name in names:
        condition = split_dependency(name)[1]
        if condition and condition not in tuple(WaitCondition):
            known = ", ".join(WaitCondition)
            message = f'unknown condition "{condition}" (known: {known})'
            raise _WrongName(message, condition, WaitCondition)
    return names


def _source_names(value: Value) -> list[str]:
    names = _strings(value)
    wrong = [name for name in names if not is_source_name(name)]
    if wrong:
        raise ConvertError(f'"{wrong[0]}" is no name of a source')
    if len(names) > MAX_DEPENDENCIES:
        raise ConvertError(f"{len(names)} sources are more than the limit of {MAX_DEPENDENCIES}")
    return names


def _one_of(words: type[HookStage] | type[HookRun] | type[HealthAction]) -> Converter:
    def convert(value: Value) -> str:
        text = _string(value)
        if text not in tuple(words):
            known = " or ".join(f'"{word}"' for word in words)
            raise _WrongName(f'"{text}" is not {known}', text, words)
        return text

    return convert


def _bool(value: Value) -> bool:
    if type(value) is not bool:
        to_bool(value)  # says what is wrong with a value that cannot be one
        raise ConvertError("true or false is required, without quotes")
    return value


def _whole(low: int, high: int) -> Converter:
    def convert(value: Value) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ConvertError(f"a whole number between {low} and {high} is required")
        return value

    return convert


def _duration(value: Value) -> int:
    if type(value) is not str:
        raise ConvertError('a duration such as "30m" is required')
    span_ns = scalars.duration(value)
    if not NS_PER_S <= span_ns <= _MAX_DURATION_NS:
        raise ConvertError(f"a duration between 1s and {_MAX_DAYS * 24}h is required")
    return span_ns


def _cron(value: Value) -> str:
    spec = _string(value)
    try:
        parse_cron(spec)
    except CronError as error:
        raise ConvertError(f'"{spec}" is no cron specification: {error}') from None
    return spec


def _time_zone(value: Value) -> str:
    name = _string(value)
    if name not in available_timezones():
        raise _WrongName(f'there is no time zone "{name}"', name, available_timezones())
    return name


_JOB: Mapping[str, Converter] = {"depends_on": _dependency_names}
_HOOK: Mapping[str, Converter] = {
    "stage": _one_of(HookStage),
    "job": _string,
    "run": _one_of(HookRun),
}
_WINDOW: Mapping[str, Converter] = {
    "allow": _cron,
    "deny": _cron,
    "duration": _duration,
    "time_zone": _time_zone,
}
_GATE: Mapping[str, Converter] = {
    "health": _one_of(HealthAction),
    "deadline": _duration,
    "require_fit": _bool,
    "approvals": _whole(0, MAX_APPROVALS),
}
_PRUNE: Mapping[str, Converter] = {"enabled": _bool, "max_share_percent": _whole(0, 100)}
