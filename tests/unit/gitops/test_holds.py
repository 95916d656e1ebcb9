"""Held versions: the rules, and that nothing held comes back by itself in any order of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.errors import InvalidInputError
from orchgit.gitops.commits.causes import changed_fields
from orchgit.gitops.commits.holds import held_text, hold_change, is_held
from orchgit.gitops.commits.log_entry import deletions_of, records_of, rollout_of, upserts_of
from orchgit.gitops.commits.plan import CommitPlan, Trigger, plan_commit
from orchgit.gitops.commits.plan_request import NO_REQUEST, PlanRequest
from orchgit.gitops.commits.rollback import (
    RollbackRequest,
    git_commands,
    revert_message,
    taken_back_versions,
)
from orchgit.gitops.git.repository import CommitInfo
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.discovery import Discovery
from orchgit.gitops.rollouts.failed_versions import failed_versions
from orchgit.model.held_version import HeldVersion
from orchgit.model.rollout import ChangeCause, Commit, Rollout
from orchgit.model.source import PrunePolicy, Source
from orchgit.replication.commands.gitops import ApplyStage, PutSource, RecordProgress
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.services.jobs.spec_id import spec_id_of
from orchgit.state.store import Store
from tests.support.factories import make_group, make_job
from tests.support.state import apply, open_store

NOW_NS = 1_700_000_000_000_000_000


def desired(job_id: str, content: int, comment: int = 0) -> DesiredJob:
    job = make_job(id=job_id, meta={"content": str(content)}, submit_time_ns=0)
    return DesiredJob(job, f"{job_id}.hcl", 1, "b" * 40, f"{job_id}-{content}-{comment}")


def jobs(**contents: int) -> dict[JobKey, DesiredJob]:
    return {("default", name): desired(name, content) for name, content in contents.items()}


def row(job_id: str, content: int | None, **fields: object) -> HeldVersion:
    wanted = desired(job_id, content) if content is not None else None
    return HeldVersion(
        job_id=job_id,
        source="demo",
        content_id=wanted.content_id if wanted else "",
        spec_id=spec_id_of(wanted.job) if wanted else "",
        commit_id="c2bfbb33" + "0" * 32,
        reason="failed its health check",
        **fields,  # type: ignore[arg-type]
    )


def test_version_is_known_by_its_content_or_by_what_it_means() -> None:
    held = row("web", 1)
    assert is_held(desired("web", 1), held)
    assert is_held(desired("web", 1, comment=5), held)
    assert not is_held(desired("web", 2), held)
    assert not is_held(None, held)
    deletion = row("web", None)
    assert is_held(None, deletion)
    assert not is_held(desired("web", 1), deletion)


def test_spec_id_of_a_stored_job_is_that_of_its_file() -> None:
    job = make_job(meta={"a": "b"}, task_groups=[make_group(count=3)])
    stored = replace(job, version=7, create_index=3, job_modify_index=9, status="running")
    assert spec_id_of(stored) == spec_id_of(job)


def test_commit_that_leaves_the_file_keeps_the_row_and_another_file_frees_it() -> None:
    held = row("web", 2)
    same = hold_change("demo", jobs(web=2), jobs(web=2), [held])
    assert (same.hold, same.unhold) == ((), ())
    other = hold_change("demo", jobs(web=3), jobs(web=2), [held])
    assert (other.hold, other.unhold) == ((), (("default", "web"),))
    gone = hold_change("demo", {}, jobs(web=2), [held])
    assert gone.unhold == (("default", "web"),)


def test_version_that_git_does_not_have_stays_barred_until_the_file_changes() -> None:
    barred = row("web", 2, wanted=False)
    unrelated = hold_change("demo", jobs(web=1), jobs(web=1), [barred])
    assert (unrelated.hold, unrelated.unhold) == ((), ())
    (back,) = hold_change("demo", jobs(web=2), jobs(web=1), [barred]).hold
    assert back.wanted
    assert hold_change("demo", jobs(web=3), jobs(web=1), [barred]).unhold == (("default", "web"),)


def test_rows_of_removed_sources_concern_only_the_source_that_has_the_file() -> None:
    left = row("web", 2)
    left.source = ""
    assert hold_change("next", {}, {}, [left]).unhold == ()
    (taken,) = hold_change("next", jobs(web=2), {}, [left]).hold
    assert (taken.source, taken.wanted) == ("next", True)


def test_held_text_names_the_commit_and_the_reason() -> None:
    assert held_text(row("web", 1)) == "held since c2bfbb33: failed its health check"
    assert held_text(row("web", None)).startswith("deletion held since c2bfbb33")


def test_changed_fields_are_named_by_their_blocks() -> None:
    old = make_job(id="web", task_groups=[make_group(name="api", count=1)])
    new = replace(old, priority=80, task_groups=[replace(old.task_groups[0], count=3)])
    assert changed_fields(old, new) == ("Priority", "TaskGroups[api].Count")


def commit(number: int, *parents: str) -> CommitInfo:
    return CommitInfo(Commit(id=f"{number}" * 40, subject=f"Number {number}"), "", "t", parents)


def test_message_of_a_rollback_has_the_reason_and_what_it_takes_back() -> None:
    request = RollbackRequest("Ada", "ada@example.com", "The login breaks.")
    text = revert_message(commit(1).commit, [commit(3), commit(2)], request)
    assert text.startswith('Go back to 11111111 "Number 1"\n\nThe login breaks.\n\n')
    assert f"  {'3' * 40} Number 3\n  {'2' * 40} Number 2\n" in text


def test_commands_for_a_history_with_merges_do_not_use_git_revert() -> None:
    old, new = "1" * 40, "3" * 40
    assert (
        git_commands(old, new, [commit(3, "p")])[0]
        == f"git revert --no-edit {old[:12]}..{new[:12]}"
    )
    assert "git apply --index" in git_commands(old, new, [commit(3, "p", "q")])[0]


@pytest.mark.parametrize("name", ["a<b", "a\nb", "x" * 101])
def test_name_that_git_cannot_store_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot go back: the name"):
        RollbackRequest(by=name)


# -- any order of events -------------------------------------------------------------------------

NAMES = ("a", "b")
CONTENTS = (1, 2, 3)
Tree = dict[str, int]


@dataclass
class Deck:
    """One source on a real store, without git: its commits are trees of numbers.

    `expected` is what must be registered, told by the rules of the documentation; `held` is the
    held content of each job, None for its deletion.
    """

    store: Store
    trees: list[Tree] = field(default_factory=lambda: [{}])
    expected: Tree = field(default_factory=dict)
    held: dict[str, int | None] = field(default_factory=dict)
    last_good: Tree = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    commits: int = 0
    rollout: Rollout | None = None

    @property
    def tree(self) -> Tree:
        return self.trees[-1]

    def source(self) -> Source:
        with self.store.snapshot() as snapshot:
            found = snapshot.sources.get("demo")
        assert found is not None
        return found

    def plan(self, tree: Tree, request: PlanRequest = NO_REQUEST) -> CommitPlan:
        with self.store.snapshot() as snapshot:
            return plan_commit(
                self.source(),
                Discovery(jobs(**tree), (), 0),
                snapshot,
                NAMES,
                applied_jobs=jobs(**self.tree),
                request=request,
            )

    def apply(self, tree: Tree, request: PlanRequest = NO_REQUEST, kind: str = "push") -> None:
        plan = self.plan(tree, request)
        assert not plan.problems
        self.commits += 1
        made = Commit(id=f"{self.commits:040d}")
        rollout = rollout_of(plan, made, Trigger(kind), f"r{self.commits}", NOW_NS)
        records = records_of(plan, NOW_NS)
        entry = ApplyStage(
            rollout=rollout,
            expected_commit=plan.source.status.applied_commit,
            upserts=upserts_of(plan, rollout, {}),
            deletions=deletions_of(plan),
            hold=list(records.hold),
            unhold=list(records.unhold),
            renew=sorted(request.jobs),
        )
        (stored,) = apply(self.store, entry)
        assert isinstance(stored, Rollout)
        self.rollout, self.fresh = stored, {job.job_id for job in stored.jobs}

    def registered(self) -> Tree:
        with self.store.snapshot() as snapshot:
            return {
                job.id: int((job.meta or {})["content"])
                for job in snapshot.jobs.all()
                if not job.stop
            }

    def rows(self) -> dict[str, HeldVersion]:
        with self.store.snapshot() as snapshot:
            return {each.job_id: each for each in snapshot.held_versions.known_of_source("demo")}

    # -- what happens ----------------------------------------------------------------------------

    def push(self, tree: Tree) -> None:
        """A commit. Each job becomes what its file says, unless that is held."""
        before = self.tree
        self.apply(tree)
        for name in NAMES:
            wanted = tree.get(name)
            if name in self.held and self.held[name] == wanted:
                continue
            if name in self.held and wanted != before.get(name):
                del self.held[name]
            self._becomes(name, wanted)
        self.trees.append(tree)

    def _becomes(self, name: str, content: int | None) -> None:
        if content is None:
            self.expected.pop(name, None)
        else:
            self.expected[name] = content

    def fail(self, name: str, auto_revert: bool) -> None:
        """The version that the newest rollout registered fails."""
        assert self.rollout is not None
        known = next(job for job in self.rollout.jobs if job.job_id == name)
        if known.action == "delete" or name not in self.fresh:
            return
        self.fresh.discard(name)
        content = self.expected[name]
        status = "failed"
        if auto_revert and name in self.last_good:
            good = desired(name, self.last_good[name]).job
            with self.store.snapshot() as snapshot:
                current = snapshot.jobs.get("default", name)
            assert current is not None
            again = replace(good, origin=current.origin)
            apply(self.store, RegisterJob(upsert=JobUpsert(again)))
            self.expected[name] = self.last_good[name]
            status = "reverted"
        after = replace(
            self.rollout,
            jobs=[
                replace(job, status=status) if job.job_id == name else job
                for job in self.rollout.jobs
            ],
        )
        with self.store.snapshot() as snapshot:
            failed = failed_versions(snapshot, self.rollout, after, NOW_NS)
        apply(self.store, RecordProgress(rollout=after, hold=list(failed)))
        self.rollout = after
        self.held[name] = content

    def succeed(self, name: str) -> None:
        if name in self.fresh and name in self.expected:
            self.last_good[name] = self.expected[name]
            self.fresh.discard(name)

    def go_back(self, steps: int) -> None:
        """A person goes back: what the commits differ in is applied, and held on the other side."""
        target = self.trees[max(1, len(self.trees) - 1 - steps)]
        before = self.tree
        if not target:
            return
        hold = taken_back_versions(
            self.source(), jobs(**before), jobs(**target), RollbackRequest(), NOW_NS
        )
        self.apply(target, PlanRequest(hold=hold, is_revert=True), "revert")
        for name in NAMES:
            if before.get(name) != target.get(name):
                self.held[name] = before.get(name)
                self._becomes(name, target.get(name))
            elif not (name in self.held and self.held[name] == target.get(name)):
                self._becomes(name, target.get(name))
        self.trees.append(target)

    def retry(self, name: str) -> None:
        """A person asks for a held version that the applied commit has."""
        if name not in self.held or self.held[name] != self.tree.get(name):
            return
        self.apply(self.tree, PlanRequest(frozenset({("default", name)})), "retry")
        del self.held[name]
        self._becomes(name, self.tree.get(name))
        self.trees.append(self.tree)

    def check(self) -> None:
        assert self.registered() == self.expected
        rows = self.rows()
        assert rows.keys() == self.held.keys()
        for name, each in rows.items():
            content = self.held[name]
            version = desired(name, content) if content is not None else None
            assert is_held(version, each)
            assert each.wanted == (self.tree.get(name) == content)
        plan = self.plan(self.tree)
        assert not plan.actions.changes, "an unrelated commit changes nothing"


trees = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(CONTENTS), min_size=1)
events = st.one_of(
    st.tuples(st.just("push"), trees),
    st.tuples(st.just("unrelated"), st.none()),
    st.tuples(st.just("fail"), st.tuples(st.sampled_from(NAMES), st.booleans())),
    st.tuples(st.just("succeed"), st.sampled_from(NAMES)),
    st.tuples(st.just("go back"), st.integers(1, 3)),
    st.tuples(st.just("retry"), st.sampled_from(NAMES)),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def new_deck(store: Store, name: str = "demo") -> Deck:
    prune = PrunePolicy(max_share_percent=100)
    apply(store, PutSource(source=Source(name=name, prune=prune)))
    return Deck(store)


def test_deck_follows_the_events_of_a_failed_push(store: Store) -> None:
    deck = new_deck(store)
    deck.push({"a": 1})
    deck.succeed("a")
    deck.push({"a": 2})
    deck.fail("a", auto_revert=True)
    deck.push({"a": 2, "b": 1})
    assert deck.registered() == {"a": 1, "b": 1}
    assert [each.job_id for each in deck.plan({"a": 2, "b": 1}).actions.held] == ["a"]
    deck.retry("a")
    assert deck.registered() == {"a": 2, "b": 1}
    assert deck.rollout is not None
    assert [each.cause for each in deck.rollout.jobs] == [ChangeCause.RETRY]
    deck.check()


@settings(
    max_examples=120,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(happened=st.lists(events, min_size=2, max_size=14))
def test_held_version_never_comes_back_by_itself(
    tmp_path_factory: pytest.TempPathFactory, happened: list[tuple[str, object]]
) -> None:
    store = open_store(tmp_path_factory.mktemp("deck"))
    try:
        deck = new_deck(store)
        deck.push({"a": 1, "b": 1})
        for event, given_ in happened:
            _happen(deck, event, given_)
            deck.check()
    finally:
        store.close()


def _happen(deck: Deck, event: str, given_: object) -> None:
    if event == "push":
        assert isinstance(given_, dict)
        deck.push(given_)
    elif event == "unrelated":
        deck.push(dict(deck.tree))
    elif event == "fail":
        assert isinstance(given_, tuple)
        name, auto_revert = given_
        if name in deck.fresh and name in deck.expected:
            deck.fail(name, auto_revert)
    elif event == "succeed":
        deck.succeed(str(given_))
    elif event == "go back":
        assert isinstance(given_, int)
        deck.go_back(given_)
    else:
        deck.retry(str(given_))
