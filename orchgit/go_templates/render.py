"""Renders a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.errors import LimitError
from orchgit.go_templates.execute import Execution
from orchgit.go_templates.functions import ANY, GO_FUNCTIONS, GoFunction
from orchgit.go_templates.parse import parse
from orchgit.go_templates.values import INVALID

MAX_OUTPUT_BYTES = 16 << 20
MAX_STEPS = 3_000_000


def render(
    text: str,
    data: object = INVALID,
    *,
    functions: Mapping[str, GoFunction | Callable[..., Any]] | None = None,
    budget: StepBudget | None = None,
    delimiters: tuple[str, str] = ("{{", "}}"),
    err_missing_key: bool = False,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> str:
    """The template `text` rendered with `data` as its dot.

    `functions` are known beside Go's own; a plain callable takes any arguments. With
    `err_missing_key` a map without the key is an error instead of the zero value. Raises
    TemplateError with Go's text, or LimitError.
    """
    known = dict(GO_FUNCTIONS)
    for name, function in (functions or {}).items():
        is_typed = isinstance(function, GoFunction)
        known[name] = function if is_typed else GoFunction(function, rest=ANY)  # type: ignore[assignment,arg-type]
    left, right = delimiters
    try:
        parsed = parse(text, frozenset(known), left or "{{", right or "}}")
        run = Execution(parsed, known, err_missing_key, budget or StepBudget(MAX_STEPS), max_bytes)
        run.template("", data)
        return "".join(run.out)
    except RecursionError:
        raise LimitError("it is nested too deeply") from None
