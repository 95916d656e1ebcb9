"""The values of variables that a stored job was submitted with, as one file of variables."""

from __future__ import annotations

from collections.abc import Mapping

from jobspec.errors import Diagnostics, SourceText
from jobspec.hcl.parser import parse_body
from jobspec.hcl.tree import Body
from jobspec.hcl.writer import quoted

_TAKEN_AS_TEXT = ("", "string", "number", "any")
"""Types whose values on the command line are texts; those of others are expressions."""


def variables_file(job_text: str, file_text: str, flags: Mapping[str, str]) -> str:
    """Returns the content of `file_text` with the values of `flags`, which go before.

    A value has the form that the type of its variable, in `job_text`, needs. Raises JobFileError
    for texts that are not HCL.
    """
    types = _types(job_text)
    lines = [
        f"{name} = {quoted(value) if types.get(name, '') in _TAKEN_AS_TEXT else value}\n"
        for name, value in sorted(flags.items())
    ]
    rest = _without(file_text, flags).strip()
    return (f"{rest}\n" if rest else "") + "".join(lines)


def variable_names(file_text: str) -> list[str]:
    """Returns the variables that a file of variables sets."""
    return list(_body(file_text).attributes)


def _types(job_text: str) -> dict[str, str]:
    """Returns the declared type of each variable, as it is written; '' where none is."""
    found = {}
    for block in _body(job_text).blocks:
        if block.type == "variable" and block.labels:
            kind = block.body.attributes.get("type")
            text = job_text[kind.expr.start : kind.expr.end] if kind is not None else ""
            found[block.labels[0].value] = text.strip().strip('"')
    return found


def _without(file_text: str, names: Mapping[str, str]) -> str:
    cuts = [
        (each.start, each.expr.end)
        for each in _body(file_text).attributes.values()
        if each.name in names
    ]
    for start, end in sorted(cuts, reverse=True):
        file_text = file_text[:start] + file_text[end:]
    return file_text


def _body(text: str) -> Body:
    source = SourceText("variables", text)
    diagnostics = Diagnostics(source)
    body = parse_body(source, diagnostics)
    diagnostics.raise_if_any()
    return body
