"""Tokens to tree: bodies and blocks here, expressions in `expressions`, strings in `templates`."""

from __future__ import annotations

from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.hcl import literals
from jobspec.hcl.expressions import ExpressionParser
from jobspec.hcl.lexer import MAX_DEPTH, tokenize, tokenize_range, tokenize_template
from jobspec.hcl.templates import assemble, bad_string_end, template_parts
from jobspec.hcl.tree import Attribute, Block, Body, Expression, Label

MAX_SYNTAX_PROBLEMS = 10
_PLAIN = ("str", "num")


def parse_body(source: SourceText, diagnostics: Diagnostics) -> Body:
    """The tree of a file; problems go to `diagnostics`, and what could be read is returned."""
    text = source.text
    try:
        tokens, bad = tokenize(text, 1 if text.startswith("\ufeff") else 0)
    except HclError as error:
        diagnostics.add(error)
        return Body(0)
    for character in bad:
        diagnostics.add(character)
    if bad and any(kind == "qnl" for kind, _, _ in tokens):
        return Body(0)
    body = _BodyParser(ExpressionParser(text, tokens), diagnostics).body(top=True)
    body.end = len(text)
    return body


def parse_expression(text: str, start: int = 0, end: int | None = None) -> Expression:
    """The expression of a range and nothing after it; raises HclError."""
    tokens, bad = tokenize_range(text, start, len(text) if end is None else end)
    if bad:
        raise bad[0]
    parser = ExpressionParser(text, tokens)
    parser.newlines = False
    node = parser.expression()
    parser.skip_newlines()
    if parser.kind() != "eof":
        raise parser.error_here("Extra characters after expression.")
    return node


def parse_template(text: str, start: int, end: int) -> Expression:
    """The text of a range as a template; raises HclError."""
    tokens, bad = tokenize_template(text, start, end)
    if bad:
        raise bad[0]
    parser = ExpressionParser(text, tokens)
    return assemble(template_parts(parser, heredoc=False, raw=True), start, end)


