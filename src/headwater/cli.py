"""The command line. Each command imports what it needs only when it runs: not everyone has the benchmarks' libraries."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from headwater.simulator.runner import Options

app = typer.Typer(
    name="headwater",
    help="Windows computed where the data is born: any number of window queries over a stream in one pass.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
bench = typer.Typer(help="Measure headwater.", no_args_is_help=True)
app.add_typer(bench, name="bench")
simulate = typer.Typer(help="Run nodes in a simulated world, with every fault.", no_args_is_help=True)
app.add_typer(simulate, name="simulate")
replay = typer.Typer(help="Show a simulated run step by step.", no_args_is_help=True)
app.add_typer(replay, name="replay")

Quick = Annotated[
    bool, typer.Option("--quick", help="A smoke run on a tenth of the events; its figures are marked as quick.")
]
Leaves = Annotated[int, typer.Option(min=1, help="How many leaves the tree has.")]
Nodes = Annotated[int, typer.Option(min=1, help="How many nodes there are.")]
Partitions = Annotated[int, typer.Option(min=1, help="How many partitions the input has.")]
LeavesMax = Annotated[int, typer.Option("--leaves", min=1, help="How many leaves a run has at most.")]
Height = Annotated[int, typer.Option(min=1, help="How many links lie between a leaf and the root; 1: no relays.")]
FaultNames = Annotated[str, typer.Option("--faults", help="all, none, or some of them: loss,crash,...")]
StreamFaultNames = Annotated[str, typer.Option("--faults", help="all, none, or some of them: crash,power,pause,...")]
Plant = Annotated[str | None, typer.Option(help="Make a known mistake, to see it found.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of the run.")]
Seeds = Annotated[str, typer.Option(help="A range of seeds, such as 0..500, or one.")]
Processes = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes; as many as there are cores by default.")
]
Seconds = Annotated[float | None, typer.Option(min=0, help="Begin no new run after this many seconds.")]
OneNode = Annotated[str | None, typer.Option("--node", help="Only the steps of this node.")]
LastSteps = Annotated[int | None, typer.Option("--last", min=1, help="Only this many steps, the last ones.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per figure and line instead of a table.")]
Plots = Annotated[Path | None, typer.Option(file_okay=False, help="Draw the figures into this folder.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from headwater import __version__

        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Windows computed where the data is born: any number of window queries over a stream in one pass."""


class HostName(StrEnum):
    """What runs the cases of ``headwater check``."""

    reference = "reference"
    engine = "engine"
    tree = "tree"
    spark = "spark"
    spark_stream = "spark-stream"


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="Case files (JSON).")],
    on: Annotated[HostName, typer.Option(help="What runs the cases.")] = HostName.engine,
) -> None:
    """Run test cases and compare every result row with the expected ones."""
    from headwater.cases import check_files
    from headwater.spark.setup import SetupError

    try:
        raise typer.Exit(check_files(files, on.value))
    except SetupError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Queries as JSON or YAML.")],
) -> None:
    """Say for each query where it is computed over a tree of nodes, what travels for it, and why."""
    from headwater import explain, load

    typer.echo(str(explain(load(file))))


@app.command()
def init() -> None:
    """Write a job file to begin with, commented, to standard output: headwater init > job.yaml"""
    from headwater.job.command import first_file

    typer.echo(first_file(), nl=False)


class JobHost(StrEnum):
    """What runs a job."""

    engine = "engine"
    spark = "spark"


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="A job file (YAML): see headwater init.")],
    once: Annotated[bool, typer.Option("--once", help="All that is there now, and stop.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check, and say what would run.")] = False,
    on: Annotated[
        JobHost | None,
        typer.Option(help="This process, or Spark; by default Spark if the file has a checkpoint or speaks of it."),
    ] = None,
) -> None:
    """Run a job file: a source, window queries, sinks. Exit code 0: done, 1: failed, 2: the file or the setup is wrong."""
    from headwater.job.command import run_job

    raise typer.Exit(run_job(file, once=once, check_only=check, on=None if on is None else on.value))


@app.command()
def schema() -> None:
    """Print the JSON Schema of job files, by which editors complete and check them."""
    from headwater.job.file.json_schema import schema_text

    typer.echo(schema_text(), nl=False)


@app.command("job-script")
def job_script() -> None:
    """Print the path of the program that runs a job under spark-submit: spark-submit $(headwater job-script) job.yaml"""
    from importlib.util import find_spec

    found = find_spec("headwater.job.submit")
    typer.echo(found.origin if found is not None else "")


@app.command()
def warm() -> None:
    """Compile all kernels ahead, so that no first query waits for them: when an image is made, or after an upgrade."""
    import time

    from headwater.warm import warm

    began = time.monotonic()

    def show(what: str, number: int, count: int) -> None:
        typer.echo(f"[{number + 1}/{count}] {time.monotonic() - began:4.0f} s  {what}", err=True)

    done = warm(show)
    typer.echo(done.text())
    raise typer.Exit(0 if done.is_complete else 1)


