"""Parses a template into its tree; errors name the line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.go_templates.tree import (
    Assignment,
    ControlBlock,
    Expression,
    Field,
    FieldOf,
    FunctionCall,
    LiteralValue,
    Output,
    TemplateNode,
    Text,
)

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<raw>`[^`]*`)
  | (?P<number>[+-]?\d+(?:\.\d+)?)
  | (?P<variable>\$\w*)(?P<vpath>(?:\.\w+)*)
  | (?P<field>(?:\.\w+)+)
  | (?P<dot>\.)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol>:=|=|\||\(|\)|,)
    )""",
    re.VERBOSE,
)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|`[^`]*`')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_BLOCKS = ("if", "with", "range")
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "nil": None}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    path: tuple[str, ...] = ()


def parse(text: str, left: str = "{{", right: str = "}}") -> list[TemplateNode]:
    """The template's tree; InvalidInputError with the line for what cannot be read."""
    return _Parser(text, left, right).parse()


class _Parser:
    def __init__(self, text: str, left: str, right: str) -> None:
        self._pieces = _split(text, left, right)
        self._open: list[tuple[ControlBlock, list[TemplateNode]]] = []
        self._target: list[TemplateNode] = []

    def parse(self) -> list[TemplateNode]:
        root = self._target
        for is_action, text, line in self._pieces:
            if is_action:
                self._action(text.strip(), line)
            elif text:
                self._target.append(Text(text))
        if self._open:
            block = self._open[-1][0]
            raise _error(block.line, f'"{block.kind}" has no "end"')
        return root

    def _action(self, text: str, line: int) -> None:
        word, _, rest = text.partition(" ")
        if text.startswith("/*"):
            return
        if word in _BLOCKS:
            self._begin(ControlBlock(word, _pipeline(rest, line), line))
        elif word == "else":
            self._otherwise(rest.strip(), line)
        elif word == "end":
            self._end(line)
        elif text:
            self._target.append(Output(_pipeline(text, line), line))
        else:
            raise _error(line, "an action is empty")

    def _begin(self, block: ControlBlock) -> None:
        self._target.append(block)
        self._open.append((block, self._target))
        self._target = block.body

    def _otherwise(self, rest: str, line: int) -> None:
        if not self._open or self._target is self._open[-1][0].otherwise:
            raise _error(line, '"else" has no "if", "with" or "range"')
        block = self._open[-1][0]
        self._target = block.otherwise
        if rest:
            kind, _, condition = rest.partition(" ")
            if kind not in ("if", "with"):
                raise _error(line, f'"else {kind}" is not known')
            # `else if` is an `if` inside the `else`, closed by the same `end`
            inner = ControlBlock(kind, _pipeline(condition, line), line)
            self._target.append(inner)
            self._open[-1] = (inner, self._open[-1][1])
            self._target = inner.body

    def _end(self, line: int) -> None:
        if not self._open:
            raise _error(line, '"end" has no "if", "with" or "range"')
        _, self._target = self._open.pop()


def _split(text: str, left: str, right: str) -> list[tuple[bool, str, int]]:
    """(is it an action, its text, its line), with the trim markers applied."""
    pieces: list[tuple[bool, str, int]] = []
    at, trim_next = 0, False
    line, counted_to = 1, 0
    while True:
        start = text.find(left, at)
        plain = text[at:] if start < 0 else text[at:start]
        if trim_next:
            plain = plain.lstrip()
        if start < 0:
            pieces.append((False, plain, 0))
            return pieces
        line += text.count("\n", counted_to, start)
        counted_to = start
        end = _action_end(text, start + len(left), right, line)
        action = text[start + len(left) : end]
        if action.startswith("-") and action[1:2].isspace():
            plain, action = plain.rstrip(), action[1:]
        trim_next = action.endswith("-") and action[-2:-1].isspace()
        pieces.append((False, plain, line))
        pieces.append((True, action.removesuffix("-") if trim_next else action, line))
        at = end + len(right)


def _action_end(text: str, at: int, right: str, line: int) -> int:
    """Where the action ends: not inside a string or a comment."""
    while at < len(text):
        if text.startswith(right, at):
            return at
        if text.startswith("/*", at):
            at = text.find("*/", at) + 2
            if at < 2:
                break
        elif text[at] in '"`':
            string = _STRING.match(text, at)
            if string is None:
                raise _error(line, "a string is not closed")
            at = string.end()
        else:
            at += 1
    raise _error(line, f'an action is not closed by "{right}"')


