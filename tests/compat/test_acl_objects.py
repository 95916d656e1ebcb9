"""The recorded lives of access control objects: every answer is the recorded one."""

from __future__ import annotations

from pathlib import Path

from orchgit.clock import SECOND_NS
from orchgit.services.acl.settings import AclSettings
from tests.scenarios.run_acl_objects import run
from tests.support.server_rig import server_rig

RECORDED = Path(__file__).parents[1] / "golden" / "api" / "acl-objects"


def test_every_recorded_step_is_answered_as_recorded(tmp_path: Path) -> None:
    settings = AclSettings(enabled=True, token_min_expiration_ttl_ns=SECOND_NS)
    with server_rig(tmp_path, with_agent=False, acl=settings) as rig:
        found = run(RECORDED, rig.http, rig.server.config.server_dir)
    assert len(found) > 300
    assert {name: lines for name, lines in found.items() if lines} == {}