@app.command()
def upgrade(
    log: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A segment log of version 1.")],
) -> None:
    """Give a segment log of version 1 an identity, so that it can be written again; its rows stay as they are."""
    from headwater.errors import HeadwaterError
    from headwater.logs import Log

    try:
        typer.echo(f"{log}: the log is {Log.open(log).upgrade().id}")
    except HeadwaterError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error


class DemoHost(StrEnum):
    """What runs the demo."""

    spark = "spark"
    engine = "engine"


@app.command()
def demo(
    on: Annotated[
        DemoHost, typer.Option(help="What runs it: Spark on this machine, or the engine alone.")
    ] = DemoHost.spark,
    events: Annotated[int | None, typer.Option(min=1, help="How many events to generate, about.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same events.")] = 7,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Where Spark leaves the rows; beside it is a page of them.")
    ] = Path("headwater-demo"),
) -> None:
    """Run window queries of every kind over generated smart-home events."""
    from headwater.demo import engine
    from headwater.demo.html_page import page_of
    from headwater.errors import DataError
    from headwater.spark.setup import SetupError

    if on is DemoHost.spark:
        from headwater.demo import spark

        try:
            spark.run(out, events or spark.EVENTS, seed)
            return
        except DataError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(2) from error
        except SetupError as error:
            typer.echo(f"{error}. The demo runs on the engine alone instead.", err=True)
    engine.run(events or engine.EVENTS, seed, page=page_of(out))


class Bench(NamedTuple):
    """A benchmark: the module whose ``run`` measures it, what it is about, the libraries it needs, and whether it draws, or has
    parts of which one is measured."""

    module: str
    about: str
    needs: tuple[str, ...] = ()
    draws: bool = False
    has_parts: bool = False


BENCHES = {
    "engine": Bench(
        "headwater.bench.engine",
        "Measure the engine against its bounds and its peers: up to 15 minutes, up to 2 with --quick.",
        needs=("duckdb", "polars", "psutil"),
    ),
    "sharing": Bench(
        "headwater.bench.sharing",
        "Show what sharing brings: every mode of the engine with 1 to 1,000 queries, as in the Desis paper.",
        draws=True,
    ),
    "tree": Bench(
        "headwater.bench.tree.figures",
        "Measure what a tree of nodes sends and costs against its bounds: up to 8 minutes, one with --quick.",
        draws=True,
    ),
    "spark": Bench(
        "headwater.bench.spark.figures",
        "Measure windows on Spark against its own: up to 15 minutes, up to 3 with --quick. Needs Java.",
    ),
    "stream": Bench(
        "headwater.bench.stream.figures",
        "Measure streams on Spark against its own: up to 25 minutes, up to 4 with --quick. Needs Java.",
        needs=("psutil",),
    ),
    "deco": Bench(
        "headwater.bench.deco.figures",
        "Measure count windows over many nodes, every scheme in one run: up to 45 minutes, up to 3 with --quick.",
        needs=("zmq",),
        draws=True,
    ),
    "holon": Bench(
        "headwater.bench.holon.figures",
        "Measure nodes without a coordinator against their bounds: up to 10 minutes, one with --quick.",
        needs=("polars",),
        has_parts=True,
    ),
}


class HolonPart(StrEnum):
    """What ``headwater bench holon`` measures."""

    core = "core"


Part = Annotated[HolonPart, typer.Option(help="core: one process; what it costs, and what nodes tell each other.")]


def _measure(name: str, quick: bool, json: bool, **options: Any) -> None:
    made = BENCHES[name]
    _need(*made.needs, *(() if options.get("plots") is None else ("matplotlib",)))
    import sys
    from importlib import import_module

    from headwater.bench.common.report import Report
    from headwater.spark.setup import SetupError

    report = Report(name, quick=quick, as_json=json, steps=sys.stderr)
    try:
        import_module(made.module).run(report, **options)
    except SetupError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    report.close()


def _bench_command(name: str) -> Callable[..., None]:
    """What the command line calls for a benchmark; only those that draw take ``--plots``, those with parts ``--part``."""

    def measure(quick: Quick = False, json: Json = False) -> None:
        _measure(name, quick, json)

    def measure_and_draw(quick: Quick = False, json: Json = False, plots: Plots = None) -> None:
        _measure(name, quick, json, plots=plots)

    def measure_part(part: Part = HolonPart.core, quick: Quick = False, json: Json = False) -> None:
        _measure(name, quick, json, part=part.value)

    made = BENCHES[name]
    return measure_and_draw if made.draws else measure_part if made.has_parts else measure


for _name, _made in BENCHES.items():
    bench.command(_name, help=_made.about)(_bench_command(_name))


@simulate.command("tree")
def simulate_tree(
    leaves: Leaves = 16,
    height: Height = 3,
    seeds: Seeds = "0..100",
    faults: FaultNames = "all",
    plant: Plant = None,
    jobs: Processes = None,
    seconds: Seconds = None,
) -> None:
    """Random queries, streams and faults over a tree; every row is compared with the reference."""
    _simulate(_run_options("tree", 0, leaves, height, faults, plant), seeds, jobs, seconds)


