import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.edge.feed import Feed, SourceReader
from headwater.edge.pace import Pace
from headwater.edge.rates import FAR_NS, SECOND_NS
from headwater.edge.sources import MemoryStore, first_of
from headwater.protocols.events import BatchArrived, Event, SourceEnded

SCHEMA = pa.schema({"time": pa.int64()})
lengths = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def store_of(sizes: list[int]) -> MemoryStore:
    batches, first = [], 0
    for size in sizes:
        batches.append(pa.record_batch({"time": pa.array(range(first, first + size), pa.int64())}))
        first += size
    return MemoryStore(SCHEMA, batches)


def all_events(feed: Feed, now_ns: int = 0) -> list[Event]:
    return list(iter(lambda: feed.next_event(now_ns), None))


def times(events: list[Event], source: str) -> list[int]:
    arrived = [event for event in events if isinstance(event, BatchArrived) and event.source == source]
    return [time for event in arrived for time in event.batch.column("time").to_pylist()]


def feed_of(*sizes: list[int], events_max: int = 3, pace: Pace | None = None, slot_ns: int = 1) -> Feed:
    readers = [SourceReader(f"s{number}", store_of(each), pace) for number, each in enumerate(sizes)]
    feed = Feed(readers, events_max, slot_ns)
    for reader in readers:
        reader.move(0)
    feed.begin_ns = 0
    return feed


@given(lengths, lengths, st.integers(1, 5))
def test_every_event_is_handed_over_once_and_in_order(one, other, events_max):
    feed = feed_of(one, other, events_max=events_max)
    events = all_events(feed)
    assert times(events, "s0") == list(range(sum(one)))
    assert times(events, "s1") == list(range(sum(other)))
    assert {(e.source, e.offset) for e in events if isinstance(e, SourceEnded)} == {
        ("s0", sum(one)),
        ("s1", sum(other)),
    }
    assert feed.events == sum(one) + sum(other)
    assert feed.next_ns() == FAR_NS


@given(lengths, st.data())
def test_a_source_is_read_again_from_where_it_is_asked_for(sizes, data):
    feed = feed_of(sizes)
    offset = data.draw(st.integers(0, sum(sizes)))
    all_events(feed)
    feed.readers["s0"].move(offset)
    events = all_events(feed)
    assert times(events, "s0") == list(range(offset, sum(sizes)))
    assert isinstance(events[-1], SourceEnded)
    assert feed.events == sum(sizes)  # each counted once


def test_sources_take_turns():
    events = all_events(feed_of([4], [4], events_max=2))
    assert [event.source for event in events] == ["s0", "s1"] * 3


def test_nothing_comes_before_the_begin_or_while_reading_is_paused():
    feed = feed_of([3])
    feed.begin_ns = None
    assert feed.next_event(5) is None and feed.next_ns() == FAR_NS
    feed.begin_ns = 7
    assert feed.next_event(6) is None and feed.next_ns() == 7
    feed.is_paused = True
    assert feed.next_event(8) is None and feed.next_ns() == FAR_NS
    feed.is_paused = False
    assert feed.next_event(8) is not None


def test_no_event_comes_before_it_is_due_and_the_feed_knows_when():
    feed = feed_of([4], pace=Pace(0, 1000), events_max=10)
    assert times(all_events(feed, 1_500_000), "s0") == [0, 1]
    assert feed.next_ns() == 2_000_000
    assert times(all_events(feed, 3_000_000), "s0") == [2, 3]


def test_scheduled_events_come_by_slots():
    slot_ns = SECOND_NS // 100
    feed = feed_of([100], pace=Pace(0, 1000), events_max=100, slot_ns=slot_ns)
    assert times(all_events(feed, 2 * slot_ns - 1), "s0") == list(range(11))
    assert feed.next_ns() == 2 * slot_ns


def test_a_feed_is_asked_for_once_every_source_is():
    feed = Feed([SourceReader("a", store_of([1])), SourceReader("b", store_of([1]))], 1, 1)
    feed.readers["a"].move(0)
    assert not feed.is_asked_for
    feed.readers["b"].move(0)
    assert feed.is_asked_for


@given(lengths, st.integers(0, 50))
def test_the_first_events_of_batches_are_cut_from_them(sizes, count):
    batches = [pa.record_batch({"time": pa.array(range(size), pa.int64())}) for size in sizes]
    assert sum(map(len, first_of(batches, count))) == min(count, sum(sizes))
