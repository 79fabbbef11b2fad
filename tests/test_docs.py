"""What a reader is pointed to exists: files and modules that pages, docstrings and comments name; pages that scripts write."""

import ast
import importlib.util
import io
import re
import runpy
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headwater"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
#: What is written down as history names files as they were.
HISTORY = {"CHANGELOG.md"}

FOLDERS = ("src", "tests", "docs", "scripts", "examples", ".ci")
FILES = [
    *(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))),
    *(path.name for path in sorted(ROOT.iterdir()) if path.is_file() or path.name in FOLDERS),
]
#: A path, or the name of a file as one meets it in prose; `native*.py` names several.
NAME = re.compile(r"[\w.*/-]+\.(?:py|md|txt|svg|toml|json|ya?ml)|[\w.-]+/(?:[\w.*-]+/)*")


def is_there(name: str) -> bool:
    """Whether some file or folder of the repository has this path, or a path that ends so."""
    wanted = name.rstrip("/")
    return any(fnmatch(path, wanted) or fnmatch(path, f"*/{wanted}") for path in FILES)


def named_files(page: str) -> Iterator[str]:
    """The files that a page names: what stands alone in backticks, outside of programs."""
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for span in re.findall(r"`([^`\n]+)`", prose):
        if NAME.fullmatch(span):
            yield span


def links(page: str) -> Iterator[str]:
    """Where a page's links lead, other sites aside."""
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" not in target:
            yield target


def named_modules(page: str) -> set[str]:
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return set(re.findall(r"`(headwater(?:\.\w+)+)[`(]", prose))


def can_be_imported(name: str) -> bool:
    """Whether this is a module, or something in one.

    >>> can_be_imported("headwater.reference"), can_be_imported("headwater.query"), can_be_imported("headwater.no.such")
    (True, True, False)
    """
    module, _, last = name.rpartition(".")
    return find_spec(name) is not None or (find_spec(module) is not None and hasattr(import_module(module), last))


def find_spec(name: str) -> object:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a folder above it is missing, or is a module
        return None


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def missing(path: Path) -> list[str]:
    """What a page names or links to and nobody finds."""
    page = path.read_text(encoding="utf-8")
    files = [name for name in named_files(page) if not is_there(name)]
    modules = sorted(name for name in named_modules(page) if not can_be_imported(name))
    return files + modules + [target for target in links(page) if not leads_somewhere(path, target)]


def leads_somewhere(path: Path, target: str) -> bool:
    """Whether a link of this page leads to a file, and to a heading of it if it names one."""
    file, _, heading = target.partition("#")
    there = path.parent / file if file else path
    return there.exists() and (not heading or heading in anchors(there.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [path for path in PAGES if name_of(path) not in HISTORY], ids=name_of)
def test_a_page_names_and_links_to_what_exists(path):
    assert missing(path) == []


def anchors(page: str) -> set[str]:
    """The names under which headings can be linked to.

    >>> anchors("## Count tumbling")
    {'count-tumbling'}
    """
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    }


def remarks(path: Path) -> Iterator[str]:
    """Docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_docstrings_and_comments_name_files_that_exist():
    lost = []
    for path in sorted(SOURCE.rglob("*.py")):
        for remark in remarks(path):
            # What a doctest shows are a user's files.
            prose = "\n".join(line for line in remark.splitlines() if not re.match(r"\s*(>>>|\.\.\.)", line))
            found = re.findall(r"(?<![\w./-])([\w*/-]+\.(?:py|md))\b", prose)
            lost += [f"{name_of(path)}: {name}" for name in found if not is_there(name)]
    assert lost == []


@pytest.mark.parametrize(("script", "makes", "page"), [
    ("draw_picture", "draw", "docs/picture.svg"),
    ("write_windows_page", "page", "docs/windows.md"),
])  # fmt: skip
def test_a_page_is_what_its_script_writes(script, makes, page):
    made = runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))[makes]()
    assert (ROOT / page).read_text(encoding="utf-8") == made, "run `make pages`"
