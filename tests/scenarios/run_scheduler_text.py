"""Play scheduling scenarios: `python tests/scenarios/run_scheduler_text.py [--write] FILE...`.

`--write` puts what the scheduler decides into the files, to be read as a diff. The last line is
`N passed, N failed`; the exit status is 1 if any failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.text_scenario import ScenarioError, differences, rewritten


def main(arguments: list[str]) -> int:
    passed = failed = 0
    for file in map(Path, [each for each in arguments if each != "--write"]):
        try:
            if "--write" in arguments:
                file.write_text(rewritten(file.read_text()))
            found = differences(file.read_text(), seed=1)
        except ScenarioError as error:
            found = [str(error)]
        passed += not found
        failed += bool(found)
        for line in found:
            print(f"{file.name}: {line}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
