"""People go back from a commit, and to any earlier one."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from orchgit.errors import OrchgitError
from tests.support.gitops_machine.rig import GitopsRig


class GoingBackRules(GitopsRig):
    @precondition(lambda self: any(each.previous for each in self.model.sources.values()))
    @rule(data=st.data())
    def revert_the_applied_commit(self, data: st.DataObject) -> None:
        source = self.draw_source(data, lambda each: each.previous)
        if source is None:
            return
        rollout, target = self.server.source(source.name).status.applied_rollout, source.previous
        assert target is not None
        if target is source.applied or self.model.commits(source.name).refused(target.files):
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(self.server.gitops.revert(rollout))
            return
        reverted = self.do(self.server.gitops.revert(rollout))
        self.commit_ids.add(reverted.commit.id)
        self.model.go_back(source.name, target, reverted.commit.id)

    @precondition(lambda self: any(each.applied for each in self.model.sources.values()))
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        """Also forward again, to a commit that was applied."""
        source = self.draw_source(data, lambda each: each.applied)
        if source is None or source.applied is None:
            return
        commits = [*source.applied.ancestors(), *source.was_applied]
        targets = [each for each in commits if each is not source.applied]
        if not targets:
            return
        target = targets[data.draw(st.integers(0, min(len(targets), 8) - 1))]
        if self.model.commits(source.name).refused(target.files):
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(self.server.gitops.rollback(source.name, target.id))
            return
        rollout = self.do(self.server.gitops.rollback(source.name, target.id))
        self.commit_ids.add(rollout.commit.id)
        self.model.go_back(source.name, target, rollout.commit.id)
