"""Expressions, by precedence climbing over the token list.

Newlines are tokens; `newlines` says whether the construct being read stops at them. Inside
parentheses, brackets, calls and template sequences they are skipped.
"""

from __future__ import annotations

from typing import Any

from jobspec.errors import HclError
from jobspec.evaluation.numbers import NULL
from jobspec.hcl import literals
from jobspec.hcl.lexer import MAX_DEPTH, Token
from jobspec.hcl.templates import heredoc, quoted_template
from jobspec.hcl.tree import (
    BinaryOperation,
    CallExpression,
    Conditional,
    Expression,
    For,
    ForIntro,
    Index,
    Item,
    LiteralExpression,
    Object,
    Parens,
    Relative,
    Splat,
    Step,
    Traversal,
    Tuple,
    UnaryOperation,
)

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_KEYWORDS: dict[str, Any] = {"true": True, "false": False}


class ExpressionParser:
    """Reads the tokens from `at` on."""

    depth = 0

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.newlines = True

    # -- tokens -----------------------------------------------------------------------------

    def kind(self) -> str:
        if not self.newlines:
            self.skip_newlines()
        return self.tokens[self.at][0]

    def skip_newlines(self) -> None:
        tokens = self.tokens
        while tokens[self.at][0] == "nl":
            self.at += 1

    def word(self) -> str:
        """The identifier at hand, or ''."""
        kind, start, end = self.tokens[self.at]
        return self.text[start:end] if kind == "id" else ""

    def error_here(self, message: str) -> HclError:
        _, start, end = self.tokens[self.at]
        return HclError(message, start, end)

    # -- operators --------------------------------------------------------------------------

    def expression(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error_here(f"Nesting too deep: more than {MAX_DEPTH} levels.")
        node = self.binary(1)
        if self.kind() == "?":
            node = self.conditional(node)
        self.depth -= 1
        return node

    def conditional(self, condition: Expression) -> Expression:
        self.at += 1
        yes = self.expression()
        if self.kind() != ":":
            raise self.error_here(
                'Missing false expression in conditional: expected ":" and the value if false.'
            )
        self.at += 1
        no = self.expression()
        return Conditional(condition, yes, no, condition.start, no.end)

    def binary(self, lowest: int) -> Expression:
        left = self.operand()
        while True:
            op = self.kind()
            precedence = _PRECEDENCE.get(op, 0)
            if precedence < lowest or precedence == 0:
                return left
            self.at += 1
            left = BinaryOperation(op, left, self.binary(precedence + 1))

    def operand(self) -> Expression:
        node = self.term()
        kind = self.kind()
        return self.steps(node) if kind == "." or kind == "[" else node

    # -- terms ------------------------------------------------------------------------------

    def term(self) -> Expression:
        kind = self.kind()
        _, start, end = self.tokens[self.at]
        if kind == "str":
            self.at += 1
            return LiteralExpression(literals.unescape(self.text, start + 1, end - 1), start, end)
        if kind == "id":
            return self.name(start, end)
        if kind == "num":
            self.at += 1
            return self.number_literal(start, end)
        if kind == "oq":
            return quoted_template(self)
        if kind == "[":
            return self.tuple_or_for(start)
        if kind == "{":
            return self.object_or_for(start)
        if kind == "oh":
            return heredoc(self)
        if kind == "(":
            return self.parenthesized(start)
        if kind in ("-", "!"):
            return self.unary(kind, start)
        raise HclError("Invalid expression: expected the start of an expression.", start, end)

    def number_literal(self, start: int, end: int) -> Expression:
        try:
            return LiteralExpression(literals.number(self.text[start:end]), start, end)
        except OverflowError:
            raise HclError("Invalid number literal: it is too large.", start, end) from None

    def unary(self, op: str, start: int) -> Expression:
        self.at += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error_here(f"Nesting too deep: more than {MAX_DEPTH} levels.")
        node = self.operand()
        self.depth -= 1
        return UnaryOperation(op, node, start)

    def parenthesized(self, start: int) -> Expression:
        newlines, self.newlines = self.newlines, False
        self.at += 1
        inner = self.expression()
        if self.kind() != ")":
            raise self.error_here('Unbalanced parentheses: expected ")" to end the expression.')
        end = self.tokens[self.at][2]
        self.at += 1
        self.newlines = newlines
        return Parens(inner, start, end)

    def name(self, start: int, end: int) -> Expression:
        text = self.text[start:end]
        self.at += 1
        follower = self.kind()
        if follower in ("(", "::"):
            return self.call(text, start, end)
        if text in _KEYWORDS:
            return LiteralExpression(_KEYWORDS[text], start, end)
        if text == "null":
            return LiteralExpression(NULL, start, end)
        return Traversal(literals.normal(text), [], start, end)

    def call(self, name: str, start: int, end: int) -> Expression:
        while self.kind() == "::":
            self.at += 1
            if self.kind() != "id":
                raise self.error_here("Missing function name after the namespace.")
            name += "::" + self.word()
            end = self.tokens[self.at][2]
            self.at += 1
        if self.kind() != "(":
            raise self.error_here("Missing open parenthesis of a function call.")
        opened = self.tokens[self.at][1]
        newlines, self.newlines = self.newlines, False
        self.at += 1
        args: list[Expression] = []
        expand = False
        while self.kind() != ")":
            args.append(self.expression())
            kind = self.kind()
            if kind == "...":
                expand = True
                self.at += 1
                if self.kind() != ")":
                    raise self.error_here("Missing closing parenthesis: the expanded one is last.")
            elif kind == ",":
                self.at += 1
            elif kind == "eof":
                raise HclError(
                    "Unterminated function call: there is no closing parenthesis.",
                    opened,
                    opened + 1,
                )
            elif kind != ")":
                raise self.error_here("Missing argument separator: expected a comma.")
        close_end = self.tokens[self.at][2]
        self.at += 1
        self.newlines = newlines
        return CallExpression(name, args, expand, end, start, close_end)

    # -- what follows a term ----------------------------------------------------------------

    def steps(self, node: Expression) -> Expression:
        while True:
            kind = self.kind()
            if kind == ".":
                node = self.dot(node)
            elif kind == "[":
                node = self.bracket(node)
            else:
                return node

    def dot(self, node: Expression) -> Expression:
        dot = self.tokens[self.at][1]
        self.at += 1
        kind = self.kind()
        _, start, end = self.tokens[self.at]
        if kind == "id":
            self.at += 1
            return _step(node, Step(True, self.text[start:end], dot, end))
        if kind == "num":
            self.at += 1
            return _step(node, self.legacy_index(dot, start, end))
        if kind == "*":
            self.at += 1
            return self.attribute_splat(node, end)
        raise HclError("Invalid attribute name: one is required after a dot.", start, end)

    def legacy_index(self, dot: int, start: int, end: int) -> Step:
        text = self.text[start:end]
        if not text.isdecimal():
            raise HclError(
                "Invalid legacy index syntax: two indexes in a row need brackets.",
                start,
                end,
                hint="Write " + "".join(f"[{part}]" for part in text.split(".")) + ".",
            )
        return Step(False, int(text), dot, end)

    def attribute_splat(self, source: Expression, end: int) -> Expression:
        item = Item(source.start, end)
        each: Expression = item
        while self.kind() == ".":
            start = self.tokens[self.at][1]
            self.at += 1
            kind = self.kind()
            _, nstart, end = self.tokens[self.at]
            if kind == "id":
                step = Step(True, self.text[nstart:end], start, end)
            elif kind == "num":
                step = self.legacy_index(start, nstart, end)
            elif kind == "*":
                raise self.error_here("Nested splat expression not allowed: use [*] instead.")
            else:
                raise self.error_here("Invalid attribute name: one is required after a dot.")
            self.at += 1
            each = _step(each, step)
        return Splat(source, each, item, source.start, end)

    def bracket(self, node: Expression) -> Expression:
        opened = self.tokens[self.at][1]
        newlines, self.newlines = self.newlines, False
        self.at += 1
        if self.kind() == "*":
            return self.full_splat(node, newlines)
        key = self.expression()
        if self.kind() != "]":
            raise self.error_here('Missing close bracket on index: expected "]".')
        end = self.tokens[self.at][2]
        self.at += 1
        self.newlines = newlines
        if (
            isinstance(key, LiteralExpression)
            and type(key.value) is not bool
            and key.value is not NULL
        ):
            return _step(node, Step(False, key.value, opened, end))
        return Index(node, key, opened, node.start, end)

    def full_splat(self, source: Expression, newlines: bool) -> Expression:
        self.at += 1
        if self.kind() != "]":
            raise self.error_here('Missing close bracket on splat index: expected "]".')
        end = self.tokens[self.at][2]
        self.at += 1
        self.newlines = newlines
        item = Item(source.start, end)
        each = self.steps(item)
        return Splat(source, each, item, source.start, max(end, each.end))

    # -- constructors -----------------------------------------------------------------------

    def tuple_or_for(self, start: int) -> Expression:
        newlines, self.newlines = self.newlines, False
        self.at += 1
        if self.kind() == "id" and self.word() == "for":
            node = self.for_expression(start, closing="]")
        else:
            node = self.tuple_items(start)
        self.newlines = newlines
        return node

    def tuple_items(self, start: int) -> Expression:
        items: list[Expression] = []
        while self.kind() != "]":
            if self.kind() == "eof":
                raise _unterminated("tuple constructor expression", start)
            items.append(self.expression())
            kind = self.kind()
            if kind == ",":
                self.at += 1
            elif kind == "eof":
                raise _unterminated("tuple constructor expression", start)
            elif kind != "]":
                raise self.error_here("Missing item separator: expected a comma.")
        end = self.tokens[self.at][2]
        self.at += 1
        return Tuple(items, start, end)

    def object_or_for(self, start: int) -> Expression:
        newlines, self.newlines = self.newlines, False
        self.at += 1
        if self.kind() == "id" and self.word() == "for":
            node = self.for_expression(start, closing="}")
        else:
            self.newlines = True
            node = self.object_items(start)
        self.newlines = newlines
        return node

    def object_items(self, start: int) -> Expression:
        items: list[tuple[Expression, Expression]] = []
        while True:
            self.skip_newlines()
            kind = self.kind()
            if kind == "}":
                break
            if kind == "eof":
                raise _unterminated("object constructor expression", start)
            key = self.object_key()
            kind = self.kind()
            if kind not in ("=", ":"):
                raise self.error_here(
                    'Missing attribute value: expected "=" and a value after the key.'
                )
            self.at += 1
            items.append((key, self.expression()))
            kind = self.kind()
            if kind == ",":
                self.at += 1
            elif kind == "eof":
                raise _unterminated("object constructor expression", start)
            elif kind not in ("nl", "}"):
                raise self.error_here(
                    "Missing attribute separator: expected a newline or comma before the next one."
                )
        end = self.tokens[self.at][2]
        self.at += 1
        return Object(items, start, end)

    def object_key(self) -> Expression:
        _, start, end = self.tokens[self.at]
        word = self.word()
        key = self.expression()
        if word and key.end == end and key.start == start:
            return LiteralExpression(literals.normal(word), start, end)
        return key

    def for_expression(self, start: int, closing: str) -> Expression:
        self.at += 1
        intro = self.for_intro()
        if self.kind() != ":":
            raise self.error_here('Invalid "for" expression: expected a colon and the value.')
        self.at += 1
        key: Expression | None = None
        value = self.expression()
        if self.kind() == "=>":
            if closing == "]":
                raise self.error_here('Invalid "for" expression: a key needs braces around it.')
            self.at += 1
            key, value = value, self.expression()
        elif closing == "}":
            raise self.error_here('Invalid "for" expression: expected "=>" after the key.')
        group = False
        if self.kind() == "..." and key is not None:
            group = True
            self.at += 1
        condition = None
        if self.kind() == "id" and self.word() == "if":
            self.at += 1
            condition = self.expression()
        if self.kind() != closing:
            raise self.error_here(f'Invalid "for" expression: expected "{closing}" at its end.')
        end = self.tokens[self.at][2]
        self.at += 1
        return For(intro, key, value, condition, group, start, end)

    def for_intro(self) -> ForIntro:
        """Reads `k, v in collection`, in a for-expression or a template."""
        key_name, value_name = "", self.for_name()
        if self.kind() == ",":
            self.at += 1
            key_name, value_name = value_name, self.for_name()
        if self.kind() != "id" or self.word() != "in":
            raise self.error_here('Invalid "for" expression: expected "in" after the names.')
        self.at += 1
        return ForIntro(key_name, value_name, self.expression())

    def for_name(self) -> str:
        if self.kind() != "id":
            raise self.error_here('Invalid "for" expression: expected a variable name.')
        name = self.word()
        self.at += 1
        return name


def _unterminated(what: str, start: int) -> HclError:
    return HclError(f"Unterminated {what}: there is no closing bracket.", start, start + 1)


def _step(node: Expression, step: Step) -> Expression:
    if isinstance(node, (Traversal, Relative)):
        node.steps.append(step)
        node.end = step.end
        return node
    return Relative(node, [step], node.start, step.end)
