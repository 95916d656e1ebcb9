"""Prints the ten longest files and functions, so that growth is seen before it hurts."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGES = ("orchgit", "jobspec", "agent")


def longest(rows: list[tuple[int, str]], heading: str) -> None:
    print(heading)
    for length, name in sorted(rows, reverse=True)[:10]:
        print(f"  {length:5d}  {name}")


def main() -> None:
    files: list[tuple[int, str]] = []
    functions: list[tuple[int, str]] = []
    for path in sorted(p for package in PACKAGES for p in Path(package).rglob("*.py")):
        text = path.read_text()
        files.append((text.count("\n"), str(path)))
        functions.extend(
            (node.end_lineno - node.lineno + 1, f"{path}:{node.name}")
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
        )
    longest(files, "longest files:")
    longest(functions, "longest functions:")


if __name__ == "__main__":
    main()
