"""A PostgreSQL server for tests: Debian's package, in a folder of its own, on a socket that nobody else knows."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

#: Who runs the server where the tests run as root, which it refuses.
USER = "postgres"
#: What is lost in a crash of the machine does not matter here.
_OPTIONS = "-c listen_addresses='' -c fsync=off -c shared_buffers=16MB -c max_connections=20"


def missing() -> str | None:
    """Why there can be no server here; None if there can."""
    try:
        import adbc_driver_postgresql  # noqa: F401
    except ImportError:
        return "adbc-driver-postgresql is not installed"
    if _programs() is None:
        return "PostgreSQL's server is not installed (Debian's package postgresql)"
    if os.getuid() == 0 and USER not in {each.pw_name for each in pwd.getpwall()}:
        return f"PostgreSQL does not run as root, and there is no user {USER!r}"
    return None


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda place: float(place.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Server:
    """A server that runs from construction to `stop`."""

    def __init__(self) -> None:
        programs = _programs()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
        if os.getuid() == 0:
            shutil.chown(self.folder, USER)
        try:
            self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8")
            options = f"-k {self.folder} {_OPTIONS}"
            self._run("pg_ctl", "-D", str(self._data), "-w", "-o", options, "-l", str(self.folder / "log"), "start")
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.dsn = f"host={self.folder} user={USER} dbname=postgres"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", USER, "--", *command]
        # Not its output: the server would keep the pipe open.
        done = subprocess.run(command, stdout=subprocess.DEVNULL, cwd=self.folder, check=False, timeout=120)
        assert done.returncode == 0, f"{program} ended with {done.returncode}"

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder)
