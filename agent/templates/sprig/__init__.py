"""Sprig's functions, `sprig_*` in templates: those whose result depends on nothing but arguments
(https://masterminds.github.io/sprig/), with the few random ones that consul-template keeps."""

from __future__ import annotations

from agent.templates.sprig.crypto import CRYPTO
from agent.templates.sprig.lists import LISTS
from agent.templates.sprig.maps import MAPS
from agent.templates.sprig.numbers import NUMBERS
from agent.templates.sprig.others import OTHERS, regex_functions
from agent.templates.sprig.texts import TEXTS
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.functions import GoFunction


def sprig_functions(budget: StepBudget) -> dict[str, GoFunction]:
    """By name, without `sprig_`."""
    return {**TEXTS, **NUMBERS, **LISTS, **MAPS, **CRYPTO, **OTHERS, **regex_functions(budget)}
