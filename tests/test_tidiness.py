"""What keeps the tree readable where no tool looks: small rooms, one class for each name, no base for one child alone."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headwater"
#: So many modules a room holds before somebody who enters it is lost; a larger one has to be named in ARCHITECTURE.md.
MODULES_MAX = 15
CLASSES = [
    (node, path)
    for path in sorted(SOURCE.rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.ClassDef)
]


def bases(node: ast.ClassDef) -> list[str]:
    """The names of the classes it is made of, without their parameters."""
    plain = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [base.attr if isinstance(base, ast.Attribute) else base.id for base in plain]  # type: ignore[attr-defined]


def test_a_room_has_few_modules_or_is_named_in_the_architecture():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for room in [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]:
        count, name = len(list(room.glob("*.py"))), room.relative_to(SOURCE.parent).as_posix()
        assert count <= MODULES_MAX or f"{count} modules of `{name}/`" in text, f"{name} has {count} modules"


def test_no_class_name_stands_twice():
    found = Counter(node.name for node, _ in CLASSES)
    twice = {name: [str(p) for node, p in CLASSES if node.name == name] for name, count in found.items() if count > 1}
    assert not twice


def test_no_class_is_the_only_child_of_a_base_of_ours():
    """Such a base is half of a class. Errors may be: whoever catches the wider one need not know the narrower."""
    ours = {node.name: node for node, _ in CLASSES}
    children = Counter(base for node, _ in CLASSES for base in bases(node) if base in ours)
    alone = [name for name, count in children.items() if count == 1 and not name.endswith("Error")]
    assert not alone, f"bases with one child: {alone}"
