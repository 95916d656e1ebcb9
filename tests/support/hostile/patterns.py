"""Regular expressions, globs and versions that a backtracking engine never gets done with."""

from __future__ import annotations

PATTERNS: dict[str, tuple[str, str]] = {
    "nested-plus": ("(.+)+_", "a" * 50_000),
    "nested-star": ("(a*)*b", "a" * 50_000),
    "alternatives": ("(a|a)*b", "a" * 50_000),
    "overlap": (r"(\w+\s?)+$", "word " * 10_000 + "!"),
    "many-optionals": ("(a?){500}a{500}b", "a" * 5_000),
    "many-states": ("((a{1,30}){1,30}){1,30}b", "a" * 5_000),
    "far-context": ("(a|b)*a(a|b){400}c", "ab" * 20_000),
    "wide-alternation": ("|".join(f"{i}x*y" for i in range(500)), "1" + "x" * 20_000),
    "unicode": (r"(\pL+)+\pN", "é" * 30_000),
    "surrogates": ("(.+)+_", "\udcff" * 1_000),
    "too-many-states": ("((a{1,1000}){1,1000}){1,1000}", "a"),
    "too-long": ("a" * 1_000_000, "a"),
    "look-around": ("(?=(a+))+b", "a" * 100),
    "back-reference": (r"(a+)\1+b", "a" * 100),
    "unclosed": ("(" * 4_000, "a"),
}
"""name -> (pattern, text)"""

GLOBS: dict[str, tuple[str, str]] = {
    "stars": ("*a" * 30 + "b", "a" * 2_000),
    "crossing-stars": ("**/" * 30 + "x", "a/" * 2_000 + "y"),
    "crossing-everything": ("**a" * 30 + "b", "a" * 2_000),
    "datacenter": ("*a*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 2_000),
}
"""name -> (glob, path)"""

VERSIONS: dict[str, tuple[str, str]] = {
    "digits": ("1" * 100_000 + "!", ">= 1"),
    "many-digits": ("9" * 5_000 + ".0.0", ">= 1"),
    "parts": ("1." * 50_000 + "x", ">= 1"),
    "spaces": ("1.0.0", " " * 100_000 + "x"),
    "clauses": ("1.0.0", ">= 1," * 100_000),
    "prerelease": ("1.0.0-" + "a." * 50_000 + "!", ">= 1"),
}
"""name -> (version, constraint)"""

FILTERS: dict[str, str] = {
    "depth": "(" * 10_000 + 'ID == "x"' + ")" * 10_000,
    "depth-within-the-length": "(" * 2_000 + 'ID == "x"' + ")" * 2_000,
    "negations": "not " * 1_000 + 'ID == "x"',
    "quantifiers": "any TaskGroups as g { " * 150 + 'g.Name == "x"' + " }" * 150,
    "multiplied-quantifiers": (
        "any TaskGroups as g { any Datacenters as d { any Constraints as c { " * 20
        + 'ID == "x"'
        + " } } }" * 20
    ),
    "terms": "ID == a or " * 370 + "ID == a",
    "pattern-that-backtracks": 'ID matches "(.+)+_"',
    "pattern-of-many-states": 'ID matches "((a{1,1000}){1,1000}){1,1000}"',
    "open-string": '"' + "\\\\" * 2_000,
    "alternatives": " or ".join(['ID == "x"'] * 300),
    "index-of-many-digits": "TaskGroups." + "9" * 3_000 + '.Name == "x"',
}
"""name -> filter of a list request"""
