"""Commits of people, and asking for held versions."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.rerun import RetryRequest
from tests.support.gitops_machine.rig import DOES, NAMES, GitopsRig
from tests.support.simulated_server import JobContent

EDITS = st.sampled_from(["new", "new", "new", "comment", "delete", "move", "earlier"])
CHANGES = st.dictionaries(NAMES, st.tuples(EDITS, DOES), min_size=1, max_size=3)


class CommitRules(GitopsRig):
    @rule(data=st.data(), edits=CHANGES)
    def push_again(self, data: st.DataObject, edits: dict[str, tuple[str, str]]) -> None:
        """Commits are what most of the rules are about: many of the steps."""
        self.push(data, edits)

    @rule(data=st.data(), edits=CHANGES)
    def push_once_more(self, data: st.DataObject, edits: dict[str, tuple[str, str]]) -> None:
        self.push(data, edits)

    @rule(data=st.data(), edits=CHANGES)
    def push(self, data: st.DataObject, edits: dict[str, tuple[str, str]]) -> None:
        source = self.draw_source(data)
        assert source is not None
        head = source.branch.head
        files = dict(head.files) if head is not None else {}
        for name, edit in edits.items():
            self._edit(files, name, *edit)
        self.commit(source.name, files)

    def _edit(self, files: dict[str, JobContent], name: str, edit: str, does: str) -> None:
        known = files.get(name)
        content = JobContent(next(self.numbers), does)
        match edit:
            case "delete" if known is not None:
                del files[name]
                return
            case "comment" | "move" if known is not None:
                comment = known.comment + (1 if edit == "comment" else 3)
                content = JobContent(known.number, known.does, comment, known.count)
            case "earlier" if self.earlier[name]:
                content = self.earlier[name][-1]
        files[name] = content
        if content not in self.earlier[name]:
            self.earlier[name].insert(0, content)

    @precondition(lambda self: any(each.source for each in self.model.cluster.held.values()))
    @rule(data=st.data())
    def retry_a_held_version(self, data: st.DataObject) -> None:
        held = self.model.cluster.held
        names = sorted(name for name, row in held.items() if row.source)
        name = data.draw(st.sampled_from(names))
        source = self.model.sources[held[name].source]
        commits = self.model.commits(source.name)
        content = source.applied_files.get(name)
        request = RetryRequest((("default", name),))
        with self.server.snapshot() as snapshot:
            row = snapshot.held_versions.get("default", name)
        if row.wanted and held[name].spec != commits.spec(content):
            return  # settings made another version of it, which the next commit applies
        is_anothers = content is not None and commits.refused({name: content})
        if source.settings.paused or not row.wanted or is_anothers:
            with pytest.raises(OrchgitError, match="cannot"):
                self.do(self.server.gitops.retry(source.name, request))
            return
        self.do(self.server.gitops.retry(source.name, request))
        commits.retry(name)
