"""Findings as SARIF 2.1.0, which code hosts show beside the lines they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from orchgit import __version__
from orchgit.cli.job_files.linting import RULES, Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(findings: Sequence[Finding]) -> dict[str, Any]:
    rules = list(RULES)
    driver = {
        "name": "orchgit lint",
        "semanticVersion": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules.index(finding.rule)) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": finding.line, "startColumn": finding.column}
    if finding.end_column > finding.column:
        region["endColumn"] = finding.end_column
    if finding.snippet:
        region["snippet"] = {"text": finding.snippet}
    uri = quote(finding.path.replace("\\", "/"), safe="/")
    place = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
    }
