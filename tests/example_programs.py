"""The programs of `examples/`, as tests find them."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
LINES_MAX = 60


def text(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")
