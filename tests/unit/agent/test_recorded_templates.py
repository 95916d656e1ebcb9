"""Recorded templates of the real Nomad, through the agent's hook and its rendering process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.recorded_templates import Running, differences
from tests.support.template_hook_rig import TemplateHookRig

GOLDEN = Path(__file__).parent.parent.parent / "golden/agent/template"
PLACED_ELSEWHERE = ("not placed",)
"""What only a scheduler can find out."""


def test_templates_become_what_they_became_on_nomad(tmp_path: Path) -> None:
    async def run() -> list[str]:
        rig = TemplateHookRig(tmp_path)
        problems = []
        try:
            for file in sorted(GOLDEN.glob("*.json")):
                case = json.loads(file.read_text())
                if case["output"]["outcome"] not in PLACED_ELSEWHERE:
                    found = await rig.run(file.stem, case)
                    problems += _problems(file.stem, case, found)
        finally:
            await rig.close()
        return problems

    assert asyncio.run(run()) == []


def _problems(name: str, case: dict[str, Any], found: dict[str, Any]) -> list[str]:
    running = Running(name, case, name, 0.0, found)
    return [f"{name}: {problem}" for problem in differences(running)]
