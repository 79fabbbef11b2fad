"""The book of sources: who is waited for, how far all have come, and what was decided about that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.base.source_book import Decision, SourceBook
from headwater.language.times import FOREVER, NEVER


def book_of(**watermarks: int) -> SourceBook:
    book = SourceBook()
    book.set_joined(list(watermarks))
    for number, watermark in enumerate(watermarks.values()):
        book.raise_to(number, watermark)
    return book


def test_all_wait_for_the_lowest_active_source() -> None:
    book = book_of(a=10, b=7, c=20)
    assert book.group == 7
    book.raise_to(1, 30)
    assert book.group == 10
    book.raise_to(0, 5)
    assert (book.group, book.watermarks.tolist()) == (10, [10, 30, 20])


def test_a_source_that_joins_goes_on_from_the_watermark_of_all() -> None:
    book = book_of(a=10)
    book.set_joined(["b"])
    assert book.watermarks.tolist() == [10, 10]
    assert book.decisions == [Decision("joined", "a", 0, NEVER), Decision("joined", "b", 0, 10)]
    book.raise_to(0, 20)
    assert book.group == 10


def test_an_idle_source_holds_nobody_up_and_is_not_behind_when_it_returns() -> None:
    book = book_of(a=10, b=7)
    book.offsets[1] = 4
    book.set_idle([1])
    assert (book.group, book.idle_numbers(), book.are_all_active) == (10, [1], False)
    book.raise_to(0, 12)
    book.set_returned([1])
    assert (book.group, book.watermarks.tolist(), book.idle_numbers()) == (12, [12, 12], [])
    assert book.decisions[-2:] == [Decision("idle", "b", 4, 7), Decision("returned", "b", 4, 12)]


def test_sources_that_fall_idle_together_are_logged_with_the_watermark_of_each_moment() -> None:
    book = book_of(a=1, b=2, c=3)
    book.set_idle([0, 1])
    assert [(d.source, d.time) for d in book.decisions if d.what == "idle"] == [("a", 1), ("b", 2)]
    assert book.group == 3


def test_when_all_are_idle_the_watermark_stays() -> None:
    book = book_of(a=10, b=7)
    book.set_idle([0, 1])
    assert book.group == 7
    book.raise_to(0, 50)
    assert book.group == 7
    book.set_returned([0])
    assert book.group == 50


def test_how_far_all_came_before_the_end_is_remembered() -> None:
    book = book_of(a=10, b=7)
    for number in (0, 1):
        book.raise_to(number, FOREVER)
    assert (book.group, book.finite) == (FOREVER, 7)


def test_a_book_without_sources_stands_nowhere() -> None:
    book = SourceBook()
    book.follow()
    assert (book.group, book.are_all_active, book.idle_numbers()) == (NEVER, True, [])


def test_columns_grow_and_keep_what_they_hold() -> None:
    book = SourceBook()
    for number in range(100):
        book.set_joined([str(number)])
        book.raise_to(number, number)
        book.offsets[number] = 2 * number
    assert book.watermarks.tolist() == list(range(100))
    assert book.offsets.tolist() == list(range(0, 200, 2))
    assert book.active.all() and len(book.active) == len(book.names) == 100


def test_a_restored_book_goes_on_and_leaves_the_old_one_alone() -> None:
    book, again = book_of(a=10, b=7), SourceBook()
    again.restore_book(book.names, book.decision_rows(), book.offsets, book.watermarks, book.active)
    again.group = book.group
    again.set_idle([1])
    again.set_joined(["c"])
    assert (again.group, again.numbers) == (10, {"a": 0, "b": 1, "c": 2})
    assert (book.group, book.names, book.idle_numbers()) == (7, ["a", "b"], [])
    assert again.decisions[:2] == book.decisions


@given(
    st.lists(
        st.one_of(
            st.just(("join", 0, 0)),
            st.tuples(st.sampled_from(["raise", "idle", "return"]), st.integers(0, 5), st.integers(-9, 9)),
        ),
        max_size=30,
    )
)
def test_the_watermark_of_all_is_the_minimum_over_the_active_and_never_falls(acts: list[tuple[str, int, int]]) -> None:
    book, group = SourceBook(), NEVER
    for what, number, watermark in acts:
        if what == "join":
            book.set_joined([str(len(book.names))])
        elif number < len(book.names):
            if what == "raise":
                book.raise_to(number, watermark)
            elif what == "idle" and book.active[number]:
                book.set_idle([number])
            elif what == "return" and not book.active[number]:
                book.set_returned([number])
        if book.active.any():
            group = max(group, int(book.watermarks[book.active].min()))
        assert book.group == group
