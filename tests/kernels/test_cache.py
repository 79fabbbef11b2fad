"""Compiled kernels on disk: read wherever they can be, written where somebody may write, never stale."""

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headwater.kernels import cache

SOURCE = Path(__file__).parent.parent.parent / "src" / "headwater"
INNER = "from headwater.base.jit import njit\nSTEP = 1\n\n@njit\ndef step(x):\n    return x + STEP\n"
OUTER = (
    "from headwater.base.jit import njit\nfrom {inner} import step\n\n@njit\ndef twice(x):\n    return step(step(x))\n"
)
OUTER_BY_MODULE = (
    "import {inner} as steps\nfrom headwater.base.jit import njit\n\n"
    "@njit\ndef twice(x):\n    return steps.step(steps.step(x))\n"
)
#: A first query; and how many kernels were compiled, and read.
FIRST_QUERY = """
import headwater as hw, pyarrow as pa
rows = hw.run(pa.table({"time": [1, 2, 11]}), [hw.query("load", hw.tumbling(10), count=hw.count())])
print(rows["load"].column("count").to_pylist())
"""
ONE_KERNEL = """
import numpy as np
from headwater.engine.slices.slicer import slice_bounds
slice_bounds(np.arange(4), np.array([0, 2]))
"""
STATS = """
from headwater.kernels.cache import KERNELS
stats = [kernel.stats for kernel in KERNELS.values()]
print(sum(sum(s.cache_misses.values()) for s in stats), sum(sum(s.cache_hits.values()) for s in stats))
"""
#: Below a file there can be no folder, whoever asks for one.
NOWHERE = f"{os.devnull}/nowhere"


def python(program: str, path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A fresh process without a home that has headwater from ``path`` alone."""
    known = {"PATH": os.environ["PATH"], "HOME": NOWHERE, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=known | environ,
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def copied(tmp_path):
    """The package in a folder of its own, without compiled kernels, in which none can be kept: where they would be is a file."""
    target = tmp_path / "installed" / "headwater"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    return target.parent


def test_import_and_first_query_work_where_no_folder_can_be_written_and_there_is_no_home(copied):
    done = python(FIRST_QUERY + STATS, copied)
    rows, stats = done.stdout.splitlines()
    assert rows == "[2, 1]"
    compiled, read = map(int, stats.split())
    assert compiled and not read
    (line,) = done.stderr.splitlines()
    assert "compiling kernels in memory" in line
    assert "NUMBA_CACHE_DIR" in line
    assert "headwater warm" in line


def test_kernels_of_a_zip_are_kept_where_numba_cache_dir_says(tmp_path):
    archive = tmp_path / "headwater.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted(SOURCE.rglob("*.py")):
            packed.write(file, Path("headwater", file.relative_to(SOURCE)))
    kept = str(tmp_path / "kept")
    found = [python(ONE_KERNEL + STATS, archive, NUMBA_CACHE_DIR=kept) for _ in range(2)]
    (compiled, read), (again, read_again) = (map(int, each.stdout.split()) for each in found)
    assert compiled
    assert (read, again) == (0, 0)
    assert read_again
    assert [each.stderr for each in found] == ["", ""]


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Two modules with a kernel each, the second calls the first; a function that loads them as a new process would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    # No two tests may share a module's name: Python and numba remember them.
    inner, outer = (f"{name}_{abs(hash(tmp_path)):x}" for name in ("inner", "outer"))
    known = dict(cache.KERNELS)

    def load(source: str = INNER, caller: str = OUTER):
        for name, text in ((inner, source), (outer, caller.format(inner=inner))):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        cache._source.cache_clear()
        return importlib.import_module(outer).twice

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield load
    cache.KERNELS.clear()
    cache.KERNELS.update(known)
    for name in (inner, outer):
        sys.modules.pop(name, None)


def test_what_one_process_compiled_the_next_reads(kernels):
    first = kernels()
    assert (first(1), sum(first.stats.cache_misses.values())) == (3, 1)
    second = kernels()
    assert (second(1), sum(second.stats.cache_misses.values())) == (3, 0)
    # Other types are another form.
    assert (second(1.5), sum(second.stats.cache_misses.values())) == (3.5, 1)
    assert kernels()(1.5) == 3.5


@pytest.mark.parametrize("caller", [OUTER, OUTER_BY_MODULE], ids=["by name", "by module"])
@pytest.mark.parametrize("change", ["return x + STEP", "STEP = 1"])
def test_a_kernel_is_not_stale_when_one_it_calls_in_another_file_has_changed(kernels, change, caller):
    assert kernels(caller=caller)(1) == 3
    changed = INNER.replace(change, change.replace("x +", "x + 9 *").replace("= 1", "= 9"))
    assert kernels(changed, caller)(1) == 19


def test_a_damaged_file_is_compiled_again(kernels):
    first = kernels()
    first(1)
    for file in first._cache.files():
        Path(file).write_bytes(b"\x80\x05damaged")
    second = kernels()
    assert (second(1), sum(second.stats.cache_misses.values())) == (3, 1)
    third = kernels()
    assert (third(1), sum(third.stats.cache_misses.values())) == (3, 0)


def test_what_an_image_brought_is_read_though_nobody_can_write_there_and_the_rest_is_kept_at_home(
    kernels, tmp_path, monkeypatch
):
    first = kernels()
    first(1)
    write = cache._replace

    def refuse(path, data):
        if "home" not in path:
            raise PermissionError(path)
        write(path, data)

    monkeypatch.setattr(cache, "_replace", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    second = kernels()
    assert (second(1), second(1.5)) == (3, 3.5)
    assert sum(second.stats.cache_misses.values()) == 1
    assert any("home" in file for file in second._cache.files())
    assert (kernels()(1), kernels()(1.5)) == (3, 3.5)


def test_without_a_home_nothing_is_kept_in_a_folder_named_like_a_tilde(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.folders("/somewhere.zip/headwater/base/jit.py") == []