def _tokens(text: str, line: int) -> list[_Token]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise _error(line, f'cannot read "{text[at:].strip()}"')
        kind = "variable" if match["variable"] is not None else match.lastgroup or ""
        path = match["vpath"] if kind == "variable" else match["field"] or ""
        names = tuple(name for name in path.split(".") if name)
        tokens.append(_Token(kind, match[kind], names))
        at = match.end()
    return tokens


def _pipeline(text: str, line: int) -> Assignment:
    return _Pipeline(_tokens(text, line), line).whole()


class _Pipeline:
    def __init__(self, tokens: list[_Token], line: int) -> None:
        self._tokens = tokens
        self._line = line
        self._at = 0

    def whole(self) -> Assignment:
        names, declares = self._assigned()
        value = self._piped()
        if self._at < len(self._tokens):
            raise _error(self._line, f'"{self._tokens[self._at].text}" is not expected')
        return Assignment(names, declares, value)

    def _assigned(self) -> tuple[tuple[str, ...], bool]:
        names = []
        for at, token in enumerate(self._tokens[:4]):
            if token.kind == "variable" and not token.path:
                names.append(token.text)
            elif token.text in (":=", "=") and token.kind == "symbol":
                self._at = at + 1
                return tuple(names), token.text == ":="
            elif token.text != ",":
                break
        return (), False

    def _piped(self) -> Expression:
        value = self._command()
        while self._next_is("|"):
            self._at += 1
            step = self._command()
            if not isinstance(step, FunctionCall):
                raise _error(self._line, "only a function can follow |")
            value = FunctionCall(step.name, (*step.arguments, value))
        return value

    def _command(self) -> Expression:
        token = self._peek()
        if token is None:
            raise _error(self._line, "a value is missing")
        if token.kind != "name" or token.text in _CONSTANTS:
            return self._operand()
        self._at += 1
        arguments = []
        while (follower := self._peek()) is not None and follower.text not in ("|", ")"):
            arguments.append(self._operand())
        return FunctionCall(token.text, tuple(arguments))

    def _operand(self) -> Expression:
        token = self._peek()
        assert token is not None, "callers look first"
        self._at += 1
        if token.kind == "string":
            unquoted = re.sub(
                r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token.text[1:-1]
            )
            return LiteralValue(unquoted)
        if token.kind == "raw":
            return LiteralValue(token.text[1:-1])
        if token.kind == "number":
            return LiteralValue(float(token.text) if "." in token.text else int(token.text))
        if token.kind == "variable":
            return Field(token.text, token.path)
        if token.kind in ("field", "dot"):
            return Field("", token.path)
        if token.kind == "name":
            return self._constant_or_call(token)
        if token.text == "(":
            return self._parenthesis()
        raise _error(self._line, f'"{token.text}" is not expected')

    def _constant_or_call(self, token: _Token) -> Expression:
        if token.text in _CONSTANTS:
            return LiteralValue(_CONSTANTS[token.text])
        return FunctionCall(token.text, ())

    def _parenthesis(self) -> Expression:
        value = self._piped()
        if not self._next_is(")"):
            raise _error(self._line, '")" is missing')
        self._at += 1
        follower = self._peek()
        if follower is not None and follower.kind == "field":
            self._at += 1
            return FieldOf(value, follower.path)
        return value

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next_is(self, symbol: str) -> bool:
        token = self._peek()
        return token is not None and token.kind == "symbol" and token.text == symbol


def _error(line: int, what: str) -> InvalidInputError:
    return InvalidInputError(f"cannot read the template: line {line}: {what}")
