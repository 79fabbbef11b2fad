"""The program that spark-submit runs: ``spark-submit $(headwater job-script) job.yaml``."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    """Run the job that the command line names, on the Spark that spark-submit has prepared."""
    here = os.path.dirname(os.path.abspath(__file__))
    # spark-submit puts the folder of this script in front, where its modules would be found under wrong names.
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    from headwater.job.command import run_job

    parser = argparse.ArgumentParser(prog="headwater job", description="Run a job file under spark-submit.")
    parser.add_argument("file", help="the job file (YAML)")
    parser.add_argument("--once", action="store_true", help="all that is there now, and stop")
    parser.add_argument("--check", action="store_true", help="only check, and say what would run")
    given = parser.parse_args()
    return run_job(given.file, once=given.once, check_only=given.check, is_submitted=True)


if __name__ == "__main__":
    sys.exit(main())
