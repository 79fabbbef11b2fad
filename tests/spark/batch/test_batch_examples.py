"""Plans, leaves and roots of a batch job by a few plain cases, without Spark."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.spark.batch.columns import columns_of
from headwater.spark.batch.files import TASK_BYTES, find_pieces, share_out
from headwater.spark.batch.leaf import LeafTask, SourceFeed
from headwater.spark.batch.plan import ReadPlan, plan_events, plan_queries
from headwater.spark.batch.root import closed, in_order, root_count
from headwater.spark.formats import FileRange

LOAD = hw.query("load", hw.tumbling(10), total=hw.sum("v"))


@pytest.fixture
def folder(tmp_path):
    """Two files of three events each."""
    for name, first in (("a", 0), ("b", 8)):
        times = [first, first + 1, first + 2]
        pq.write_table(pa.table({"time": times, "v": [1, 2, 3]}), tmp_path / f"{name}.parquet")
    return tmp_path


def frames(plan: ReadPlan) -> list[pa.RecordBatch]:
    assert plan.root is not None
    sent = []
    for task, pieces in enumerate(plan.tasks):
        leaf = LeafTask(plan.root, task, [(piece.source, piece.home) for piece in pieces])
        sent += leaf.run(plan.feeds(task), flush=True)
    return sent


def test_each_file_is_a_source_named_by_its_path(folder):
    kind, pieces = find_pieces(folder, None)
    assert (kind, [piece.source for piece in pieces]) == ("parquet", ["a.parquet", "b.parquet"])


def test_the_largest_piece_goes_to_the_task_that_has_least():
    pieces = [FileRange(name, name, (name,), size * TASK_BYTES) for name, size in (("a", 1), ("b", 3), ("c", 1))]
    assert [[piece.source for piece in task] for task in share_out(pieces, 2)] == [["b"], ["a", "c"]]


def test_a_column_that_files_hold_in_two_widths_is_as_wide_as_the_wider(tmp_path):
    for name, type_ in (("a", pa.int32()), ("b", pa.int64())):
        pq.write_table(pa.table({"v": pa.array([1], type_)}), tmp_path / f"{name}.parquet")
    kind, pieces = find_pieces(tmp_path, None)
    assert columns_of(kind, pieces).schema.field("v").type == pa.int64()


def test_a_plan_that_travelled_as_text_is_the_same(folder):
    plan = plan_events(folder, None, ["v"], 2, where=hw.col("time") > 1)
    again = ReadPlan.from_text(plan.to_text())
    rows = [row for task in range(2) for batch in again.events(task) for row in batch.to_pylist()]
    assert sorted(row["v"] for row in rows) == [1, 2, 3, 3]


def test_leaves_and_a_root_give_the_rows_of_the_windows(folder):
    plan = plan_queries(folder, [LOAD], None, 2, True)
    assert plan.root is not None
    rows = [row for table in closed(plan.root, frames(plan), flush=True) for row in table.to_pylist()]
    assert [(row["window_start"], row["total"]) for row in rows] == [(0, 9), (10, 3)]


def test_accounts_say_what_became_of_events(folder):
    plan = plan_queries(folder, [LOAD], None, 1, True)
    assert plan.root is not None
    (table,) = closed(plan.root, frames(plan), flush=True, output="accounts")
    (account,) = table.to_pylist()
    assert (account["in"], account["member"], account["late"]) == (6, 6, 0)


def test_frames_come_out_in_the_order_of_their_positions(folder):
    plan = plan_queries(folder, [LOAD], None, 1, True)
    sent = frames(plan)
    assert [bytes(frame) for *_, frame in in_order(reversed(sent))] == [bytes(frame) for *_, frame in in_order(sent)]


def test_a_frame_that_is_missing_is_a_bug(folder):
    sent = frames(plan_queries(folder, [LOAD], None, 1, True))
    with pytest.raises(hw.HeadwaterError, match="have no predecessor; this is a bug in headwater; please report it"):
        list(in_order(sent[1:]))


def test_only_queries_with_keys_have_several_roots():
    keyed = hw.query("by", hw.tumbling(10), keys=["house"], n=hw.count())
    assert [root_count([LOAD], 8), root_count([keyed], 8), root_count([keyed], 100)] == [1, 8, 32]


def test_a_query_of_a_missing_column_is_refused_before_any_job(folder):
    with pytest.raises(hw.QueryError, match="missing"):
        plan_queries(folder, [hw.query("q", hw.tumbling(10), total=hw.sum("missing"))], None, 1, True)


def test_a_leaf_without_sources_says_hello_and_no_more(folder):
    plan = plan_queries(folder, [LOAD], None, 1, True)
    assert plan.root is not None
    feed = SourceFeed("a", "a", [])
    sent = list(LeafTask(plan.root, 0, [("a", "a")]).run([feed], flush=False))
    assert [batch.column("position").to_pylist() for batch in sent] == [[0]]
