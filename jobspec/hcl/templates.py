"""Templates in quotes and heredocs: interpolations, directives, strip markers, indentation."""

from __future__ import annotations

import re
from typing import Protocol

from jobspec.errors import HclError
from jobspec.hcl import literals
from jobspec.hcl.graphemes import graphemes
from jobspec.hcl.lexer import Token
from jobspec.hcl.tree import (
    Conditional,
    Expression,
    For,
    ForIntro,
    LiteralExpression,
    TemplateExpression,
    TemplateJoin,
    TemplateWrap,
)

_BREAKS = re.compile(r"[^\n]*\n|[^\n]+")


class _Directive:
    """A `%{ ... }` on its own: if (with `condition`), else, endif, for (with `intro`), endfor."""

    __slots__ = ("condition", "end", "intro", "keyword", "start")

    def __init__(
        self,
        keyword: str,
        condition: Expression | None,
        intro: ForIntro | None,
        start: int,
        end: int,
    ) -> None:
        self.keyword = keyword
        self.condition = condition
        self.intro = intro
        self.start = start
        self.end = end


_Part = Expression | _Directive


class ExpressionReader(Protocol):
    """The expression parser, at whose position in the tokens a template begins."""

    text: str
    tokens: list[Token]
    at: int
    newlines: bool

    def kind(self) -> str: ...

    def word(self) -> str: ...

    def expression(self) -> Expression: ...

    def for_intro(self) -> ForIntro: ...


def quoted_template(reader: ExpressionReader) -> Expression:
    start = reader.tokens[reader.at][1]
    reader.at += 1
    parts = template_parts(reader, heredoc=False)
    end = reader.tokens[reader.at][2]
    reader.at += 1
    return assemble(parts, start, end)


def heredoc(reader: ExpressionReader) -> Expression:
    _, start, _ = reader.tokens[reader.at]
    reader.at += 1
    parts = template_parts(reader, heredoc=True)
    end = reader.tokens[reader.at][2]
    reader.at += 1
    if reader.text[start + 2] == "-":
        _dedent(parts)
    return assemble(parts, start, end)


def assemble(parts: list[_Part], start: int, end: int) -> Expression:
    if len(parts) == 1 and isinstance(parts[0], Expression):
        only = parts[0]
        if not isinstance(only, (LiteralExpression, Conditional, TemplateJoin)) or only.start < 0:
            return TemplateWrap(_unmark(only), start, end)
    nodes = _Nesting(parts, end).all()
    if all(isinstance(node, LiteralExpression) and isinstance(node.value, str) for node in nodes):
        joined = "".join(node.value for node in nodes if isinstance(node, LiteralExpression))
        return LiteralExpression(joined, start, end)
    return TemplateExpression(nodes, start, end)


def bad_string_end(start: int, end: int) -> HclError:
    return HclError("Unterminated template string: no closing marker was found.", start, end)


def template_parts(reader: ExpressionReader, heredoc: bool, raw: bool = False) -> list[_Part]:
    """Literals (one per line in a heredoc), expressions and directives up to the end.

    `raw` literals have no backslash escapes.
    """
    parts: list[_Part] = []
    strip_next = False
    while True:
        kind, start, end = reader.tokens[reader.at]
        if kind == "lit":
            reader.at += 1
            if raw:
                value = literals.undouble(reader.text[start:end])
                parts.append(LiteralExpression(value.lstrip() if strip_next else value, start, end))
            else:
                _literal_parts(reader, parts, start, end, heredoc, strip_next)
            strip_next = False
        elif kind in ("${", "%{"):
            if end - start == 3 and parts:
                _strip_last(parts)
            part, strip_next = _sequence(reader, kind, start, end)
            parts.append(part)
        elif kind in ("cq", "ch"):
            return parts
        else:
            raise bad_string_end(start, end)


def _literal_parts(
    reader: ExpressionReader, parts: list[_Part], start: int, end: int, heredoc: bool, strip: bool
) -> None:
    if not heredoc:
        value = literals.unescape(reader.text, start, end)
        parts.append(LiteralExpression(value.lstrip() if strip else value, start, end))
        return
    for m in _BREAKS.finditer(reader.text, start, end):
        value = literals.undouble(m[0])
        if strip:
            value = value.lstrip()
            strip = False
        parts.append(LiteralExpression(value, m.start(), m.end()))


def _sequence(reader: ExpressionReader, kind: str, start: int, end: int) -> tuple[_Part, bool]:
    newlines, reader.newlines = reader.newlines, False
    reader.at += 1
    part: _Part = _directive(reader, start) if kind == "%{" else _mark(reader.expression())
    if reader.kind() != "te":
        what = "interpolation" if kind == "${" else "template control"
        _, here, here_end = reader.tokens[reader.at]
        raise HclError(
            f"Extra characters after {what} expression: expected a closing brace.",
            here,
            here_end,
        )
    _, close, close_end = reader.tokens[reader.at]
    reader.at += 1
    reader.newlines = newlines
    if isinstance(part, _Directive):
        part.end = close_end
    return part, close_end - close == 2


