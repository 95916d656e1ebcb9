"""Constraints, affinities and spreads."""

from __future__ import annotations

from collections.abc import Sequence

from jobspec.rules.findings import Findings
from orchgit.go_quote import quote
from orchgit.model.constraint import Affinity, Constraint, Spread
from orchgit.regex import PatternError, compile_pattern
from orchgit.version_constraints import malformed_clause
from orchgit.whole_number import whole_number

_COMPARISONS = ("=", "==", "is", "!=", "not", "<", "<=", ">", ">=")
_SETS = ("set_contains", "set_contains_all", "set_contains_any")
_SET_WORDS = {"constraint": "constraint requires", "affinity": "operators require"}


def check_targets(
    findings: Findings,
    constraints: Sequence[Constraint] | None,
    affinities: Sequence[Affinity] | None,
    task_level: bool = False,
) -> None:
    check_constraints(findings, constraints, task_level)
    check_affinities(findings, affinities)


def check_constraints(
    findings: Findings, constraints: Sequence[Constraint] | None, task_level: bool = False
) -> None:
    for index, constraint in enumerate(constraints or ()):
        inner = findings.at("Constraints", index)
        _constraint(inner, constraint)
        findings.nest(f"Constraint {index + 1} validation failed", inner)
        if task_level and constraint.operand in ("distinct_hosts", "distinct_property"):
            findings.add(
                f"Constraint {index + 1} has disallowed Operand at task level: "
                f"{constraint.operand}",
                "Constraints",
                index,
            )


def check_affinities(findings: Findings, affinities: Sequence[Affinity] | None) -> None:
    for index, affinity in enumerate(affinities or ()):
        inner = findings.at("Affinities", index)
        _affinity(inner, affinity)
        findings.nest(f"Affinity {index + 1} validation failed", inner)


def check_spreads(findings: Findings, spreads: Sequence[Spread] | None) -> None:
    for index, spread in enumerate(spreads or ()):
        inner = findings.at("Spreads", index)
        _spread(inner, spread)
        findings.nest(f"Spread {index + 1} validation failed", inner)


def _constraint(findings: Findings, constraint: Constraint) -> None:
    operand, right = constraint.operand, constraint.r_target
    needs_left = operand != "distinct_hosts"
    if not operand:
        findings.add("Missing constraint operand")
    elif operand == "distinct_property":
        _distinct_property(findings, right)
    elif operand in ("is_set", "is_not_set"):
        findings.check(
            bool(right), f"Operator {quote(operand)} does not support an RTarget", "RTarget"
        )
    elif operand != "distinct_hosts":
        _operand(findings, operand, right, "constraint")
    findings.check(
        needs_left and not constraint.l_target,
        "no attribute provided but is required by operator",
        "LTarget",
    )


def _operand(findings: Findings, operand: str, right: str, kind: str) -> None:
    if operand in _COMPARISONS:
        findings.check(not right, f"Operator {quote(operand)} requires an RTarget", "RTarget")
    elif operand in _SETS:
        findings.check(not right, f"Set contains {_SET_WORDS[kind]} an RTarget", "RTarget")
    elif operand == "regexp":
        try:
            compile_pattern(right)
        except PatternError as error:
            findings.add(f"Regular expression failed to compile: {error}", "RTarget")
    elif operand == "version":
        bad = malformed_clause(right, strict=False)
        findings.check(
            bad is not None, f"Version {kind} is invalid: malformed constraint: {bad}", "RTarget"
        )
    elif operand == "semver":
        bad = malformed_clause(right, strict=True)
        findings.check(
            bad is not None, f"Semver {kind} is invalid: Malformed constraint: {bad}", "RTarget"
        )
    else:
        what = "constraint type" if kind == "constraint" else "affinity operator"
        findings.add(f"Unknown {what} {quote(operand)}", "Operand")


def _distinct_property(findings: Findings, right: str) -> None:
    if not right:
        return
    count = whole_number(right)
    if count is None or right.startswith("-"):
        findings.add(
            f"Failed to convert RTarget {quote(right)} to uint64: strconv.ParseUint: parsing "
            f"{quote(right)}: invalid syntax",
            "RTarget",
        )
    elif count < 1:
        findings.add(
            f"Distinct Property must have an allowed count of 1 or greater: {count} < 1",
            "RTarget",
        )


def _affinity(findings: Findings, affinity: Affinity) -> None:
    if not affinity.operand:
        findings.add("Missing affinity operand")
    else:
        _operand(findings, affinity.operand, affinity.r_target, "affinity")
    findings.check(not affinity.l_target, "No LTarget provided but is required", "LTarget")
    findings.check(
        not -100 <= affinity.weight <= 100,
        "Affinity weight must be within the range [-100,100]",
        "Weight",
    )
    findings.check(affinity.weight == 0, "Affinity weight cannot be zero", "Weight")


def _spread(findings: Findings, spread: Spread) -> None:
    findings.check(not spread.attribute, "Missing spread attribute", "Attribute")
    findings.check(
        not 0 < spread.weight <= 100,
        "Spread block must have a positive weight from 0 to 100",
        "Weight",
    )
    seen: set[str] = set()
    for index, target in enumerate(spread.spread_target or ()):
        name = quote(target.value)
        if target.value in seen:
            findings.add(f"Spread target value {name} already defined", "SpreadTarget", index)
        seen.add(target.value)
        findings.check(
            not 0 <= target.percent <= 100,
            f"Spread target percentage for value {name} must be between 0 and 100",
            "SpreadTarget",
            index,
        )
    total = sum(target.percent for target in spread.spread_target or ())
    findings.check(
        total > 100,
        f"Sum of spread target percentages must not be greater than 100%; got {total}%",
        "SpreadTarget",
    )
