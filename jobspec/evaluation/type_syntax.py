"""Type expressions: `list(string)`, `object({ a = number })`, in variables and `convert`."""

from __future__ import annotations

from jobspec.errors import HclError
from jobspec.evaluation.values import PRIMITIVES, Type
from jobspec.hcl import tree

_COLLECTIONS = ("list", "set", "map")


def read_type(node: tree.Expression, exact: bool = True) -> Type:
    """The type an expression names; raises HclError at what is wrong with it.

    Not `exact`: `any` may stand for a type that the value decides.
    """
    if isinstance(node, tree.Traversal) and not node.steps:
        return "dynamic" if node.root == "any" and not exact else _keyword(node)
    if isinstance(node, tree.CallExpression):
        return _constructor(node, exact)
    raise _invalid("a type keyword or a type constructor call is required", node)


def _invalid(message: str, node: tree.Expression, end: int | None = None) -> HclError:
    return HclError(
        f"Invalid type specification: {message}.",
        node.start,
        node.end if end is None else end,
        hint="Write string, number, bool, list(T), set(T), map(T), object({...}) or tuple([...]).",
    )


def _keyword(node: tree.Traversal) -> Type:
    name = node.root
    if name in PRIMITIVES:
        return name
    if name == "any":
        raise _invalid('the keyword "any" cannot be used here: an exact type is required', node)
    if name in _COLLECTIONS:
        raise _invalid(
            f"the {name} type constructor requires one argument specifying the element type", node
        )
    if name in ("object", "tuple"):
        raise _invalid(f"the {name} type constructor requires one argument", node)
    raise _invalid(f'the keyword "{name}" is not a valid type', node)


def _constructor(node: tree.CallExpression, exact: bool) -> Type:
    name = node.name
    if name == "optional":
        raise _invalid(
            "the optional attribute modifier is not allowed here: exact types only",
            node,
            node.name_end,
        )
    if name in PRIMITIVES or name == "any":
        raise _invalid(f'primitive type keyword "{name}" does not expect arguments', node)
    if name not in (*_COLLECTIONS, "object", "tuple"):
        raise _invalid(f'keyword "{name}" is not a valid type constructor', node)
    if len(node.args) != 1:
        raise _invalid(f"the {name} type constructor requires exactly one argument", node)
    arg = node.args[0]
    if name == "object":
        return _object(arg, exact)
    if name == "tuple":
        if not isinstance(arg, tree.Tuple):
            raise _invalid("the tuple type constructor requires a list of types", arg)
        return ("tuple", tuple(read_type(item, exact) for item in arg.items))
    return (name, read_type(arg, exact))


def _object(arg: tree.Expression, exact: bool) -> Type:
    if not isinstance(arg, tree.Object):
        raise _invalid("the object type constructor requires a map of attribute types", arg)
    attributes = {}
    for key, value in arg.items:
        if not isinstance(key, tree.LiteralExpression) or not isinstance(key.value, str):
            raise _invalid("object constructor map keys must be attribute names", key)
        attributes[key.value] = read_type(value, exact)
    return ("object", tuple(sorted(attributes.items())))
