"""Sources come, go and are set otherwise; servers restart."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.gitops.source_rename import rename_source
from orchgit.services.gitops.sources import remove_source
from tests.support.gitops_machine.rig import SOURCES, GitopsRig, drift_of
from tests.support.gitops_model.source import Settings

_MOST_SOURCES = 2


class SourceRules(GitopsRig):
    @rule(name=st.sampled_from(SOURCES), adopt=st.booleans())
    def add_source(self, name: str, adopt: bool) -> None:
        if len(self.model.sources) < _MOST_SOURCES and self.model.may_add(name):
            self.add(name, Settings(adopt=adopt))

    @rule(data=st.data(), stop=st.booleans())
    def remove_source(self, data: st.DataObject, stop: bool) -> None:
        source = self.draw_source(data)
        if source is None or len(self.model.sources) == 1:
            return
        self.do(remove_source(self.server.context, source.name, stop))
        self.model.remove(source.name, stop)

    @rule(data=st.data())
    def rename_source(self, data: st.DataObject) -> None:
        source = self.draw_source(data)
        assert source is not None
        free = [each for each in SOURCES if self.model.may_be_renamed(source.name, each)]
        if free:
            new_name = data.draw(st.sampled_from(free))
            self.do(rename_source(self.server.context, source.name, new_name))
            self.model.rename(source.name, new_name)

    @rule(data=st.data())
    def adopt_jobs(self, data: st.DataObject) -> None:
        """As `orchgit source adopt`."""
        source = self.draw_source(data, lambda each: not each.settings.paused and each.applied)
        if source is None:
            return
        self.set(source.name, adopt=True)
        result = self.do(self.server.gitops.sync(source.name))
        if result.result in ("applied", "unchanged"):
            self.do(self.server.settle())
            self.do(self.server.gitops.adopt(source.name))
        self.model.take_over(source.name)

    @rule(data=st.data(), paused=st.booleans())
    def pause(self, data: st.DataObject, paused: bool) -> None:
        source = self.draw_source(data)
        assert source is not None
        change = pause_source if paused else resume_source
        self.do(change(self.server.context, source.name))
        source.settings.paused = paused

    @rule(data=st.data(), tag=st.sampled_from(["", "blue"]))
    def set_variable(self, data: st.DataObject, tag: str) -> None:
        """The next commit is read with the variable."""
        source = self.draw_source(data)
        assert source is not None
        self.set(source.name, variables={"tag": tag})
        source.settings.tag = tag

    @rule(data=st.data(), action=st.sampled_from(["report", "heal", "adopt"]))
    def set_drift(self, data: st.DataObject, action: str) -> None:
        source = self.draw_source(data)
        assert source is not None
        source.settings.drift = action
        self.set(source.name, drift=drift_of(source.settings))

    @rule(what=st.sampled_from(["restart", "change_leader"]))
    def disturb(self, what: str) -> None:
        match what:
            case "restart":
                self.do(self.server.stop())
                self.do(self.server.start())
            case "change_leader":
                self.do(self.server.change_leader())
