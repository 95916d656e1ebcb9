"""How fast job files are read. Prints one JSON object.

    python -m tests.benchmarks.jobspec [--many 10000]

Times are of parse + evaluate + decode, best of several per recorded file; `fresh_ms` is import and
one file in a new process. With `--many`: `recorded_many_s` is so many of the recorded files by one
core, and the rest is from `jobspec_many`: so many services as people write them, from a tree to
jobs, on one core and on two, the memory they take, and what a known file costs. Figures in `_cpu_s`
are the processors' time, shared evenly: what the others would be on an idle machine; `load` is how
busy it was. `over_budget` names what is; then the exit code is 1.
"""

# ruff: noqa: E402
from __future__ import annotations

import sys
from pathlib import Path

# Run as a script, this file's own folder would hide the package it measures.
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from typing import Any

from jobspec.canonicalize import to_job
from jobspec.files import CurrentDirectory
from jobspec.parse import parse_job
from jobspec.validate import validate_job

ROOT = Path(__file__).resolve().parents[1] / "golden" / "jobspec"
BUDGETS = {
    "median_ms": 0.5,
    "fresh_ms": 60.0,
    "one_core_s": 5.0,
    "two_cores_s": 3.0,
    "cached_us": 20.0,
    "held_mib": 200.0,
}
"""`one_core_s`, `two_cores_s` and `held_mib` are for 10,000 files."""

_FRESH = """
import time
start = time.perf_counter()
from jobspec.parse import parse_job
parse_job(open({path!r}, "rb").read(), filename="web-app.nomad.hcl")
print((time.perf_counter() - start) * 1000)
"""


def inputs() -> list[tuple[str, bytes, dict[str, Any]]]:
    found = []
    for path in sorted(ROOT.glob("*.nomad.hcl")):
        given: dict[str, Any] = {"files": CurrentDirectory()}
        arguments = path.with_name(path.name.replace(".nomad.hcl", ".vars.json"))
        if arguments.exists():
            given["variables"] = dict(a.split("=", 1) for a in json.loads(arguments.read_text()))
        found.append((path.name, path.read_bytes(), given))
    return found


def best_ms(run: Any, repeats: int = 9) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def fresh_ms(repeats: int = 7) -> float:
    """With bytecode as an installed package has it, also where this environment writes none."""
    code = _FRESH.format(path=str(ROOT / "web-app.nomad.hcl"))
    times = []
    cache = tempfile.mkdtemp()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache}
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT.parents[2],
            env=env,
        )
        times.append(float(done.stdout))
    shutil.rmtree(cache)
    return min(times)


def in_a_process(case: str, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.jobspec_many", case, "--files", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT.parents[2])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--many", type=int, default=0)
    many = options.parse_args().many
    os.chdir(ROOT)
    files = inputs()
    parse = {n: best_ms(lambda n=n, s=s, g=g: parse_job(s, filename=n, **g)) for n, s, g in files}
    specs = [parse_job(source, filename=name, **given).spec for name, source, given in files]
    whole = [best_ms(lambda s=spec: validate_job(to_job(s))) for spec in specs]
    result: dict[str, Any] = {
        "load": round(os.getloadavg()[0], 1),
        "files": len(files),
        "median_ms": round(statistics.median(parse.values()), 4),
        "p90_ms": round(statistics.quantiles(parse.values(), n=10)[-1], 4),
        "max_ms": round(max(parse.values()), 4),
        "typed_and_validated_median_ms": round(statistics.median(whole), 4),
        "fresh_ms": round(fresh_ms(), 1),
    }
    if many:
        start = time.process_time()
        for index in range(many):
            name, source, given = files[index % len(files)]
            parse_job(source, filename=name, **given)
        result["many"] = many
        result["recorded_many_s"] = round(time.process_time() - start, 2)
        for case in ("one_core", "two_cores", "held"):
            result |= in_a_process(case, many)
    result["over_budget"] = [name for name, most in BUDGETS.items() if result.get(name, 0.0) > most]
    print(json.dumps(result))
    sys.exit(bool(result["over_budget"]))


if __name__ == "__main__":
    main()
