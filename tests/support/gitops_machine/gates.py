"""Gates of sources: windows, approvals, the health gate."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from orchgit.model.rollout import Rollout
from tests.support.gitops_machine.rig import GitopsRig, gates_of
from tests.support.gitops_model import ModelSource

_PERSON = "Grace"


class GateRules(GitopsRig):
    def something_waits(self) -> bool:
        return any(each.waiting for each in self.model.sources.values())

    @rule(
        data=st.data(),
        gate=st.sampled_from(["none", "none", "window", "approval", "health", "all"]),
    )
    def set_gates(self, data: st.DataObject, gate: str) -> None:
        source = self.draw_source(data)
        assert source is not None
        settings = source.settings
        settings.window_is_open = gate not in ("window", "all")
        settings.needs_approval = gate in ("approval", "all")
        settings.goes_back = gate in ("health", "all")
        self.set(source.name, gates=gates_of(settings))

    def _waiting_source(self, data: st.DataObject) -> ModelSource | None:
        return self.draw_source(data, lambda each: each.waiting and not each.settings.paused)

    @precondition(something_waits)
    @rule(data=st.data())
    def override_window(self, data: st.DataObject) -> None:
        source = self._waiting_source(data)
        if source is not None:
            self.do(self.server.gitops.override_window(source.name, "it is down", _PERSON))
            self.model.override(source.name)

    @precondition(something_waits)
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        source = self._waiting_source(data)
        if source is None or not source.settings.needs_approval:
            return
        rollout = self._waiting_rollout(source.name)
        if not source.settings.window_is_open and rollout.gates.approvals:
            return  # approved already
        self.do(self.server.gitops.approve(rollout.id, rollout.plan_hash, _PERSON))
        self.model.approve(source.name)

    @precondition(something_waits)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        source = self.draw_source(data, lambda each: each.waiting)
        if source is not None:
            rollout = self._waiting_rollout(source.name)
            self.do(self.server.gitops.reject(rollout.id, "not now", _PERSON))
            self.model.reject(source.name)

    def _waiting_rollout(self, source: str) -> Rollout:
        with self.server.snapshot() as snapshot:
            return snapshot.rollouts.waiting(source)[0]
