"""A driver of its own, for `kills.py`: a stream that goes on where it was, and dies where it is told to.

The methods at whose end it dies are wrapped here; headwater itself knows nothing of it. To die is kill -9 of its whole process
group, Spark's JVM included: nothing is closed and nobody is told.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import headwater as hw
from headwater.spark.streaming import runner
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.errors import EndedError
from headwater.spark.streaming.host import RootHost
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import FolderSink, LogSink
from headwater.spark.streaming.start.query_changes import running_queries
from spark.cluster_job import session
from waiting import wait_for_events, wait_until

STEPS = ("read", "compute", "rows", "state", "directive", "commit")
DISORDER = 6
#: A life that makes no progress is a mistake.
LIFE_SECONDS_MAX = 600
QUERIES = [
    hw.query("mean", hw.sliding(20, 10), keys=["house"], mean=hw.avg("load"), n=hw.count()),
    hw.query("rests", hw.session(8), keys=["house"], total=hw.sum("load"), ends=hw.last("note")),
    hw.query("middle", hw.tumbling(30), mid=hw.median("load"), different=hw.count_distinct("note")),
    hw.query("sevens", hw.count_tumbling(7), notes=hw.collect("note")),
    hw.query("forties", hw.count_sliding(40, 25), total=hw.sum("load"), n=hw.count()),
    hw.query("work", hw.punctuated(hw.col("note") == "go"), keys=["house"], top=hw.max("load")),
]
#: Added when this share of the events is in.
LATER = hw.query("later", hw.sliding(15, 5), keys=["house"], n=hw.count(), top=hw.max("load"))
LATER_AT = 0.3


@dataclass(frozen=True)
class Job:
    """What runs, the same in all lives of its driver."""

    master: str
    folder: str
    sink: str  # "folder" or "log"
    root: str
    total: int
    batch_events: int
    count_scheme: str = "async"
    every: str | None = None  # for how long folders gather rows

    @property
    def place(self) -> Path:
        return Path(self.folder)

    def to_text(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Death:
    """Behind which step to die, in which batch of this life; that a stream begins counts as its first."""

    step: str
    batch: int = 1


def main(job: Job, death: Death | None) -> None:
    with kept_alive(job) as spark:
        spark.sparkContext.setLogLevel("OFF")
        if death is not None:
            arm(death, job)
        try:
            stream = start(spark, job)
        except EndedError:
            # It died when all was done.
            known = StreamCheckpoint(job.place / "checkpoint" / "headwater")
            write_counters(job, known.said(known.last_batch()).status)
            return
        wait_for_events(stream, int(job.total * LATER_AT), seconds=LIFE_SECONDS_MAX)
        if LATER.name not in running_queries(StreamCheckpoint(job.place / "checkpoint" / "headwater")):
            stream.add_query(LATER)
        wait_for_events(stream, job.total, seconds=LIFE_SECONDS_MAX)
        if not stream.is_finished:
            stream.flush(timeout=LIFE_SECONDS_MAX)
        stream.stop()
        write_counters(job, stream.progress)


def write_counters(job: Job, status) -> None:
    (job.place / "counters.json").write_text(json.dumps(status["counters"]))


def kept_alive(job: Job):
    # Executors die here all the time; that is no reason to give up.
    patient = {"spark.task.maxFailures": "20", "spark.deploy.maxExecutorRetries": "-1"}
    return session(job.master, job.place, **patient)


def start(spark, job: Job):
    place = job.place
    # A stream that has begun knows its queries, with those that were added.
    has_begun = StreamCheckpoint(place / "checkpoint" / "headwater").about() is not None
    return hw.stream(
        spark,
        place / "in",
        None if has_begun else QUERIES,
        checkpoint=place / "checkpoint",
        sink=FolderSink(place / "rows", every=job.every) if job.sink == "folder" else LogSink(place / "rows"),
        aside=FolderSink(place / "aside", every=job.every),
        disorder=DISORDER,
        max_events_per_trigger=job.batch_events,
        root=job.root,
        count_scheme=job.count_scheme,
    )


# --- how it dies ---


def die() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def arm(death: Death, job: Job) -> None:
    """Die behind a step. Roots in tasks write their states before the driver has their rows: for it both are one step."""
    left = [death.batch]

    def reached() -> None:
        left[0] -= 1
        if not left[0]:
            die()

    def before(owner, name: str) -> None:
        inner = getattr(owner, name)

        def wrapped(*args, **named):
            reached()
            return inner(*args, **named)

        setattr(owner, name, wrapped)

    def after(owner, name: str) -> None:
        inner = getattr(owner, name)

        def wrapped(*args, **named):
            found = inner(*args, **named)
            reached()
            return found

        setattr(owner, name, wrapped)

    on_driver = job.root == "driver"
    if death.step == "read":
        # What the leaves sent is there when the root is called; the roots in tasks are called when a batch is planned.
        before(RootHost if on_driver else runner, "run" if on_driver else "reduced")
    elif death.step == "compute":
        after(BatchRunner, "_computed")
    elif death.step == "rows":
        after(*((FolderSink, "write_after") if job.sink == "folder" else (LogSink, "write")))
    elif death.step == "state":
        after(RootHost, "save_state") if on_driver else after(runner, "joint")
    elif death.step == "directive":
        after(StreamCheckpoint, "commit")
    else:
        threading.Thread(target=die_at_commit, args=(job.place / "checkpoint" / "spark", death.batch)).start()


def die_at_commit(checkpoint: Path, batch: int) -> None:
    """Spark's own word that a batch is over is a file."""

    def commits() -> int:
        return len([name for name in listed(checkpoint / "commits") if name.isdigit()])

    until = commits() + batch
    wait_until(lambda: commits() >= until, "Spark has committed", seconds=LIFE_SECONDS_MAX, nap_seconds=0.001)
    die()


def listed(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])), Death(**json.loads(sys.argv[2])) if sys.argv[2] != "-" else None)
