"""Decodes blocks without a fixed shape (`config`, `policy`): the driver decides their shape.

A nested block becomes a list of maps, repeated ones one list, and each label one more level. An
attribute written as a literal object becomes a list of one map too, because drivers are given
blocks and such objects alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobspec.blocks.scalars import plain
from jobspec.errors import HclError
from jobspec.evaluation.evaluate import Scope, final
from jobspec.evaluation.locals import MAX_WEIGHT
from jobspec.evaluation.values import ConvertError, weigh
from jobspec.hcl.tree import Block, Body, Object


def decode_free(body: Body, scope: Scope, report: Callable[[HclError], None]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    blocks: dict[str, list[dict[str, Any]]] = {}
    for block in body.blocks:
        blocks.setdefault(block.type, []).append(_block(block, scope, report))
    for attribute in body.attributes.values():
        if attribute.name in blocks:
            continue
        expr = attribute.expr
        try:
            value = final(expr, scope)
            if type(value) is not str and weigh(value, MAX_WEIGHT) > MAX_WEIGHT:
                raise ConvertError(f"more than {MAX_WEIGHT} values in one argument")
            value = plain(value)
            if value is not None:
                result[attribute.name] = [value] if type(expr) is Object else value
        except ConvertError as error:
            report(HclError(f"Unsuitable value: {error}.", expr.start, expr.end))
        except HclError as error:
            report(error)
    result.update(blocks)
    return dict(sorted(result.items()))


def _block(block: Block, scope: Scope, report: Callable[[HclError], None]) -> dict[str, Any]:
    content = decode_free(block.body, scope, report)
    for label in reversed(block.labels):
        content = {label.value: [content]}
    return content
