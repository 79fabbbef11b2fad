"""Imports point one way. This test reads them from the source and shows each line that crosses a layer.

A module may import modules of its own layer and of the layers listed for it, nothing above. ``engine`` and ``protocols``
know nothing of each other and touch nothing outside: no file, socket, clock, process or console.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "headwater"

#: The rooms of the engine in the order in which they are read: each may import those before it.
ENGINE = ("intake", "operators", "slices", "windows", "results", "groups", "wire", "front", "counting", "tree")
BELOW_ENGINE = frozenset({"language", "base"})

#: Each layer: its modules or folders (the longest name decides) and the layers below that it may import.
LAYERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "language": (frozenset({"errors", "language"}), frozenset()),
    # Keeps compiled kernels on disk, and says when some are compiled; no kernel can tell.
    "kernels": (frozenset({"kernels"}), frozenset()),
    # What every pure part stands on: compiled kernels, arrays, bytes.
    "base": (frozenset({"base"}), frozenset({"language", "kernels"})),
    # The oracle. It may be slow; it may not share code, and with it mistakes, with what it judges.
    "reference": (frozenset({"reference"}), frozenset({"language"})),
    **{
        f"engine.{room}": (
            frozenset({"engine" if room == "front" else f"engine.{room}"}),
            BELOW_ENGINE | {f"engine.{lower}" for lower in ENGINE[:index]},
        )
        for index, room in enumerate(ENGINE)
    },
    "protocols": (frozenset({"protocols"}), frozenset({"language", "base"})),
    "node": (frozenset({"node"}), frozenset({"language", "base", "engine", "protocols"})),
    # Files of Arrow batches; it knows nothing of windows. Hosts feed nodes from it, so no pure code may reach for it.
    "logs": (frozenset({"logs"}), frozenset({"language"})),
    # Shows what a host's board says; it knows no host, and nothing of how windows are made.
    "page": (frozenset({"page"}), frozenset({"language"})),
    "hosts": (
        frozenset({"spark", "edge", "simulator"}),
        frozenset({"language", "base", "engine", "protocols", "node", "reference", "logs", "page"}),
    ),
    # The host "this process", and the public names.
    "public": (
        frozenset({"__init__", "local", "testing"}),
        frozenset({"language", "base", "reference", "engine", "protocols", "node", "page"}),
    ),
    # Programs without a coordinator.
    "without_a_root": (
        frozenset({"holon"}),
        frozenset({"language", "base", "engine", "protocols", "node", "logs", "public"}),
    ),
    "tools": (
        frozenset({"cases", "generator", "demo", "bench", "job", "warm"}),
        frozenset(
            {
                "language",
                "base",
                "reference",
                "engine",
                "protocols",
                "node",
                "logs",
                "hosts",
                "public",
                "without_a_root",
            }
        ),
    ),
    "entry": (
        frozenset({"cli", "__main__"}),
        frozenset({"language", "logs", "hosts", "public", "without_a_root", "tools"}),
    ),
}

#: The few imports that may cross, each with its reason; those of headwater only when a function runs.
ALLOWED = {
    # The sketches are defined by their registers: a second implementation would only define a second sketch.
    ("reference.aggregates", "headwater.engine.operators.sketches"),
    # A state as a plain object computes, and is asked for where the state is described.
    ("language.functions.states", "headwater.holon.plain"),
    # What tests a function is with what tests aggregates, for users; it runs the function.
    ("testing", "headwater.holon.two_runners"),
    # The front door names what needs Spark, and opens it only when it is asked for.
    ("__init__", "headwater.spark.aggregate"),
    ("__init__", "headwater.spark.data_sources"),
    ("__init__", "headwater.spark.explain.explanation"),
    ("__init__", "headwater.spark.read"),
    ("__init__", "headwater.spark.result_rows"),
    ("__init__", "headwater.spark.shipped"),
    ("__init__", "headwater.spark.stream"),
    ("__init__", "headwater.spark.streaming.postgres.sink"),
    ("__init__", "headwater.spark.streaming.sinks.foreach_batch"),
    ("__init__", "headwater.spark.streaming.sinks.table"),
}

PURE = ("base", "engine", "protocols")
#: Libraries that act on the world, or tell the time of it.
WORLD = frozenset(
    """
    asyncio concurrent duckdb ftplib glob http logging multiprocessing os pandas pathlib polars psutil pyspark random requests
    rich select selectors shutil signal smtplib socket socketserver sqlite3 ssl subprocess sys tempfile threading time typer
    urllib yaml zmq
    pyarrow.csv pyarrow.dataset pyarrow.feather pyarrow.flight pyarrow.fs pyarrow.json pyarrow.orc pyarrow.parquet
    """.split()
)
WORLD_CALLS = frozenset({"open", "print", "input", "exec", "eval"})


class Import(NamedTuple):
    """One imported module, where it stands, and whether it is imported only when a function runs."""

    module: str
    line: int
    lazy: bool


def imports(tree: ast.Module, package: str) -> Iterator[Import]:
    """Every module that the source imports, by its full name; relative ones are resolved against ``package``."""
    lazy = {id(inner) for outer in ast.walk(tree) if is_lazy(outer) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, id(node) in lazy)
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] + "." if node.level else ""
            base = (parent + (node.module or "")).rstrip(".")
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, id(node) in lazy)


def is_lazy(node: ast.AST) -> bool:
    """Whether what stands in it runs only when a function does, or is for the types alone."""
    for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return for_types or isinstance(node, ast.FunctionDef)


def layer_of(module: str) -> str | None:
    """The layer of a module by its name below ``headwater``, by the longest name that is listed; None if there is none."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((layer for name in names for layer, (modules, _) in LAYERS.items() if name in modules), None)


