"""Checks that Spark can start here: PySpark, pandas and a Java, looked for where Spark itself looks.

Without these checks a user meets a gateway that exited, or a trace from the middle of a conversion.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from headwater.errors import HeadwaterError

JAVA_MIN = 17
#: For the first doors; `doors.py` has what each needs.
PYSPARK_MIN = (4, 0)
#: The first that PySpark does not take.
PANDAS_END = 3
GET_JAVA = (
    f"install one (Debian, Ubuntu: sudo apt-get install openjdk-{JAVA_MIN}-jre-headless; Fedora: sudo dnf install "
    f"java-{JAVA_MIN}-openjdk-headless; macOS: brew install openjdk@{JAVA_MIN}) and point JAVA_HOME at it"
)
GET_LIBRARIES = "install with: pip install 'headwater[spark-local]'"


class SetupError(HeadwaterError):
    """Something that Spark needs is missing or too old; the message says what to install."""


def installed_version(library: str) -> str | None:
    """The version of a library; None where it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        # A Spark that was unpacked rather than installed has no metadata, but knows itself.
        return str(import_module(library).__version__) if find_spec(library) is not None else None


def check_libraries(installed: Callable[[str], str | None] = installed_version) -> None:
    """Refuse a PySpark that is missing or too old, and a pandas that it does not take."""
    found = installed("pyspark")
    if found is None:
        raise SetupError(f"PySpark is not installed: {GET_LIBRARIES}")
    if _numbers(found) < PYSPARK_MIN:
        wanted = ".".join(map(str, PYSPARK_MIN))
        raise SetupError(f"PySpark {found} is too old, headwater needs {wanted} or newer: {GET_LIBRARIES}")
    pandas = installed("pandas")
    if pandas is None:
        raise SetupError(f"pandas is not installed, which PySpark needs: {GET_LIBRARIES}")
    if _numbers(pandas) >= (PANDAS_END,):
        raise SetupError(
            f"pandas {pandas} is too new for PySpark {found}: install with: pip install 'pandas<{PANDAS_END}'"
        )


def check_java(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a Java that is missing or too old. Only who starts a Spark needs one; a client of Spark Connect does not."""
    command, where = java_command(environ)
    if command is None:
        raise SetupError(f"{where}, and Spark needs Java {JAVA_MIN} or newer: {GET_JAVA}")
    found = java_version(command)
    if found is None:
        raise SetupError(f"{where} is {command}, which does not say its version as a Java does: {GET_JAVA}")
    if java_major(found) < JAVA_MIN:
        raise SetupError(f"{where} is {command}, a Java {found}, and Spark needs {JAVA_MIN} or newer: {GET_JAVA}")


def java_command(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The Java that Spark will take, and where it was found or looked for. JAVA_HOME counts first, even if it is wrong."""
    home = environ.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        if os.access(command, os.X_OK):
            return str(command), "the Java of JAVA_HOME"
        return None, f"JAVA_HOME is {home!r}, where there is no bin/java"
    found = shutil.which("java", path=environ.get("PATH"))
    return found, "there is no Java (JAVA_HOME is not set, none on PATH)" if found is None else "the Java on PATH"


def java_version(command: str) -> str | None:
    """What ``java -version`` says: ``17.0.15``, ``1.8.0_292``; None if it says nothing of the kind."""
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return None if found is None else found[1]


def java_major(found: str) -> int:
    """The number that matters.

    >>> java_major("17.0.15"), java_major("21-ea"), java_major("1.8.0_292")
    (17, 21, 8)
    """
    numbers = _numbers(found)
    # Java 8 and older call themselves 1.8.
    return numbers[1] if numbers[:1] == (1,) and len(numbers) > 1 else (*numbers, 0)[0]


def _numbers(text: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
