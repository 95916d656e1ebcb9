"""The alert rules, as Prometheus itself reads and runs them."""

import shutil
import subprocess
from pathlib import Path

import pytest

ALERTS = Path(__file__).parents[2] / "docs" / "alerts"
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool of Prometheus is not installed")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "--lint-fatal", "orchgit.rules.yml"),
        ("test", "rules", "orchgit.rules.test.yml"),
    ],
    ids=["syntax", "cases"],
)
def test_prometheus_accepts_the_alert_rules_and_their_cases_hold(
    arguments: tuple[str, ...],
) -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=ALERTS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
