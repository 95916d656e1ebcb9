"""Parses a template into its trees; errors are Go's, with the line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from orchgit.go_quote import quote
from orchgit.go_templates.constants import ConstantError, number, unquoted
from orchgit.go_templates.errors import TemplateError
from orchgit.go_templates.lex import Lexer, TemplateToken
from orchgit.go_templates.tree import (
    Argument,
    Chain,
    ControlBlock,
    Dot,
    Field,
    FunctionName,
    Jump,
    LiteralValue,
    Output,
    Pipeline,
    TemplateCall,
    TemplateCommand,
    TemplateNode,
    Text,
    Variable,
)

_OPERANDS = frozenset(
    ("bool", "rune", "dot", "field", "name", "number", "nil", "raw", "string", "variable")
)
T = TypeVar("T")


@dataclass(slots=True)
class Parsed:
    """The trees by template name; "" is the text itself, and "end" of lines give places."""

    text: str
    templates: dict[str, list[TemplateNode]] = field(default_factory=dict)

    def place(self, at: int) -> str:
        """`line:column` of a place, the column in bytes from 0."""
        line = self.text.count("\n", 0, at) + 1
        start = self.text.rfind("\n", 0, at) + 1
        return f"{line}:{len(self.text[start:at].encode(errors='replace'))}"


def parse(text: str, functions: frozenset[str], left: str = "{{", right: str = "}}") -> Parsed:
    """Raises TemplateError with the line for what cannot be read; `functions` are the known
    ones."""
    return _Parser(text, Lexer(text, left, right).run(), functions).parse()


class _Parser:
    def __init__(self, text: str, tokens: list[TemplateToken], functions: frozenset[str]) -> None:
        self._parsed = Parsed(text)
        self._tokens = tokens
        self._at = 0
        self._functions = functions
        self._variables = ["$"]
        self._ranges = 0
        self._action_line = 0

    def parse(self) -> Parsed:
        root: list[TemplateNode] = []
        while self._peek().kind != "eof":
            token = self._next()
            if token.kind == "left" and self._peek_word().kind == "define":
                self._next_word()
                self._definition()
                continue
            self._at -= 1
            node = self._text_or_action()
            if isinstance(node, str):
                self._fail(f"unexpected {{{{{node}}}}}")
            self._add(root, node)
        self._define("", root)
        return self._parsed

    @staticmethod
    def _add(nodes: list[TemplateNode], node: TemplateNode | None) -> None:
        if node is not None:
            nodes.append(node)

    # -- tokens ------------------------------------------------------------------------------------

    def _peek(self) -> TemplateToken:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _next(self) -> TemplateToken:
        token = self._peek()
        self._at += 1
        return token

    def _next_word(self) -> TemplateToken:
        token = self._next()
        return self._next() if token.kind == "space" else token

    def _peek_word(self) -> TemplateToken:
        token = self._peek()
        if token.kind == "space":
            return self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        return token

    def _expect(self, kind: str, context: str) -> TemplateToken:
        token = self._next_word()
        if token.kind != kind:
            self._unexpected(token, context)
        return token

    def _fail(self, message: str) -> NoReturn:
        token = self._tokens[min(max(self._at - 1, 0), len(self._tokens) - 1)]
        raise TemplateError("parse", f"template: :{token.line}: {message}")

    def _unexpected(self, token: TemplateToken, context: str) -> NoReturn:
        if token.kind == "error":
            extra = ""
            if self._action_line not in (0, token.line):
                extra = f" in action started at :{self._action_line}"
                if token.text.endswith(" action"):
                    extra = extra.removeprefix(" in action")
            self._fail(f"{token}{extra}")
        self._fail(f"unexpected {token} in {context}")

    # -- blocks ------------------------------------------------------------------------------------

    def _text_or_action(self) -> TemplateNode | str | None:
        """A node, "end" or "else"; None for a node without an effect."""
        token = self._next_word()
        if token.kind == "text":
            return Text(token.at, token.text)
        if token.kind == "left":
            self._action_line = token.line
            node = self._action()
            self._action_line = 0
            return node
        self._unexpected(token, "input")

    def _body(self) -> tuple[list[TemplateNode], str]:
        """The nodes up to an `end` or `else`, and which it was."""
        nodes: list[TemplateNode] = []
        while self._peek_word().kind != "eof":
            node = self._text_or_action()
            if isinstance(node, str):
                return nodes, node
            self._add(nodes, node)
        self._next_word()
        self._fail("unexpected EOF")

    def _action(self) -> TemplateNode | str | None:
        token = self._next_word()
        match token.kind:
            case "if" | "with" | "range":
                return self._control(token.kind)
            case "break" | "continue":
                return self._jump(token)
            case "end":
                self._expect("right", "end")
                return "end"
            case "else":
                if self._peek_word().kind not in ("if", "with"):
                    self._expect("right", "else")
                return "else"
            case "template":
                return self._call()
            case "block":
                return self._block()
        self._at -= 1
        return Output(self._peek().at, self._pipeline("command", "right"))

    def _jump(self, token: TemplateToken) -> Jump:
        shown = f"{{{{{token.kind}}}}}"
        follower = self._next_word()
        if follower.kind != "right":
            self._unexpected(follower, shown)
        if not self._ranges:
            self._fail(f"{shown} outside {{{{range}}}}")
        return Jump(token.at, token.kind)

    def _control(self, kind: str) -> ControlBlock:
        known = len(self._variables)
        pipeline = self._pipeline(kind, "right")
        block = ControlBlock(pipeline.at, kind, pipeline)
        self._ranges += kind == "range"
        block.body, end = self._body()
        self._ranges -= kind == "range"
        if end == "else":
            if kind in ("if", "with") and self._peek_word().kind == kind:
                self._next_word()
                block.otherwise = [self._control(kind)]
            else:
                if self._peek_word().kind in ("if", "with"):
                    self._unexpected(self._next_word(), "else")
                block.otherwise, end = self._body()
                if end != "end":
                    self._fail(f"expected end; found {{{{{end}}}}}")
        del self._variables[known:]
        return block

    def _definition(self) -> None:
        context = "define clause"
        name, _ = self._template_name(context)
        self._expect("right", context)
        body, end = self._inner_body()
        if end != "end":
            self._fail(f"unexpected {{{{{end}}}}} in {context}")
        self._define(name, body)

    def _inner_body(self) -> tuple[list[TemplateNode], str]:
        """The body of a template of its own: it knows none of the variables around it."""
        outer, ranges = self._variables, self._ranges
        self._variables, self._ranges = ["$"], 0
        body = self._body()
        self._variables, self._ranges = outer, ranges
        return body

    def _define(self, name: str, body: list[TemplateNode]) -> None:
        if _is_empty(self._parsed.templates.get(name, [])):
            self._parsed.templates[name] = body
        elif not _is_empty(body):
            self._fail(f"template: multiple definition of template {quote(name)}")

    def _template_name(self, context: str) -> tuple[str, TemplateToken]:
        token = self._next_word()
        if token.kind not in ("string", "raw"):
            self._unexpected(token, context)
        return self._constant(unquoted, token.text), token

    def _call(self) -> TemplateCall:
        context = "template clause"
        name, token = self._template_name(context)
        pipeline = None
        if self._next_word().kind != "right":
            self._at -= 1
            pipeline = self._pipeline(context, "right")
        return TemplateCall(token.at, name, quote(name), pipeline)

    def _block(self) -> TemplateCall:
        context = "block clause"
        name, token = self._template_name(context)
        pipeline = self._pipeline(context, "right")
        body, end = self._inner_body()
        if end != "end":
            self._fail(f"unexpected {{{{{end}}}}} in {context}")
        self._define(name, body)
        return TemplateCall(token.at, name, quote(name), pipeline)

    # -- pipelines ---------------------------------------------------------------------------------

    def _pipeline(self, context: str, end: str) -> Pipeline:
        at = self._peek_word().at
        names, assigns = self._declarations(context)
        commands: list[TemplateCommand] = []
        while True:
            token = self._next_word()
            if token.kind == "right" if end == "right" else token.text == end:
                break
            if token.kind not in _OPERANDS and not (token.kind == "char" and token.text == "("):
                self._unexpected(token, context)
            self._at -= 1
            commands.append(self._command())
        if not commands:
            self._fail(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.arguments[0], Dot | LiteralValue):
                self._fail(f"non executable command in pipeline stage {stage}")
        return Pipeline(at, names, assigns, tuple(commands))

    def _declarations(self, context: str) -> tuple[tuple[str, ...], bool]:
        names: list[str] = []
        while self._peek_word().kind == "variable":
            start = self._at
            variable = self._next_word()
            follower = self._peek_word()
            if follower.kind == "char" and follower.text in (":=", "="):
                self._next_word()
                names.append(variable.text)
                self._variables.append(variable.text)
                return tuple(names), follower.text == "="
            if follower.kind == "char" and follower.text == ",":
                self._next_word()
                names.append(variable.text)
                self._variables.append(variable.text)
                if context != "range" or len(names) > 1:
                    self._fail(f"too many declarations in {context}")
                if self._peek_word().kind not in ("variable", "right"):
                    self._fail("range can only initialize variables")
                continue
            self._at = start
            break
        return tuple(names), False

    def _command(self) -> TemplateCommand:
        at = self._peek_word().at
        arguments: list[Argument] = []
        while True:
            if self._peek().kind == "space":
                self._at += 1
            operand = self._operand()
            if operand is not None:
                arguments.append(operand)
            token = self._next()
            if token.kind == "space":
                continue
            if token.kind == "right" or (token.kind == "char" and token.text == ")"):
                self._at -= 1
            elif not (token.kind == "char" and token.text == "|"):
                self._unexpected(token, "operand")
            break
        if not arguments:
            self._fail("empty command")
        return TemplateCommand(at, tuple(arguments))

    def _operand(self) -> Argument | None:
        node = self._term()
        if node is None or self._peek().kind != "field":
            return node
        at = self._peek().at
        path: list[str] = []
        while self._peek().kind == "field":
            path.append(self._next().text[1:])
        if isinstance(node, Field):
            return Field(at, (*node.path, *path))
        if isinstance(node, Variable):
            return Variable(at, node.name, (*node.path, *path))
        if isinstance(node, Dot | LiteralValue):
            self._fail(f"unexpected . after term {quote(str(node))}")
        return Chain(at, node, tuple(path))

    def _term(self) -> Argument | None:
        token = self._next_word()
        match token.kind:
            case "name":
                if token.text not in self._functions:
                    self._fail(f"function {quote(token.text)} not defined")
                return FunctionName(token.at, token.text)
            case "dot":
                return Dot(token.at)
            case "nil":
                return LiteralValue(token.at, "nil", "nil", None)
            case "bool":
                return LiteralValue(token.at, "bool", token.text, token.text == "true")
            case "variable":
                if token.text not in self._variables:
                    self._fail(f"undefined variable {quote(token.text)}")
                return Variable(token.at, token.text)
            case "field":
                return Field(token.at, (token.text[1:],))
            case "rune":
                value = self._constant(unquoted, token.text)
                if len(value) != 1:
                    self._fail(f"malformed character constant: {token.text}")
                return LiteralValue(token.at, "number", token.text, ord(value))
            case "number":
                return LiteralValue(
                    token.at, "number", token.text, self._constant(number, token.text)
                )
            case "string" | "raw":
                return LiteralValue(
                    token.at, "string", token.text, self._constant(unquoted, token.text)
                )
            case "char" if token.text == "(":
                return self._pipeline("parenthesized pipeline", ")")
        self._at -= 1
        return None

    def _constant(self, read: Callable[[str], T], text: str) -> T:
        try:
            return read(text)
        except ConstantError as error:
            self._fail(str(error))


def _is_empty(body: list[TemplateNode]) -> bool:
    return all(isinstance(node, Text) and not node.text.strip() for node in body)