def is_pure(layer: str) -> bool:
    """Whether modules of the layer may not touch the world."""
    return layer.split(".")[0] in PURE


def crossings(module: str, source: str) -> Iterator[tuple[int, str]]:
    """Line and reason of each import or call in ``source`` that ``module`` may not have."""
    layer = layer_of(module)
    if layer is None:
        yield 1, f"no layer lists {module!r}: say in LAYERS where it belongs"
        return
    tree = ast.parse(source)
    package = ".".join(["headwater", *module.split(".")[:-1]])
    for found in imports(tree, package):
        if not is_allowed(module, found) and (reason := crossing(layer, found.module)):
            yield found.line, reason
    if is_pure(layer):
        yield from world_calls(tree)


def crossing(layer: str, imported: str) -> str | None:
    """Why a module of ``layer`` may not import ``imported``; None if it may."""
    if imported.split(".")[0] != "headwater":
        acts = is_pure(layer) and any(f"{imported}.".startswith(f"{library}.") for library in WORLD)
        return f"{layer} is pure and may not import {imported}" if acts else None
    # A name that is no module is a public name of the package itself.
    target = layer_of(imported.removeprefix("headwater").lstrip(".")) or "public"
    if target == layer or LAYERS[layer][1] & {target, target.split(".")[0]}:
        return None
    return f"{layer} may not import {imported}, which belongs to {target}"


def is_allowed(module: str, found: Import) -> bool:
    """Whether ALLOWED lists this import, of the module itself or of a name in it."""
    listed = any((module, name) in ALLOWED for name in (found.module, found.module.rsplit(".", 1)[0]))
    return listed and (found.lazy or not found.module.startswith("headwater"))


def world_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Calls of the built-in functions that do I/O."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLD_CALLS:
            yield node.lineno, f"pure code may not call {node.func.id}()"


def test_imports_point_one_way():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        found += [
            f"{path.relative_to(SOURCE.parent.parent)}:{line}: {reason}\n    {lines[line - 1].strip() if lines else ''}"
            for line, reason in crossings(module, text)
        ]
    assert not found, "lines that cross a layer:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("engine.slices.slicer", "import socket"),
        ("engine.slices.slicer", "from pyarrow import parquet"),
        ("engine.slices.slicer", "import pyarrow.parquet as pq"),
        ("engine.slices.slicer", "from headwater.protocols import events"),
        ("engine.slices.slicer", "from headwater import reference"),
        ("engine.slices.slicer", "from ...bench import workload"),
        ("engine.slices.slicer", "import headwater"),
        ("engine.slices.slicer", "def late():\n    import time"),
        ("engine.slices.slicer", "def show(x):\n    print(x)"),
        ("protocols.election", "from headwater.engine.slices.store import SliceStore"),
        ("protocols.delta", "from headwater.logs import Log"),
        ("engine.slices.slicer", "from headwater.logs import Log"),
        ("logs.segment", "from headwater.engine.intake.chunk import Chunk"),
        ("reference.rows", "from headwater.engine.slices.slicer import cut"),
        ("language.query", "from headwater.engine import slicer"),
        ("language.query", "from headwater.base.arrays import Int64Array"),
        ("reference.rows", "from headwater.base.packing import Writer"),
        ("base.packing", "from headwater.engine.intake.chunk import Chunk"),
        ("base.packing", "import os"),
        ("engine.core", "import logging"),
        ("reference.aggregates", "from headwater.engine.operators.sketches import approx_distinct"),
        ("bench.engine", "from headwater.cli import app"),
        ("engine.slices.slicer", "from headwater.engine.windows.late import Stragglers"),
        ("engine.core", "from headwater.engine.tree.leaf import LeafHalf"),
        ("page.board", "from headwater.spark.streaming.watch.status import StreamStatus"),
        ("novelty", "import math"),
    ],
)
def test_a_line_that_crosses_is_shown(module, source):
    assert list(crossings(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("engine.slices.slicer", "import numpy as np\nimport pyarrow as pa\nfrom headwater.base.jit import njit"),
        ("engine.slices.slicer", "from headwater.language.windows import Sliding\nfrom . import chunk"),
        ("reference.rows", "from headwater.language import query"),
        ("base.jit", "from headwater.kernels.cache import keep\nfrom headwater.errors import FormatError"),
        ("kernels.cache", "import os"),
        ("protocols.delta", "from headwater.base.packing import Writer\nfrom headwater.base.jit import njit"),
        ("bench.engine", "import headwater as hw\nimport time"),
        ("reference.aggregates", "def f():\n    from headwater.engine.operators.sketches import approx_distinct"),
        ("engine.windows.late", "from headwater.engine.slices.slicer import cut"),
        ("engine.tree.leaf", "from headwater.engine.core import Core"),
        ("node.leaf", "from headwater.engine.tree.leaf import LeafHalf"),
        ("demo", "from headwater.generator import SmartHome"),
        ("edge.gateway", "from headwater.logs import Log"),
        ("logs.lock", "import fcntl, os, socket"),
    ],
)
def test_a_line_that_stays_in_its_layer_is_not_shown(module, source):
    assert list(crossings(module, source)) == []