@simulate.command("count-windows")
def simulate_count_windows(
    leaves: LeavesMax = 8,
    seeds: Seeds = "0..100",
    faults: FaultNames = "all",
    plant: Plant = None,
    jobs: Processes = None,
    seconds: Seconds = None,
) -> None:
    """Count windows over many nodes, in all schemes; every row, and which events it holds, is compared with the reference."""
    _simulate(_run_options("count-windows", 0, leaves, 1, faults, plant), seeds, jobs, seconds)


@simulate.command("stream")
def simulate_stream(
    seeds: Seeds = "0..100",
    faults: StreamFaultNames = "all",
    plant: Plant = None,
    jobs: Processes = None,
    seconds: Seconds = None,
) -> None:
    """The loop of hw.stream without Spark: drivers, disks, clocks, sources and sinks that fail; rows as in the reference."""
    _simulate(_run_options("stream", 0, 1, 1, faults, plant), seeds, jobs, seconds)


@simulate.command("holon")
def simulate_holon(
    nodes: Nodes = 5,
    partitions: Partitions = 8,
    seeds: Seeds = "0..100",
    faults: FaultNames = "all",
    plant: Plant = None,
    jobs: Processes = None,
    seconds: Seconds = None,
) -> None:
    """Nodes without a root that share an input, an output and decisions; the whole output is compared with the reference."""
    _simulate(_holon_options(0, nodes, partitions, faults, plant), seeds, jobs, seconds)


def _simulate(options: Options, seeds: str, jobs: int | None, seconds: float | None) -> None:
    import os

    from headwater.simulator.console import show_seeds
    from headwater.simulator.seeds import parse_seeds

    try:
        chosen = parse_seeds(seeds)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    raise typer.Exit(show_seeds(options, chosen, jobs or os.cpu_count() or 1, seconds))


@replay.command("tree")
def replay_tree(
    seed: Seed,
    leaves: Leaves = 16,
    height: Height = 3,
    faults: FaultNames = "all",
    plant: Plant = None,
    node: OneNode = None,
    last: LastSteps = None,
) -> None:
    """Run one seed again and show every step: the time, the node, what happened to it and what it asked for."""
    from headwater.simulator.console import show_run

    raise typer.Exit(show_run(_run_options("tree", seed, leaves, height, faults, plant), node, last))


@replay.command("count-windows")
def replay_count_windows(
    seed: Seed,
    leaves: LeavesMax = 8,
    faults: FaultNames = "all",
    plant: Plant = None,
    node: OneNode = None,
    last: LastSteps = None,
) -> None:
    """Run one seed of count windows again and show every step, with what the run has cost."""
    from headwater.simulator.console import show_run

    raise typer.Exit(show_run(_run_options("count-windows", seed, leaves, 1, faults, plant), node, last))


@replay.command("stream")
def replay_stream(
    seed: Seed,
    faults: StreamFaultNames = "all",
    plant: Plant = None,
    node: OneNode = None,
    last: LastSteps = None,
) -> None:
    """Run one seed of a stream again and show what happened: who ran, what struck, which batches were done."""
    from headwater.simulator.console import show_run

    raise typer.Exit(show_run(_run_options("stream", seed, 1, 1, faults, plant), node, last))


@replay.command("holon")
def replay_holon(
    seed: Seed,
    nodes: Nodes = 5,
    partitions: Partitions = 8,
    faults: FaultNames = "all",
    plant: Plant = None,
    node: OneNode = None,
    last: LastSteps = None,
) -> None:
    """Run one seed of nodes without a root again and show every step."""
    from headwater.simulator.console import show_run

    raise typer.Exit(show_run(_holon_options(seed, nodes, partitions, faults, plant), node, last))


def _holon_options(seed: int, nodes: int, partitions: int, faults: str, plant: str | None) -> Options:
    from dataclasses import replace

    return replace(_run_options("holon", seed, 1, 1, faults, plant), nodes=nodes, partitions=partitions)


def _run_options(scenario: str, seed: int, leaves: int, height: int, faults: str, plant: str | None) -> Options:
    from headwater.simulator.checks.counts import chosen_faults
    from headwater.simulator.plants.tree import find_plant
    from headwater.simulator.runner import Options

    if scenario == "stream":
        _need_pyspark()
    try:
        chosen_faults(faults, scenario)
        if plant is not None:
            find_plant(plant, scenario)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return Options(seed, leaves, height, faults, plant, scenario)


def _need_pyspark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        typer.echo(
            "The stream scenario needs pyspark (its Python classes, no Java). Install with: pip install 'headwater[spark-local]'",
            err=True,
        )
        raise typer.Exit(2)
    from headwater.spark.doors import check_installed
    from headwater.spark.setup import SetupError

    try:
        check_installed("hw.stream")
    except SetupError as error:
        typer.echo(f"The stream scenario runs the loop of hw.stream: {error}", err=True)
        raise typer.Exit(2) from None


def _need(*libraries: str) -> None:
    """Refuse with the way out when a library of the benchmarks is missing."""
    from importlib.util import find_spec

    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        typer.echo(f"This benchmark needs {', '.join(missing)}. Install with: pip install 'headwater[bench]'", err=True)
        raise typer.Exit(2)
