"""Log entries about drift: who changed a job, who purged it, and looks that came too late."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchgit.model.drift import JobDrift
from orchgit.model.job import ChangedBy, Job, JobOrigin
from orchgit.model.source import Source
from orchgit.replication.commands.drift import DriftNote, RecordDrift
from orchgit.replication.commands.gitops import PutSource
from orchgit.replication.commands.jobs import (
    ChangeJob,
    JobDeletion,
    JobUpsert,
    RegisterJob,
    StopJob,
)
from orchgit.replication.events import Effects, EventNote
from orchgit.state.store import Store
from tests.support.factories import make_batch_job, make_job
from tests.support.state import apply, open_store

ADA = ChangedBy(via="purge", user="ada")
DRIFT = JobDrift("default", "web", "demo", changed_via="unknown")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    apply(opened, PutSource(source=Source(name="demo")))
    yield opened
    opened.close()


def owned(job: Job | None = None) -> Job:
    return replace(job or make_job(id="web"), origin=JobOrigin(source="demo", file="web.hcl"))


def drift(store: Store) -> JobDrift | None:
    with store.snapshot() as snapshot:
        return snapshot.drifted_jobs.get("default", "web")


def index(store: Store) -> int:
    return store.watch.applied_index


def stop(purge: bool = False) -> StopJob:
    return StopJob(deletion=JobDeletion("default", "web", purge=purge), changed_by=ADA)


def test_change_by_hand_is_stamped_with_its_author_and_version(store: Store) -> None:
    changed = replace(owned(), priority=70)
    apply(
        store,
        RegisterJob(upsert=JobUpsert(owned())),
        ChangeJob(upsert=JobUpsert(changed), changed_by=replace(ADA, via="register")),
    )
    with store.snapshot() as snapshot:
        job = snapshot.jobs.get("default", "web")
    assert job is not None
    assert job.origin is not None
    assert job.origin.changed_by == replace(ADA, via="register", version=1)
    apply(store, stop())
    with store.snapshot() as snapshot:
        job = snapshot.jobs.get("default", "web")
    assert job is not None
    assert job.stop
    assert job.origin is not None
    assert job.origin.changed_by == replace(ADA, version=2)
    assert job.origin.file == "web.hcl"


def test_purge_of_a_wanted_job_records_who_did_it_in_the_same_entry(store: Store) -> None:
    effects = Effects()
    apply(store, RegisterJob(upsert=JobUpsert(owned())))
    apply(store, stop(purge=True), effects=effects)
    found = drift(store)
    assert found is not None
    assert (found.kind, found.changed_by) == ("missing", "ada (claimed)")
    notes = [note.type for note in effects.notes if isinstance(note, EventNote)]
    assert notes == ["JobDeregistered", "JobDrifted"]


@pytest.mark.parametrize(
    "job",
    [
        make_job(id="web"),
        replace(owned(), origin=JobOrigin(source="removed")),
        replace(owned(), parent_id="parent"),
        replace(owned(), stop=True),
        owned(make_batch_job(id="web")),
    ],
    ids=["unowned", "removed source", "child", "stopped", "runs once"],
)
def test_purge_of_a_job_that_no_source_wants_records_nothing(store: Store, job: Job) -> None:
    apply(store, RegisterJob(upsert=JobUpsert(job)), stop(purge=True))
    assert drift(store) is None


def test_drift_recorded_after_a_look_at_the_state_is_left_by_what_the_look_found(
    store: Store,
) -> None:
    apply(store, RegisterJob(upsert=JobUpsert(owned())))
    looked_at = index(store)
    apply(store, stop(purge=True))
    found = drift(store)
    apply(store, RecordDrift(as_of=looked_at, clear=[("default", "web")]))
    apply(store, RecordDrift(as_of=looked_at, put=[replace(DRIFT)]))
    assert drift(store) == found
    apply(store, RecordDrift(as_of=index(store), clear=[("default", "web")]))
    assert drift(store) is None


def test_drift_of_a_source_that_was_removed_and_notes_of_ended_drift_are_passed_over(
    store: Store,
) -> None:
    apply(store, RecordDrift(as_of=index(store), put=[replace(DRIFT, source="removed")]))
    apply(store, RecordDrift(notes=[DriftNote("default", "web", "why")]))
    assert drift(store) is None
    apply(store, RecordDrift(as_of=index(store), put=[replace(DRIFT)]))
    created = drift(store)
    apply(store, RecordDrift(notes=[DriftNote("default", "web", "why")]))
    noted = drift(store)
    assert created is not None
    assert noted is not None
    assert (noted.note, noted.create_index) == ("why", created.create_index)
