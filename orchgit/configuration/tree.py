"""Reads the text of a configuration file, HCL or JSON, into a tree; `schema` says what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jobspec.blocks.scalars import plain
from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.evaluation.evaluate import Scope, evaluate
from jobspec.functions.call import refuse_calls
from jobspec.hcl.parser import parse_body
from jobspec.hcl.tree import Body
from orchgit.configuration.schema import LABELLED
from orchgit.errors import InvalidInputError


def read_tree(path: Path) -> Any:
    """Returns the file's tree. Raises InvalidInputError, with line and column where they are
    known.
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the configuration {path}: {error}") from error
    return _json_tree(path, text) if text.lstrip().startswith("{") else _hcl_tree(path, text)


def _json_tree(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"cannot read the configuration {path}: {error}") from error


def _hcl_tree(path: Path, text: str) -> dict[str, Any]:
    source = SourceText(path.name, text)
    diagnostics = Diagnostics(source)
    body = parse_body(source, diagnostics)
    if not diagnostics.found:
        try:
            return _body_tree(body, Scope({}, text, refuse_calls, runtime=False))
        except HclError as error:
            diagnostics.add(error)
    problems = "\n".join(str(problem) for problem in diagnostics.found)
    raise InvalidInputError(f"cannot read the configuration {path}:\n{problems}")


def _body_tree(body: Body, scope: Scope) -> dict[str, Any]:
    tree: dict[str, Any] = {
        name: plain(evaluate(attribute.expr, scope)) for name, attribute in body.attributes.items()
    }
    for block in body.blocks:
        inner = _body_tree(block.body, scope)
        if block.type in LABELLED:
            if len(block.labels) != 1:
                raise HclError(
                    f'Block "{block.type}" needs one label, its name.', block.start, block.end
                )
            tree.setdefault(block.type, {})[block.labels[0].value] = inner
        elif block.type in tree:
            raise HclError(f'Block "{block.type}" is given twice.', block.start, block.end)
        else:
            tree[block.type] = inner
    return tree
