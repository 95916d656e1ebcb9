"""A reload with a mistake: nothing of it is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from orchgit import logs
from orchgit.cli.agent_process.reloading import Reloader
from orchgit.configuration.file import read_config
from orchgit.wire.tls import TlsFiles


@pytest.mark.parametrize(
    ("text", "certificates"),
    [
        ('log_level = "TRACE"\n', "gone"),
        ('log_level = "TRACE"\nports { http = -1 }\n', ""),
        ('log_level = "TRACE"\nlog_file = "/nowhere/at/all"\n', ""),
    ],
)
def test_reload_with_a_mistake_leaves_the_level_as_it_was(
    tmp_path: Path, text: str, certificates: str
) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text('log_level = "WARN"\n')
    reloader = Reloader([path], read_config(path).file)
    if certificates:
        missing = tmp_path / certificates
        reloader.certificates = [TlsFiles(missing, missing, missing)]
    before = logs.current()
    path.write_text(text)
    with structlog.testing.capture_logs() as lines:
        reloader.reload()
    assert [line["log_level"] for line in lines] == ["error"]
    assert logs.current() == before
