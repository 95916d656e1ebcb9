"""What people do to jobs by hand, and time."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from orchgit.errors import OrchgitError
from orchgit.services.gitops.sources import give_back_job, release_job
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job
from orchgit.services.jobs.register import register_job
from orchgit.services.jobs.revert import revert_job
from orchgit.services.jobs.scale import ScaleRequest, scale_job
from tests.support.gitops_machine.rig import NAMES, GitopsRig, spec_of, text_of
from tests.support.gitops_model import Spec
from tests.support.simulated_server import HANGS, RUNS, JobContent, parsed


class HandRules(GitopsRig):
    @rule(name=NAMES, does=st.sampled_from([RUNS, RUNS, HANGS]))
    def register_by_hand(self, name: str, does: str) -> None:
        content = JobContent(next(self.numbers), does)
        self.do(register_job(self.server.context, parsed(text_of(name, content))))
        self.model.cluster.register(name, Spec(content.number, does))

    @rule(name=NAMES, count=st.integers(1, 3))
    def scale(self, name: str, count: int) -> None:
        try:
            request = ScaleRequest("main", count)
            self.do(scale_job(self.server.context, "default", name, request))
        except OrchgitError:
            return  # there is no such job, or its deployment is under way
        self.model.cluster.scale(name, count)

    @rule(name=NAMES, purge=st.booleans())
    def stop_job(self, name: str, purge: bool) -> None:
        options = DeregisterOptions(purge=purge)
        self.do(deregister_job(self.server.context, "default", name, options))
        self.model.cluster.stop(name, purge)
        self.until_drift_is_known()  # from then on other sources leave the job alone

    @rule(name=NAMES, back=st.integers(1, 3))
    def run_an_earlier_version(self, name: str, back: int) -> None:
        with self.server.snapshot() as snapshot:
            versions = snapshot.job_versions.of_job("default", name)
        older = [job for job in versions[back:] if not job.stop]
        if not older:
            return
        self.do(revert_job(self.server.context, "default", name, older[0].version))
        self.model.cluster.register(name, spec_of(older[0]), "reverted by hand")

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        known = self.jobs.get(name)
        if known is not None and (known.owner or known.former_owner):
            self.do(release_job(self.server.context, "default", name))
            self.model.cluster.release(name)

    @rule(name=NAMES)
    def undo_release(self, name: str) -> None:
        known = self.jobs.get(name)
        if known is None or not known.released_from:
            return
        if known.released_from not in self.model.sources:
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(give_back_job(self.server.context, "default", name))
            return
        self.do(give_back_job(self.server.context, "default", name))
        self.model.cluster.give_back(name)

    @rule()
    def collect_garbage(self) -> None:
        self.do(self.server.settle())
        self.do(self.server.control.collect_garbage())
        self.model.cluster.collect()
