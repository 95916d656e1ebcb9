"""`regex_replace`: the whole matches of an RE2 pattern, replaced; `$1` and `${name}` expand."""

from __future__ import annotations

from jobspec.functions.signature import CallContext, Function, FunctionError, text
from orchgit.regex import PatternError, compile_pattern


def _replace(context: CallContext, value: str, pattern: str, template: str) -> str:
    try:
        return compile_pattern(pattern).replace(value, template, context.budget.charge)
    except PatternError as error:
        raise FunctionError(str(error)) from None


FUNCTIONS = {
    "regex_replace": Function(_replace, (text(), text("pattern"), text("replace")), in_context=True)
}
