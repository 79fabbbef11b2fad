"""Jobs in this process, against what the engine gives for all events at once."""

import datetime
import os
import signal
import threading

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater.generator import SmartHome
from headwater.job.command import DONE, FAILED, WRONG, first_file, run_job
from headwater.logs import Log
from waiting import wait_until

BEGIN = datetime.datetime(2026, 1, 1, 6, tzinfo=datetime.UTC)
QUERIES = """\
queries:
  - name: load
    window: {type: tumbling, size: 10 s}
    keys: [house]
    aggregates: {total: {function: sum, column: load}}
  - name: active
    window: {type: session, gap: 5 s}
    aggregates: {n: {function: count}}
"""
SINKS = """\
sinks:
  load: out/load
  active: out/active
  aside: out/aside
"""


def events(first, count, step=1):
    times = [BEGIN + datetime.timedelta(seconds=first + step * number) for number in range(count)]
    loads = [float(number % 7) for number in range(count)]
    return pa.table(
        {"at": pa.array(times, pa.timestamp("us", "UTC")), "house": ["a", "b"] * (count // 2), "load": loads}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    return tmp_path


def rows(path):
    """The rows of a folder, in an order of their own."""
    found = ds.dataset(path, format="parquet", ignore_prefixes=["_", "."]).to_table().to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


def expected(table, name, **settings):
    job = hw.from_yaml(f"headwater: 1\n{QUERIES}")
    found = hw.run(table, job, **{"time": "at", "disorder": "0 s", **settings})[name].to_pylist()
    return sorted(found, key=lambda row: [str(value) for value in row.values()])


def run(folder, text, **options):
    (folder / "job.yaml").write_text(text)
    return run_job("job.yaml", once=True, **options)


def test_a_folder_is_read_to_its_end_and_flushed(folder, capsys):
    first, second = events(0, 40), events(40, 20)
    pq.write_table(first, folder / "events" / "1.parquet")
    pq.write_table(second, folder / "events" / "2.parquet")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{SINKS}") == DONE
    whole = pa.concat_tables([first, second])
    assert rows("out/load") == expected(whole, "load")
    assert rows("out/active") == expected(whole, "active")
    said = capsys.readouterr().out
    assert "60 events in" in said
    assert "did not travel" in said


def test_what_is_kept_at_the_end_does_not_come_out(folder):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\nend: keep\n{QUERIES}{SINKS}") == DONE
    last = BEGIN + datetime.timedelta(seconds=39)
    assert rows("out/load") == [row for row in expected(events(0, 40), "load") if row["window_end"] <= last]
    assert list((folder / "out" / "active").glob("*.parquet")) == []


def test_files_of_a_list_are_sources_of_their_own_in_which_nothing_is_late(folder):
    early, late = events(0, 20), events(0, 20, step=3)
    pyarrow.csv.write_csv(early, folder / "events" / "b.csv")
    pyarrow.csv.write_csv(late, folder / "events" / "a.csv")
    source = "{type: files, paths: ['events/*.csv']}"
    assert run(folder, f"headwater: 1\nsource: {source}\ntime: at\n{QUERIES}{SINKS}") == DONE
    # One table of both, in which everything may be out of order.
    whole = pa.concat_tables([early, late])
    totals = [(row["window_start"], row["house"], row["total"]) for row in rows("out/load")]
    assert sorted(totals) == sorted(
        (row["window_start"], row["house"], row["total"]) for row in expected(whole, "load", disorder="1 h")
    )


def test_a_single_file_is_a_source(folder):
    pq.write_table(events(0, 40), folder / "one.parquet")
    assert run(folder, f"headwater: 1\nsource: one.parquet\ntime: at\n{QUERIES}{SINKS}") == DONE
    assert rows("out/load") == expected(events(0, 40), "load")


def test_a_segment_log_is_a_source(folder):
    log = Log.create(folder / "log", partition_count=1, time="at")
    with log.writer(0) as writer:
        writer.append(events(0, 40).combine_chunks().to_batches()[0], 0)
    assert run(folder, f"headwater: 1\nsource: {{type: log, path: log}}\ntime: at\n{QUERIES}{SINKS}") == DONE
    assert rows("out/load") == expected(events(0, 40), "load")


def test_generators_are_read_to_their_end(folder):
    text = first_file().replace("seconds: 600", "seconds: 90").replace("rate: 500", "rate: 50")
    assert run(folder, text) == DONE
    homes = SmartHome(houses=20, rate=50, seconds=90, late_share=0.02, seed=7).sources(2)
    job = hw.from_yaml("headwater: 1\n" + text[text.index("queries:") : text.index("# A place for")])
    engine = hw.Engine(job, time=hw.epoch("time", "us"), disorder="5 s")
    for number, _ in enumerate(homes):
        engine.join(f"{number:05d}")
    for number, home in enumerate(homes):
        engine.push(home.table(), f"{number:05d}")
    engine.flush()
    results = engine.results()
    for name in ("load", "active"):
        found = sorted(results[name].to_pylist(), key=lambda row: [str(value) for value in row.values()])
        assert rows(f"headwater-job/{name}") == found, name


def test_events_that_are_late_go_aside(folder):
    pq.write_table(pa.concat_tables([events(0, 40), events(0, 2)]), folder / "events" / "1.parquet")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{SINKS}") == DONE
    aside = rows("out/aside")
    assert {row["query"] for row in aside} == {"load", "active"}
    assert len([row for row in aside if row["query"] == "load"]) == 2


def test_gathered_rows_are_one_file(folder):
    for number in range(3):
        pq.write_table(events(40 * number, 40), folder / "events" / f"{number}.parquet")
    sinks = SINKS.replace("load: out/load", "load: {type: folder, path: out/load, every: 1 h}")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{sinks}") == DONE
    assert len(list((folder / "out" / "load").glob("*.parquet"))) == 1


def test_rows_of_an_earlier_run_are_neither_added_to_nor_lost_in_silence(folder, capsys):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    text = f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{SINKS}"
    assert run(folder, text) == DONE
    before = rows("out/load")
    assert run(folder, text) == WRONG
    assert "job.yaml:13:9: sinks.load: " in capsys.readouterr().err
    replaced = text.replace("load: out/load", "load: {type: folder, path: out/load, replace: true}")
    replaced = replaced.replace("active: out/active", "active: out/again").replace(
        "aside: out/aside", "aside: out/beside"
    )
    assert run(folder, replaced) == DONE
    assert rows("out/load") == before


def test_a_folder_with_anything_else_in_it_is_not_replaced(folder, capsys):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    (folder / "out" / "load").mkdir(parents=True)
    (folder / "out" / "load" / "thesis.tex").write_text("x")
    sinks = SINKS.replace("load: out/load", "load: {type: folder, path: out/load, replace: true}")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{sinks}") == WRONG
    assert "holds 'thesis.tex', which no run has written" in capsys.readouterr().err
    assert (folder / "out" / "load" / "thesis.tex").exists()


def test_the_console_is_a_sink(folder, capsys):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    sinks = SINKS.replace("active: out/active", "active: console")
    assert run(folder, f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{sinks}") == DONE
    assert "active: 1 rows\n" in capsys.readouterr().out


def test_strict_jobs_fail_with_one_sentence(folder, capsys):
    (folder / "events" / "1.csv").write_text("at,house,load\n2026-01-01T06:00:00,a,1.5\n2026-01-01T06:00:01,a,much\n")
    types = "{type: folder, path: events, types: {load: double}}"
    assert run(folder, f"headwater: 1\nsource: {types}\nstrict: true\ntime: at\n{QUERIES}{SINKS}") == FAILED
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("job.yaml: the job has failed: ")


def test_a_checkpoint_is_refused_in_this_process(folder, capsys):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    text = f"headwater: 1\nsource: events\ntime: at\ncheckpoint: state\n{QUERIES}{SINKS}"
    assert run(folder, text, on="engine") == WRONG
    assert capsys.readouterr().err == (
        "job.yaml:4:13: checkpoint: a run in this process keeps nothing for the next one; run it with --on spark, or leave "
        "checkpoint out\n"
    )


def test_a_run_goes_on_as_files_come_until_it_is_stopped(folder):
    pq.write_table(events(0, 40), folder / "events" / "1.parquet")
    (folder / "job.yaml").write_text(f"headwater: 1\nsource: events\ntime: at\n{QUERIES}{SINKS}")

    def later():
        wait_until(
            lambda: (folder / "out" / "load").is_dir() and any((folder / "out" / "load").glob("*.parquet")),
            "rows of the first file",
        )
        pq.write_table(events(40, 40), folder / "events" / ".2.parquet")
        (folder / "events" / ".2.parquet").rename(folder / "events" / "2.parquet")
        wait_until(lambda: len(list((folder / "out" / "load").glob("*.parquet"))) == 2, "rows of the second")
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=later)
    other.start()
    assert run_job("job.yaml") == DONE
    other.join()
    assert rows("out/load") == expected(pa.concat_tables([events(0, 40), events(40, 40)]), "load")
