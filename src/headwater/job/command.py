"""What the command line does with a job file: check it, say what would run, run it, and end with a code for scripts."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from headwater.engine.placement import explain
from headwater.errors import HeadwaterError
from headwater.job.file.job_file import JobFile, load_job
from headwater.job.file.problems import JobError
from headwater.job.interrupts import stopped_by_signals
from headwater.job.opening import HostChoice, HostName, choose_host, open_job
from headwater.job.progress import Show
from headwater.job.sinks import build_sinks
from headwater.job.sources import time_arguments
from headwater.job.summary import RunSummary
from headwater.spark.setup import SetupError
from headwater.spark.streaming.inputs.input import Input
from headwater.spark.streaming.sinks.timeline import OtherStreamError

#: Exit codes: done, failed on the way, or never begun because the file or the setup is wrong.
DONE, FAILED, WRONG = 0, 1, 2


def first_file() -> str:
    """A job file to begin with: what `headwater init` writes."""
    return files("headwater.job.file").joinpath("template.yaml").read_text(encoding="utf-8")


def run_job(
    path: str | Path,
    *,
    once: bool = False,
    check_only: bool = False,
    on: HostName | None = None,
    is_submitted: bool = False,
    show: Show | None = None,
) -> int:
    """Run the job of a file to its end; the exit code. What is wrong is said on standard error, one sentence a line."""
    show = show or Show()
    folder = str(Path(path).absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # modules beside the file: users' own aggregates and generators
    with TemporaryDirectory(prefix="headwater-look-", ignore_cleanup_errors=True) as kept:
        try:
            file = load_job(path)
            host = HostChoice("spark") if is_submitted and on is None else choose_host(file, on)
            opened = open_job(file, host, Path(kept))
        except JobError as error:
            show.say(str(error))
            return WRONG
        except SetupError as error:
            show.say(f"{path}: this job needs Spark, which cannot start here: {error}")
            return WRONG
        if host.note:
            show.say(host.note)
        if check_only:
            print(plan_text(file, host))
            return DONE
        return _run(file, host, opened, once or _is_once(file), is_submitted, show)


def _is_once(file: JobFile) -> bool:
    """Whether the file itself says that what is there now is all."""
    return "".join(filter(str.isalpha, file.job.trigger or "")).lower() == "availablenow"


def _run(file: JobFile, host: HostChoice, opened: Input, once: bool, is_submitted: bool, show: Show) -> int:
    try:
        with stopped_by_signals() as stopping:
            if host.name == "engine":
                from headwater.job.on_engine import run_on_engine

                done = run_on_engine(file, opened, build_sinks(file), once=once, show=show, stopping=stopping)
            else:
                done = _on_spark(file, opened, once, is_submitted, show)
    except JobError as error:
        show.say(str(error))
        return WRONG
    except (HeadwaterError, OSError) as error:
        show.say(f"{file.path}: the job has failed: {error}{_way_on(file, error)}")
        return FAILED
    except KeyboardInterrupt:
        show.say(f"{file.path}: the job was broken off")
        return FAILED
    print(done.text())
    return DONE


def _way_on(file: JobFile, error: Exception) -> str:
    """What else can be done about a sink that has rows of an earlier run."""
    if not isinstance(error, OtherStreamError) or file.job.checkpoint is not None:
        return ""
    return (
        ". A run without a checkpoint is a stream of its own: give the job one, and later runs go on in the same sinks"
    )


def _on_spark(file: JobFile, opened: Input, once: bool, is_submitted: bool, show: Show) -> RunSummary:
    from headwater.job.on_spark import event_size, run_on_spark, session_of

    show.say("Starting Spark ...")
    size = event_size(opened, file.queries, time_arguments(file.job)[0])
    spark = session_of(file, is_submitted=is_submitted)
    # Spark has its own handler of Ctrl-C, so ours comes behind it.
    with nullcontext(spark) if is_submitted else spark, stopped_by_signals() as stopping:
        return run_on_spark(file, spark, once=once, show=show, stopping=stopping, event_bytes=size)


def plan_text(file: JobFile, host: HostChoice) -> str:
    """What a run would do, for `--check`."""
    where = "in this process" if host.name == "engine" else "on Spark"
    count = len(file.queries)
    head = f"{file.path} is in order: {count} {'query' if count == 1 else 'queries'} {where}"
    sinks = [f"  {name} -> {_target_text(target)}" for name, target in file.job.sinks.items()]
    return "\n".join([head, str(explain(file.queries)), "rows go to", *sinks])


def _target_text(target: object) -> str:
    if isinstance(target, str):
        return target
    shown = [
        f"{name}: {getattr(target, name)}"
        for name in ("path", "servers", "topic", "name", "table")
        if hasattr(target, name)
    ]
    return " ".join([type(target).__struct_config__.tag, f"({', '.join(shown)})" if shown else ""]).strip()  # type: ignore[attr-defined]
