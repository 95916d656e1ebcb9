"""Run recorded agent configurations: `python tests/scenarios/run_agent_config.py DIR`.

`validate*.json` are configurations with the verdict and the sentences of `nomad config validate`;
`effects*.json` are configurations of several files with what `/v1/agent/self` then shows. The
sentences must come in their order; lines of orchgit's own may stand between them. The last line is
`N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from orchgit.configuration.agent_view import agent_view
from orchgit.configuration.loading import load
from orchgit.configuration.validation import validate

NO_PATHS = "Must specify at least one config file or directory"
OWN = ("Version",)
"""What a program says of itself, not of its configuration."""


def validate_problems(case: dict[str, Any], directory: Path) -> list[str]:
    for name, text in case["files"].items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not case["args"]:
        found, code = [NO_PATHS], 1
    else:
        with chdir(directory):
            result = validate(case["args"])
        code = 0 if result.valid else 1
        found = "\n".join([*result.output, *result.errors]).splitlines()
    problems = [] if code == case["exit"] else [f"exit {code}, recorded {case['exit']}: {found}"]
    lines = iter(found)
    for wanted in case["message"].replace("<dir>", str(directory)).splitlines():
        if wanted and wanted not in lines:
            problems.append(f"lacks {wanted!r}: {found}")
            break
    return problems


def effect_problems(case: dict[str, Any], directory: Path) -> list[str]:
    texts = {"agent.hcl": case["base"]}
    texts |= {f"{number}.hcl": part for number, part in enumerate(case["parts"])}
    paths = [directory / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text.replace("<dir>", str(directory)))
    loaded = load([str(path) for path in paths])
    loaded.check()
    found = json.loads(json.dumps(agent_view(loaded)).replace(str(directory), "<dir>"))
    wanted = {name: value for name, value in case["config"].items() if name not in OWN}
    return list(differences(wanted, found, ""))


def differences(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Where two JSON trees differ, one line each."""
    if wanted == "<string>" and isinstance(found, str):
        return
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            if path or key not in OWN:
                yield from differences(
                    wanted.get(key, "nothing"), found.get(key, "nothing"), f"{path}.{key}"
                )
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif wanted != found or type(wanted) is not type(found):
        yield f"{path}: recorded {json.dumps(wanted)[:200]}, found {json.dumps(found)[:200]}"


def cases(directory: Path) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for file in sorted(directory.glob("validate*.json")):
        for case in json.loads(file.read_text()):
            yield case["name"], validate_problems, case
    for file in sorted(directory.glob("effects*.json")):
        for name, case in json.loads(file.read_text()).items():
            yield name, effect_problems, case


def main(directory: str) -> int:
    passed = failed = 0
    for name, problems_of, case in cases(Path(directory)):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                problems = problems_of(case, Path(scratch).resolve())
            except Exception as error:
                problems = [f"raised {error!r}"]
        passed += not problems
        failed += bool(problems)
        for problem in problems:
            print(f"FAILED {name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
