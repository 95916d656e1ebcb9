"""`locals`: names for expressions, written in any order."""

from __future__ import annotations

from jobspec.errors import Diagnostics, HclError
from jobspec.evaluation.evaluate import POISON, Scope, SilentError, evaluate
from jobspec.evaluation.values import Value, weigh
from jobspec.hcl.tree import Attribute, Block, Traversal, walk

MAX_WEIGHT = 100_000


def collect_locals(blocks: list[Block], diagnostics: Diagnostics) -> dict[str, Attribute]:
    """All locals of the file by name; of two with one name the later counts."""
    found: dict[str, Attribute] = {}
    for block in blocks:
        for inner in block.body.blocks:
            diagnostics.report(
                f'Unexpected "{inner.type}" block: blocks are not allowed here.',
                inner.start,
                inner.type_end,
            )
        found.update(block.body.attributes)
    return found


def resolve_locals(
    attributes: dict[str, Attribute],
    values: dict[str, Value],
    scope: Scope,
    diagnostics: Diagnostics,
) -> None:
    """Fills `values`, which `scope` knows as `local`; each after those it refers to."""
    pending = dict(attributes)
    while pending:
        failures: dict[str, HclError] = {}
        for name in _in_order(pending):
            try:
                value = evaluate(pending[name].expr, scope)
                _check_weight(pending[name], value)
                values[name] = value
            except HclError as error:
                failures[name] = error
        if len(failures) == len(pending):
            for name, failure in failures.items():
                values[name] = POISON
                if not isinstance(failure, SilentError):
                    diagnostics.add(failure)
            return
        pending = {name: pending[name] for name in failures}


def _check_weight(attribute: Attribute, value: Value) -> None:
    if weigh(value, MAX_WEIGHT) > MAX_WEIGHT:
        raise HclError(
            f"Value too large: more than {MAX_WEIGHT} values in one local.",
            attribute.start,
            attribute.end,
        )


def _in_order(pending: dict[str, Attribute]) -> list[str]:
    """The pending names, each after those it refers to as far as there is such an order."""
    waiting: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for name, attribute in pending.items():
        needed = {
            node.steps[0].key
            for node in walk(attribute.expr)
            if isinstance(node, Traversal) and node.root == "local" and node.steps
        } & pending.keys()
        missing[name] = len(needed)
        for other in needed:
            waiting.setdefault(other, []).append(name)
    ordered = [name for name, count in missing.items() if count == 0]
    for name in ordered:
        for dependent in waiting.get(name, ()):
            missing[dependent] -= 1
            if missing[dependent] == 0:
                ordered.append(dependent)
    done = set(ordered)
    return ordered + [name for name in pending if name not in done]
