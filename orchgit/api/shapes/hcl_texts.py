"""Problems of a job file in the words that clients of Nomad's parser know.

Each is `FILE:LINE,COLUMN-COLUMN: Summary; Detail`; of several the first is shown, and their number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PROBLEM = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", re.DOTALL)
_TOKEN = re.compile(r"[^\W\d][\w-]*|\w+|.", re.DOTALL)
_WITH_NEXT = re.compile(r"[\w-]+\s*.", re.DOTALL)
_LEGACY_INDEX = re.compile(r"\d+\.\d+")
_EXPRESSION = "Expected the start of an expression, but found an invalid expression token."
_REQUIRED = "An argument or block definition is required here."
_HOW_TO_SET = 'To set an argument, use the equals sign "=" to introduce the argument value.'
_MULTI_LINE = (
    "Quoted strings may not be split over multiple lines. To produce a multi-line string, either "
    'use the \\n escape to represent a newline character or use the "heredoc" multi-line template '
    "syntax."
)
_DETAILS = {
    "Invalid single-argument block definition": (
        "A single-line block definition must end with a closing brace immediately after its "
        "single argument definition."
    ),
    "Argument definition required": (
        "A single-line block definition can contain only a single argument. If you meant to "
        'define argument "{word}", use an equals sign to assign it a value. To define a nested '
        "block, place it on a line of its own within its parent block."
    ),
    "Missing newline after argument": "An argument definition must end with a newline.",
    "Invalid block definition": (
        'A block definition must have block content delimited by "{{" and "}}", starting on the '
        "same line as the block header."
    ),
    "Invalid argument name": "Argument names must not be quoted.",
    "Invalid expression": _EXPRESSION,
    "Invalid attribute name": "An attribute name is required after a dot.",
    "Argument or block definition required": _REQUIRED,
    "Missing item separator": "Expected a comma to mark the beginning of the next item.",
    "Missing attribute separator": (
        "Expected a newline or comma to mark the beginning of the next attribute."
    ),
    "Invalid 'for' expression": "For expression requires variable name after 'for'.",
    "Invalid multi-line string": _MULTI_LINE,
    "Unterminated template string": "No closing marker was found for the string.",
    "Unclosed configuration block": (
        "There is no closing brace for this block before the end of the file. This may be caused "
        "by incorrect brace nesting elsewhere in this file."
    ),
    "Unterminated tuple constructor expression": (
        "There is no corresponding closing bracket before the end of the file. This may be caused "
        "by incorrect bracket nesting elsewhere in this file."
    ),
    "Invalid character": "This character is not used within the language.",
}
_ENDS_LINE = frozenset(
    (
        *("Invalid block definition", "Invalid expression", "Invalid attribute name"),
        "Invalid multi-line string",
    )
)


def hcl_text(problems: Sequence[str], text: str) -> str:
    """Returns the problems, `FILE:LINE:COLUMN: message` each, of the file `text`."""
    shown = _shown(problems[0], text.split("\n"))
    more = len(problems) - 1
    return f"{shown}, and {more} other diagnostic(s)" if more else shown


def _shown(problem: str, lines: Sequence[str]) -> str:
    found = _PROBLEM.fullmatch(problem)
    if found is None:
        return problem
    number, column = int(found["line"]), int(found["column"])
    line = lines[number - 1] if number <= len(lines) else ""
    rest = line[column - 1 :]
    summary, _, said = found["message"].partition(": ")
    summary, _, hint = summary.replace('"for"', "'for'").partition(" here.")
    word = match[0] if (match := _TOKEN.match(rest)) else ""
    detail = _DETAILS.get(summary, said).format(word=word) if summary in _DETAILS else said
    width = len(word)
    if (summary == "Argument definition required" and (match := _WITH_NEXT.match(rest))) or (
        summary == "Invalid legacy index syntax" and (match := _LEGACY_INDEX.match(rest))
    ):
        width = len(match[0])
    elif summary == "Argument or block definition required" and hint:
        detail += f" {_HOW_TO_SET}"
    elif summary == "Invalid character" and word == "'":
        detail = 'Single quotes are not valid. Use double quotes (") to enclose strings.'
    elif summary == "Attribute redefined":
        named = re.search(r'the argument ("[^"]*").*line (\d+), column (\d+)', said)
        if named is not None:
            end = int(named[3]) + len(named[1]) - 2
            detail = (
                f"The argument {named[1]} was already set at {found['file']}:{named[2]},{named[3]}-"
                f"{end}. Each argument may be set only once."
            )
    place = f"{number},{column}-{column + width}"
    if not rest and summary in _ENDS_LINE:
        place = f"{number},{column}-{number + 1},1"
    return f"{found['file']}:{place}: {summary}; {detail}" if detail else problem