class _BodyParser:
    """Reads bodies and blocks; the position in the tokens is the expression parser's."""

    def __init__(self, expressions: ExpressionParser, diagnostics: Diagnostics) -> None:
        self.expressions = expressions
        self.text = expressions.text
        self.tokens = expressions.tokens
        self.diagnostics = diagnostics
        self.failures = 0
        self.nesting = 0

    def body(self, top: bool, opened: int = 0) -> Body:
        body = Body(opened)
        tokens = self.tokens
        while True:
            kind, start, end = tokens[self.expressions.at]
            if kind == "nl":
                self.expressions.at += 1
            elif kind == "eof":
                if not top:
                    raise HclError(
                        "Unclosed configuration block: there is no closing brace for this block.",
                        opened,
                        opened + 1,
                    )
                return body
            elif kind == "}" and not top:
                body.end = start
                return body
            else:
                first = self.expressions.at
                try:
                    if kind == "id":
                        self.item(body, start, end)
                    else:
                        self.bad_item(kind, start, end)
                except HclError as error:
                    self.recover(error, first)

    def bad_item(self, kind: str, start: int, end: int) -> None:
        if kind in ("str", "oq"):
            raise HclError("Invalid argument name: names must not be quoted.", start, start + 1)
        raise HclError("Argument or block definition required here.", start, end)

    def recover(self, error: HclError, first: int) -> None:
        """Go on at the next line that is not inside brackets opened on the failed one."""
        self.diagnostics.add(error)
        self.failures += 1
        self.expressions.newlines = True
        tokens, depth = self.tokens, 0
        at = first
        while tokens[at][0] != "eof":
            kind = tokens[at][0]
            if kind in ("{", "(", "[", "${", "%{"):
                depth += 1
            elif kind in ("}", ")", "]", "te"):
                if depth == 0 and at > first:
                    break
                depth -= 1
            elif kind == "nl" and depth <= 0 and at >= self.expressions.at:
                break
            at += 1
        if self.failures >= MAX_SYNTAX_PROBLEMS:
            at = len(tokens) - 1
        self.expressions.at = max(at, first + 1) if tokens[first][0] != "eof" else first

    def item(self, body: Body, start: int, end: int) -> None:
        self.expressions.at += 1
        kind = self.tokens[self.expressions.at][0]
        if kind == "=":
            self.expressions.at += 1
            self.attribute(body, start, end)
            kind = self.tokens[self.expressions.at][0]
            if kind not in ("nl", "eof"):
                raise self.expressions.error_here(
                    "Missing newline after argument: an argument must end with a newline."
                )
        elif kind in ("{", "str", "oq", "id"):
            self.block(body, start, end)
            if self.tokens[self.expressions.at][0] not in ("nl", "eof"):
                raise self.expressions.error_here("Missing newline after block definition.")
        else:
            name = self.text[start:end]
            raise HclError(
                "Argument or block definition required here.",
                start,
                end,
                hint=f"To set an argument, write {name} = VALUE.",
            )

    def attribute(self, body: Body, start: int, end: int) -> None:
        name = self.text[start:end]
        expr = self.plain_literal() or self.expressions.expression()
        before = body.attributes.get(name)
        if before is not None:
            line, column = self.diagnostics.source.position(before.start)
            self.diagnostics.report(
                f'Attribute redefined: the argument "{name}" was already set at '
                f"line {line}, column {column}.",
                start,
                end,
            )
            return
        body.attributes[name] = Attribute(name, expr, start, end)

    def plain_literal(self) -> Expression | None:
        """A string, number or bool alone on its line, as most are: read without all the steps."""
        tokens, at = self.tokens, self.expressions.at
        if tokens[at][0] not in _PLAIN or tokens[at + 1][0] != "nl":
            return None
        return self.expressions.term()

    def block(self, body: Body, start: int, type_end: int) -> None:
        labels: list[Label] = []
        header_end = type_end
        while True:
            kind, lstart, lend = self.tokens[self.expressions.at]
            if kind == "{":
                break
            if kind == "str":
                self.expressions.at += 1
                labels.append(
                    Label(literals.unescape(self.text, lstart + 1, lend - 1), lstart, lend)
                )
            elif kind == "id":
                self.expressions.at += 1
                labels.append(Label(self.text[lstart:lend], lstart, lend))
            elif kind == "oq":
                labels.append(self.quoted_label())
            else:
                raise HclError(
                    "Invalid block definition: expected a label or the opening brace on the "
                    "same line.",
                    lstart,
                    lend,
                )
            header_end = self.tokens[self.expressions.at - 1][2]
        self.nesting += 1
        if self.nesting > MAX_DEPTH:
            raise HclError(f"Nesting too deep: more than {MAX_DEPTH} levels.", start, type_end)
        self.expressions.at += 1
        inner = self.block_body(lstart)
        self.nesting -= 1
        type_ = self.text[start:type_end]
        body.blocks.append(Block(type_, labels, inner, start, type_end, header_end, lstart))

    def block_body(self, opened: int) -> Body:
        if self.tokens[self.expressions.at][0] == "nl":
            inner = self.body(top=False, opened=opened)
        else:
            inner = self.one_line_body(opened)
        self.expressions.at += 1
        return inner

    def one_line_body(self, opened: int) -> Body:
        body = Body(opened)
        kind, start, end = self.tokens[self.expressions.at]
        if kind == "id":
            self.expressions.at += 1
            if self.tokens[self.expressions.at][0] != "=":
                raise HclError(
                    "Argument definition required: a block on one line holds a single argument.",
                    start,
                    end,
                    hint="Put a nested block on a line of its own.",
                )
            self.expressions.at += 1
            self.attribute(body, start, end)
            kind, start, end = self.tokens[self.expressions.at]
        elif kind == "eof":
            raise HclError(
                "Unclosed configuration block: there is no closing brace for this block.",
                opened,
                opened + 1,
            )
        if kind != "}":
            raise HclError(
                "Invalid single-argument block definition: the closing brace must follow its "
                "one argument.",
                start,
                end,
            )
        body.end = start
        return body

    def quoted_label(self) -> Label:
        """A label that the fast path did not take: escapes, or an error."""
        opened = self.tokens[self.expressions.at][1]
        self.expressions.at += 1
        value = ""
        while True:
            kind, start, end = self.tokens[self.expressions.at]
            if kind == "lit":
                value += literals.unescape(self.text, start, end)
            elif kind == "cq":
                self.expressions.at += 1
                return Label(value, opened, end)
            elif kind in ("${", "%{"):
                raise HclError(
                    "Invalid string literal: template sequences are not allowed in a label.",
                    start,
                    end,
                    hint=f'To include a literal "{kind[0]}", double it.',
                )
            else:
                raise bad_string_end(start, end)
            self.expressions.at += 1
