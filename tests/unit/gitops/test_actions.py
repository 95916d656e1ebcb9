"""Which jobs a commit creates, updates and deletes, and which deletions it may not cause."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchgit.gitops.commits.actions import Actions, RegisteredJob, plan_actions
from orchgit.gitops.commits.deletions import delete_trailers
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.model.group import ScalingPolicy
from orchgit.model.job import Job, JobOrigin
from orchgit.model.rollout import JobAction
from orchgit.model.source import ClaimDeletion, PrunePolicy
from tests.support.factories import make_group, make_job

ALL = PrunePolicy(max_share_percent=100)


def desired(*jobs: Job) -> dict[JobKey, DesiredJob]:
    return {(job.namespace, job.id): DesiredJob(job, f"{job.id}.hcl", 1, "b" * 40) for job in jobs}


def known(job: Job, source: str = "demo", claims: bool = False, index: int = 7) -> RegisteredJob:
    origin = JobOrigin(source=source) if source else None
    return RegisteredJob(replace(job, origin=origin, job_modify_index=index, version=3), claims)


def registered(*jobs: RegisteredJob) -> dict[JobKey, RegisteredJob]:
    return {(each.job.namespace, each.job.id): each for each in jobs}


def kinds(changes: Iterable[object]) -> dict[str, str]:
    return {action.key[1]: action.kind for action in changes}  # type: ignore[attr-defined]


def test_jobs_are_created_updated_kept_and_deleted_by_comparison() -> None:
    new, changed, same, gone = (make_job(id=name) for name in ("new", "changed", "same", "gone"))
    found = plan_actions(
        "demo",
        desired(new, replace(changed, priority=70), same),
        registered(known(changed), known(same), known(gone)),
        ALL,
        (),
    )
    assert not found.problems
    assert kinds(found.changes) == {"new": "create", "changed": "update", "gone": "delete"}
    assert found.unchanged == (("default", "same"),)
    assert [action.kind for action in found.changes][-1] is JobAction.DELETE
    indexes = {action.key[1]: action.expected_modify_index for action in found.changes}
    assert indexes == {"new": 0, "changed": 7, "gone": 7}


def test_moving_a_file_changes_nothing() -> None:
    job = make_job(id="web")
    moved = {("default", "web"): DesiredJob(job, "elsewhere/other.hcl", 9, "c" * 40)}
    assert plan_actions("demo", moved, registered(known(job)), ALL, ()).changes == ()


def test_same_name_in_two_namespaces_are_two_jobs() -> None:
    one, other = make_job(id="web"), make_job(id="web", namespace="prod")
    found = plan_actions("demo", desired(one, other), registered(known(one)), ALL, ())
    assert [action.key for action in found.changes] == [("prod", "web")]


def test_jobs_of_other_sources_are_not_deleted() -> None:
    mine, theirs, nobodys = make_job(id="mine"), make_job(id="theirs"), make_job(id="nobodys")
    found = plan_actions(
        "demo",
        desired(mine),
        registered(known(mine), known(theirs, "other"), known(nobodys, "")),
        ALL,
        (),
    )
    assert not found.changes
    assert not found.problems


def test_a_job_of_another_source_is_a_problem() -> None:
    job = make_job(id="web")
    found = plan_actions("demo", desired(job), registered(known(job, "other")), ALL, ())
    assert found.problems == (
        "web.hcl:1:1: job 'web' belongs to source 'other': free it with `orchgit source release "
        "web`, or remove its file there, which stops it",
    )


def test_a_job_registered_by_hand_is_adopted() -> None:
    job = make_job(id="web")
    found = plan_actions("demo", desired(job), registered(known(job, "")), ALL, ())
    assert kinds(found.changes) == {"web": "update"}


def test_a_stopped_job_is_created_again_with_its_index() -> None:
    job = make_job(id="web")
    stopped = known(replace(job, stop=True))
    found = plan_actions("demo", desired(job), registered(stopped), ALL, ())
    assert kinds(found.changes) == {"web": "create"}
    assert found.changes[0].expected_modify_index == 7


def test_a_scaled_group_keeps_its_count_within_bounds() -> None:
    policy = ScalingPolicy(min=2, max=5)
    job = make_job(id="web", task_groups=[make_group(count=2, scaling=policy)])
    for now, wanted in ((4, "unchanged"), (9, "update")):
        scaled = replace(job, task_groups=[make_group(count=now, scaling=policy)])
        found = plan_actions("demo", desired(job), registered(known(scaled)), ALL, ())
        assert (kinds(found.changes) or {"web": "unchanged"}) == {"web": wanted}
    (action,) = found.changes
    assert action.desired is not None
    assert action.desired.job.task_groups[0].count == 5


def test_launched_children_follow_their_parent() -> None:
    child = make_job(id="cron/periodic-1", parent_id="cron")
    keep = make_job(id="keep")
    found = plan_actions("demo", desired(keep), registered(known(child), known(keep)), ALL, ())
    assert not found.changes


def test_pruning_switched_off_keeps_jobs() -> None:
    gone, keep = make_job(id="gone"), make_job(id="keep")
    found = plan_actions(
        "demo", desired(keep), registered(known(gone), known(keep)), PrunePolicy(enabled=False), ()
    )
    assert not found.changes
    assert found.kept == (("default", "gone"),)


def test_an_empty_tree_deletes_nothing() -> None:
    job = make_job(id="web")
    found = plan_actions("demo", {}, registered(known(job)), ALL, ())
    assert "an empty tree deletes nothing" in found.problems[0]
    assert plan_actions("demo", {}, registered(known(job)), ALL, {"web"}).problems == ()


def test_job_with_volume_claims_is_deleted_only_with_a_trailer() -> None:
    data, keep = make_job(id="data"), make_job(id="keep")
    state = registered(known(data, claims=True), known(keep))
    found = plan_actions("demo", desired(keep), state, ALL, ())
    assert "owns sticky volume claims" in found.problems[0]
    assert "Orchgit-Delete: data" in found.problems[0]
    for named in ({"data"}, {"default/data"}):
        assert plan_actions("demo", desired(keep), state, ALL, named).problems == ()


def test_deletions_above_the_share_are_refused_without_trailers() -> None:
    jobs = [make_job(id=f"j{number}") for number in range(10)]
    state = registered(*(known(job) for job in jobs))
    half = plan_actions("demo", desired(*jobs[5:]), state, PrunePolicy(), ())
    assert not half.problems
    more = plan_actions("demo", desired(*jobs[6:]), state, PrunePolicy(), ())
    assert "cannot delete 6 of 10 jobs" in more.problems[0]
    named = plan_actions("demo", desired(*jobs[6:]), state, PrunePolicy(), {"j0"})
    assert not named.problems


def test_unchanged_jobs_count_towards_the_share() -> None:
    gone = [make_job(id=f"g{number}") for number in range(3)]
    unchanged = [("default", f"s{number}") for number in range(10)]
    state = registered(*(known(job) for job in gone))
    found = plan_actions("demo", {}, state, PrunePolicy(), (), unchanged)
    assert not found.problems
    assert len(found.changes) == 3


def test_trailers_are_read_from_any_line() -> None:
    messages = [
        "Remove\n\nOrchgit-Delete: web\norchgit-delete: prod/db, cache \n",
        "no Orchgit-Delete: x",
    ]
    assert delete_trailers(messages) == {"web", "prod/db", "cache"}


@settings(max_examples=60)
@given(
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("abcdef")),
)
def test_wanted_jobs_and_jobs_of_other_sources_are_never_deleted(
    wanted: set[str], mine: set[str], theirs: set[str]
) -> None:
    jobs = {name: make_job(id=name) for name in "abcdef"}
    state = registered(
        *(known(jobs[name], "other") for name in theirs), *(known(jobs[name]) for name in mine)
    )
    found = plan_actions(
        "demo", desired(*(jobs[name] for name in wanted)), state, ALL, set("abcdef")
    )
    deleted = {action.key[1] for action in found.of(JobAction.DELETE)}
    assert deleted == mine - wanted


def former(job: Job, source: str) -> RegisteredJob:
    origin = JobOrigin(former_source=source)
    return RegisteredJob(replace(job, origin=origin, job_modify_index=7), removed_owner=source)


def test_job_of_a_removed_source_is_taken_over_only_with_adopt() -> None:
    job = make_job(id="web", namespace="prod")
    args = ("demo", desired(job), registered(former(job, "old")), ALL, ())
    (problem,) = plan_actions(*args).problems
    assert "belonged to source 'old', which was removed" in problem
    assert "`orchgit source set demo -adopt`" in problem
    assert "`orchgit source release -namespace prod web`" in problem
    found = plan_actions(*args, adopt=True)
    assert not found.problems
    assert kinds(found.changes) == {"web": "update"}, "the entry makes the source its owner"


def test_job_of_a_removed_source_without_a_file_is_not_deleted() -> None:
    job, mine = make_job(id="web"), make_job(id="mine")
    found = plan_actions(
        "demo", desired(mine), registered(former(job, "demo")), ALL, (), adopt=True
    )
    assert kinds(found.changes) == {"mine": "create"}


def test_released_job_is_left_alone_by_its_source_and_taken_by_another() -> None:
    job = make_job(id="web", priority=70)
    free = replace(make_job(id="web"), origin=JobOrigin(released_from="demo"))
    found = plan_actions("demo", desired(job), registered(RegisteredJob(free)), ALL, ())
    assert (found.changes, found.problems) == ((), ())
    assert found.released == (("default", "web"),)
    stopped = RegisteredJob(replace(free, stop=True))
    assert plan_actions("demo", desired(job), registered(stopped), ALL, ()).changes == ()
    other = plan_actions("other", desired(job), registered(RegisteredJob(free)), ALL, ())
    assert kinds(other.changes) == {"web": "update"}


def gone_with(prune: PrunePolicy, trailers: Iterable[str], claims: bool = False) -> Actions:
    """Plans the deletion of two of three jobs."""
    jobs = {name: make_job(id=name) for name in ("kept", "old", "older")}
    owned = registered(*(known(job, claims=claims) for job in jobs.values()))
    return plan_actions("demo", desired(jobs["kept"]), owned, prune, frozenset(trailers))


def test_wildcard_trailer_deletes_only_where_the_source_accepts_it() -> None:
    strict, open_ = PrunePolicy(), PrunePolicy(wildcard=True)
    for trailer in ("*", "default/*"):
        refused = gone_with(strict, [trailer])
        assert "does not accept it" in refused.problems[1]
        assert not gone_with(open_, [trailer]).problems
    assert gone_with(open_, ["other/*"]).problems


def test_wildcard_trailer_does_not_name_a_job_that_owns_claims() -> None:
    found = gone_with(PrunePolicy(wildcard=True), ["*"], claims=True)
    assert [problem for problem in found.problems if "owns sticky volume claims" in problem]
    assert not gone_with(PrunePolicy(wildcard=True), ["old", "older"], claims=True).problems


def test_guard_of_claims_refuses_or_allows_whatever_is_named() -> None:
    refused = gone_with(PrunePolicy(claims=ClaimDeletion.REFUSED), ["old", "older"], claims=True)
    assert len(refused.problems) == 2
    assert "release the job first" in refused.problems[0]
    lenient = PrunePolicy(max_share_percent=100, claims=ClaimDeletion.ALLOWED)
    assert not gone_with(lenient, [], claims=True).problems
