"""The broker's rules one by one, then as a state machine."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from orchgit.clock import SECOND_NS
from orchgit.control.evaluations.broker import FAILED, BrokerLimits, Delivery, EvalBroker
from orchgit.errors import ConflictError
from orchgit.model.evaluation import Evaluation
from tests.support.factories import make_id

SERVICE = ("service",)
NOW = 1000 * SECOND_NS


def evaluation(job: str = "web", index: int = 10, **fields: object) -> Evaluation:
    made = Evaluation(id=make_id("000000e1"), job_id=job, create_index=index, modify_index=index)
    return msgspec.structs.replace(made, **fields)


def take(broker: EvalBroker, now_ns: int = NOW, types: tuple[str, ...] = SERVICE) -> Delivery:
    delivery = broker.dequeue(types, make_id("0000007c"), now_ns)
    assert delivery is not None
    return delivery


def test_highest_priority_is_delivered_first_then_the_oldest() -> None:
    broker = EvalBroker()
    low, old, new = (
        evaluation("low", 1, priority=10),
        evaluation("old", 2),
        evaluation("new", 3),
    )
    for each in (new, low, old):
        broker.enqueue(each, NOW)
    assert [take(broker).evaluation.job_id for _ in range(3)] == ["old", "new", "low"]


def test_times_count_from_when_a_worker_could_have_it_until_the_acknowledgment() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation("now"), NOW)
    broker.enqueue(evaluation("later", wait_until=NOW + 5 * SECOND_NS), NOW)
    first = take(broker, NOW + 2 * SECOND_NS)
    broker.ack(first.evaluation.id, first.token, NOW + 3 * SECOND_NS)
    broker.expire(NOW + 5 * SECOND_NS)
    second = take(broker, NOW + 6 * SECOND_NS)
    broker.ack(second.evaluation.id, second.token, NOW + 10 * SECOND_NS)
    times = broker.times["service"]
    assert (times.wait.total_s, times.process.total_s, times.response.total_s) == (3, 5, 8)
    assert sum(times.wait.counts) == sum(times.response.counts) == 2


def test_wait_of_a_second_delivery_begins_after_the_first_and_its_delay() -> None:
    broker = EvalBroker(BrokerLimits(first_nack_delay_ns=10 * SECOND_NS))
    broker.enqueue(evaluation(), NOW)
    first = take(broker, NOW + 1 * SECOND_NS)
    broker.nack(first.evaluation.id, first.token, NOW + 5 * SECOND_NS)
    broker.expire(NOW + 15 * SECOND_NS)
    second = take(broker, NOW + 17 * SECOND_NS)
    broker.ack(second.evaluation.id, second.token, NOW + 20 * SECOND_NS)
    times = broker.times["service"]
    assert (times.wait.total_s, times.process.total_s, times.response.total_s) == (1 + 2, 3, 20)


def test_types_with_equal_priority_take_turns() -> None:
    broker = EvalBroker()
    for number in range(4):
        broker.enqueue(evaluation(f"s{number}", number), NOW)
        broker.enqueue(evaluation(f"b{number}", number, type="batch"), NOW)
    served = [take(broker, types=("service", "batch")).evaluation.type for _ in range(8)]
    assert all(first != second for first, second in itertools.pairwise(served))


def test_one_evaluation_of_a_job_is_outstanding_at_a_time() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(index=1), NOW)
    broker.enqueue(evaluation(index=2), NOW)
    first = take(broker)
    assert broker.dequeue(SERVICE, "t", NOW) is None
    broker.ack(first.evaluation.id, first.token, NOW)
    assert take(broker).evaluation.modify_index == 2


def test_ack_keeps_the_newest_of_highest_priority_and_cancels_the_rest() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(index=1), NOW)
    first = take(broker)
    kept = evaluation(index=4, priority=90)
    for each in (evaluation(index=5), kept, evaluation(index=3, priority=90)):
        broker.enqueue(each, NOW)
    broker.ack(first.evaluation.id, first.token, NOW)
    assert take(broker).evaluation.id == kept.id
    assert [each.modify_index for each in broker.take_cancelable(10)] == [5, 3]
    assert broker.take_cancelable(10) == []


def test_next_evaluation_of_a_job_waits_for_the_index_of_its_last_write() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(index=5), NOW)
    first = take(broker)
    broker.enqueue(evaluation(index=6), NOW)
    broker.note_index(("default", "web"), 9)
    broker.ack(first.evaluation.id, first.token, NOW)
    assert take(broker).wait_index == 9


def test_wait_index_is_at_least_the_index_where_leadership_began() -> None:
    broker = EvalBroker()
    broker.floor_index = 77
    broker.enqueue(evaluation(index=5), NOW)
    assert take(broker).wait_index == 77


def test_wrong_or_used_token_is_refused() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(), NOW)
    delivery = take(broker)
    with pytest.raises(ConflictError):
        broker.ack(delivery.evaluation.id, "other", NOW)
    broker.ack(delivery.evaluation.id, delivery.token, NOW)
    with pytest.raises(ConflictError):
        broker.ack(delivery.evaluation.id, delivery.token, NOW)


def test_each_nack_delays_the_next_delivery_longer() -> None:
    limits = BrokerLimits(delivery_limit=10)
    broker = EvalBroker(limits)
    broker.enqueue(evaluation(), NOW)
    now_ns = NOW
    for delay_ns in (limits.first_nack_delay_ns, limits.later_nack_delay_ns):
        delivery = take(broker, now_ns)
        broker.nack(delivery.evaluation.id, delivery.token, now_ns)
        broker.expire(now_ns + delay_ns - 1)
        assert broker.dequeue(SERVICE, "t", now_ns) is None
        now_ns += delay_ns
        broker.expire(now_ns)


def test_evaluation_held_past_its_timeout_is_delivered_again() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(), NOW)
    delivery = take(broker)
    deadline_ns = NOW + broker.limits.nack_timeout_ns
    assert broker.next_alarm_ns() == deadline_ns
    broker.expire(deadline_ns)
    with pytest.raises(ConflictError):
        broker.ack(delivery.evaluation.id, delivery.token, deadline_ns)
    broker.expire(deadline_ns + broker.limits.first_nack_delay_ns)
    assert take(broker, deadline_ns).evaluation.id == delivery.evaluation.id


def test_extended_hold_does_not_expire_at_the_old_time() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(), NOW)
    delivery = take(broker)
    broker.extend(delivery.evaluation.id, delivery.token, NOW + 1)
    broker.expire(NOW + broker.limits.nack_timeout_ns)
    broker.ack(delivery.evaluation.id, delivery.token, NOW)


def test_evaluation_delivered_too_often_fails_and_blocks_its_job_until_recorded() -> None:
    broker = EvalBroker(BrokerLimits(delivery_limit=1))
    broker.enqueue(evaluation(index=1), NOW)
    broker.enqueue(evaluation(index=2), NOW)
    delivery = take(broker)
    broker.nack(delivery.evaluation.id, delivery.token, NOW)
    assert broker.dequeue(SERVICE, "t", NOW) is None
    failed = take(broker, types=(FAILED,))
    assert failed.evaluation.id == delivery.evaluation.id
    broker.ack(failed.evaluation.id, failed.token, NOW)
    assert take(broker).evaluation.modify_index == 2


def test_delayed_evaluation_is_not_delivered_before_its_time() -> None:
    broker = EvalBroker()
    broker.enqueue(evaluation(wait_until=NOW + 5), NOW)
    assert broker.dequeue(SERVICE, "t", NOW) is None
    assert broker.next_alarm_ns() == NOW + 5
    broker.expire(NOW + 5)
    take(broker)


def test_newer_version_of_a_held_evaluation_is_delivered_after_the_ack() -> None:
    broker = EvalBroker()
    first = evaluation(index=3)
    broker.enqueue(first, NOW)
    delivery = take(broker)
    broker.enqueue(msgspec.structs.replace(first, modify_index=8), NOW)
    broker.ack(first.id, delivery.token, NOW)
    assert take(broker).evaluation.modify_index == 8


def test_next_evaluation_of_a_job_is_delivered_when_one_is_discarded() -> None:
    broker = EvalBroker()
    first = evaluation(index=1)
    broker.enqueue(first, NOW)
    broker.enqueue(evaluation(index=2), NOW)
    broker.discard(first.id)
    assert take(broker).evaluation.modify_index == 2
    assert broker.dequeue(SERVICE, "t", NOW) is None


def test_returned_evaluation_is_ready_at_once_and_counts_no_failed_delivery() -> None:
    broker = EvalBroker(BrokerLimits(delivery_limit=1))
    broker.enqueue(evaluation(), NOW)
    for _ in range(3):
        delivery = take(broker)
        broker.give_back(delivery.evaluation.id, delivery.token)
    assert take(broker).evaluation.job_id == "web"
    assert broker.dequeue((FAILED,), "t", NOW) is None


class BrokerMachine(RuleBasedStateMachine):
    """Whatever happens, no evaluation is lost, doubled, or out together with one of its job."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.broker = EvalBroker(BrokerLimits(delivery_limit=3))
        self.now_ns = NOW
        self.index = 0
        self.alive: set[str] = set()
        self.out: dict[str, str] = {}

    @rule(
        job=st.sampled_from(("a", "b", "c")),
        priority=st.sampled_from((10, 50)),
        kind=st.sampled_from(("service", "batch")),
        later=st.integers(0, 3),
    )
    def enqueue(self, job: str, priority: int, kind: str, later: int) -> None:
        self.index += 1
        wait_until = self.now_ns + later * SECOND_NS if later else 0
        made = evaluation(job, self.index, priority=priority, type=kind, wait_until=wait_until)
        self.broker.enqueue(made, self.now_ns)
        self.alive.add(made.id)

    @rule(target=held, kind=st.sampled_from((("service",), ("batch",), ("service", "batch"))))
    def dequeue(self, kind: tuple[str, ...]) -> Delivery | None:
        delivery = self.broker.dequeue(kind, make_id("0000007c"), self.now_ns)
        if delivery is not None:
            assert delivery.evaluation.id in self.alive
            assert delivery.evaluation.wait_until <= self.now_ns
            assert delivery.evaluation.job_id not in self.out.values()
            assert delivery.wait_index >= delivery.evaluation.modify_index
            self.out[delivery.evaluation.id] = delivery.evaluation.job_id
        return delivery

    @rule(delivery=consumes(held))
    def ack(self, delivery: Delivery | None) -> None:
        if delivery is None or self.broker.outstanding(delivery.evaluation.id) != delivery.token:
            return
        self.broker.ack(delivery.evaluation.id, delivery.token, self.now_ns)
        del self.out[delivery.evaluation.id]
        self.alive.discard(delivery.evaluation.id)
        self.alive -= {each.id for each in self.broker.take_cancelable(100)}

    @rule(delivery=consumes(held))
    def nack(self, delivery: Delivery | None) -> None:
        if delivery is None or self.broker.outstanding(delivery.evaluation.id) != delivery.token:
            return
        self.broker.nack(delivery.evaluation.id, delivery.token, self.now_ns)
        del self.out[delivery.evaluation.id]

    @rule(delivery=consumes(held))
    def give_back(self, delivery: Delivery | None) -> None:
        if delivery is None or self.broker.outstanding(delivery.evaluation.id) != delivery.token:
            return
        self.broker.give_back(delivery.evaluation.id, delivery.token)
        del self.out[delivery.evaluation.id]

    @rule(seconds=st.sampled_from((1, 5, 61)))
    def time_passes(self, seconds: int) -> None:
        self.now_ns += seconds * SECOND_NS
        self.broker.expire(self.now_ns)
        self.out = {
            eval_id: job for eval_id, job in self.out.items() if self.broker.outstanding(eval_id)
        }

    @invariant()
    def nothing_is_lost(self) -> None:
        stats = self.broker.stats()
        total = stats.ready + stats.unacked + stats.pending + stats.waiting + stats.failed
        assert total == len(self.alive)
        assert stats.unacked == len(self.out)

    def teardown(self) -> None:
        """Given time, everything comes out, one by one per job."""
        for _ in range(20 * (len(self.alive) + 1)):
            self.time_passes(61)
            delivery = self.broker.dequeue(
                ("service", "batch", FAILED), make_id("0000007c"), self.now_ns
            )
            if delivery is not None:
                self.out[delivery.evaluation.id] = delivery.evaluation.job_id
                self.ack(delivery)
        assert not self.alive


BrokerMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestBrokerMachine = BrokerMachine.TestCase