def _directive(reader: ExpressionReader, start: int) -> _Directive:
    if reader.kind() != "id":
        _, here, end = reader.tokens[reader.at]
        raise HclError("Invalid template directive: expected a keyword.", here, end)
    _, here, end = reader.tokens[reader.at]
    keyword = reader.word()
    reader.at += 1
    condition = intro = None
    if keyword == "if":
        condition = reader.expression()
    elif keyword == "for":
        intro = reader.for_intro()
    elif keyword not in ("else", "endif", "endfor"):
        raise HclError(
            f'Invalid template control keyword: "{keyword}" is not one.',
            here,
            end,
            hint="Use if, else, endif, for or endfor.",
        )
    return _Directive(keyword, condition, intro, start, end)


def _mark(node: Expression) -> Expression:
    """An interpolated expression, told apart from literal text by its wrapper."""
    return TemplateWrap(node, node.start, node.end)


def _unmark(node: Expression) -> Expression:
    return node.inner if isinstance(node, TemplateWrap) else node


def _strip_last(parts: list[_Part]) -> None:
    last = parts[-1]
    if isinstance(last, LiteralExpression) and isinstance(last.value, str):
        last.value = last.value.rstrip()


def _dedent(parts: list[_Part]) -> None:
    """Take from each line the indentation that the least indented one has."""
    least: int | None = None
    at_line_start = True
    adjust: list[LiteralExpression] = []
    for part in parts:
        is_literal = isinstance(part, LiteralExpression)
        if at_line_start:
            indent: int | None = 0
            if isinstance(part, LiteralExpression):
                body = part.value.lstrip()
                if not body and part.value.endswith("\n"):
                    indent = None
                else:
                    indent = len(graphemes(part.value[: len(part.value) - len(body)]))
                    adjust.append(part)
            if indent is not None and (least is None or indent < least):
                least = indent
            at_line_start = False
        if is_literal and part.value.endswith("\n"):  # type: ignore[union-attr]
            at_line_start = True
    if least:
        for literal in adjust:
            literal.value = literal.value[len("".join(graphemes(literal.value)[:least])) :]


class _Nesting:
    """Directives and parts into a tree."""

    def __init__(self, parts: list[_Part], end: int) -> None:
        self.parts = parts
        self.at = 0
        self.end = end

    def all(self) -> list[Expression]:
        nodes = self.until(())
        if self.at < len(self.parts):
            extra = self.parts[self.at]
            assert isinstance(extra, _Directive)
            raise HclError(
                f"Unexpected {extra.keyword} directive: nothing to end here.",
                extra.start,
                extra.end,
            )
        return nodes

    def until(self, enders: tuple[str, ...]) -> list[Expression]:
        nodes: list[Expression] = []
        while self.at < len(self.parts):
            part = self.parts[self.at]
            if isinstance(part, _Directive):
                if part.keyword in ("if", "for"):
                    self.at += 1
                    nodes.append(self.branch(part) if part.keyword == "if" else self.loop(part))
                    continue
                if enders and part.keyword not in enders:
                    raise HclError(
                        f"Unexpected {part.keyword} directive: expected {' or '.join(enders)}.",
                        part.start,
                        part.end,
                    )
                return nodes
            nodes.append(_unmark(part))
            self.at += 1
        return nodes

    def branch(self, opening: _Directive) -> Expression:
        assert opening.condition is not None
        yes = self.until(("else", "endif"))
        no: list[Expression] = []
        if self.closing(opening).keyword == "else":
            self.at += 1
            no = self.until(("endif",))
            self.closing(opening)
        end = self.parts[self.at].end
        self.at += 1
        return Conditional(
            opening.condition,
            TemplateExpression(yes, opening.start, end),
            TemplateExpression(no, opening.start, end),
            opening.start,
            end,
        )

    def loop(self, opening: _Directive) -> Expression:
        assert opening.intro is not None
        content = self.until(("endfor",))
        end = self.closing(opening).end
        self.at += 1
        value = TemplateExpression(content, opening.start, end)
        loop = For(opening.intro, None, value, None, False, opening.start, end)
        return TemplateJoin(loop, opening.start, end)

    def closing(self, opening: _Directive) -> _Directive:
        if self.at >= len(self.parts):
            raise HclError(
                f"Unterminated template {opening.keyword}: there is no end{opening.keyword}.",
                self.end,
                self.end,
            )
        part = self.parts[self.at]
        assert isinstance(part, _Directive)
        return part
