"""What a new deployment says of its job."""

from __future__ import annotations

from orchgit.ids import SequentialIds
from orchgit.scheduler.reconcile.deployments import new_deployment
from tests.support.factories import NOW_NS, make_evaluation, make_job


def test_only_regions_make_a_deployment_wait_for_peers() -> None:
    for block, waits in ((None, False), ({"Regions": None}, False), ({"Regions": [{}]}, True)):
        job = make_job(multiregion=block)
        made = new_deployment(job, make_evaluation(job), SequentialIds().new(), NOW_NS)
        assert made.is_multiregion is waits
