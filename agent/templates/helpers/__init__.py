"""consul-template's functions that read nothing from outside."""

from __future__ import annotations

from agent.templates.helpers.encodings import ENCODINGS
from agent.templates.helpers.lists import LISTS
from agent.templates.helpers.numbers import NUMBERS
from agent.templates.helpers.texts import TEXTS
from agent.templates.time_layouts import Moment
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import GoFunction, fn, text_fn
from orchgit.regex import compile_pattern

PURE: dict[str, GoFunction] = {**NUMBERS, **TEXTS, **LISTS, **ENCODINGS}


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


def regex_functions(budget: StepBudget) -> dict[str, GoFunction]:
    return {
        "regexMatch": text_fn(lambda pattern, text: compile_pattern(pattern).search(text), 2),
        "regexReplaceAll": text_fn(
            lambda pattern, new, text: compile_pattern(pattern).replace(text, new, budget.spend), 3
        ),
    }
