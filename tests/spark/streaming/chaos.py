"""`make chaos`: rounds of a stream whose driver and executors are killed, or replaced while they sleep, at drawn moments, each
compared with the reference.

A seed is a round: ``python -m spark.streaming.chaos --first 17 --rounds 1`` draws the same stream, the same kinds of deaths and
the same moments again.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spark.clusters import Processes, start_cluster
from spark.streaming.kill_job import STEPS, Death
from spark.streaming.kills import AfterBatches, AtRandom, ExecutorKill, Kill, Replacement, Story


def drawn_settings(dice: random.Random) -> dict[str, Any]:
    return {
        "source": dice.choice(["log", "folder"]),
        "sink": dice.choice(["log", "folder"]),
        "root": dice.choice(["driver", "driver", "reducers"]),
        "events": dice.choice([200, 300, 500]),
        "batch_events": dice.choice([15, 60, 150]),
        "count_scheme": dice.choice(["auto", "monitor", "async"]),
        "every": [dice.choice([None, "1 s", "1 h"]) for _ in range(4)],
    }


def drawn_kills(dice: random.Random) -> list[Kill]:
    """One to three lives end before their time."""
    kills: list[Kill] = []
    for _ in range(dice.randint(1, 3)):
        kind = dice.choice(["step", "step", "random", "random", "executor", "replaced"])
        if kind == "step":
            kills.append(Death(dice.choice(STEPS), dice.randint(1, 4)))
        elif kind == "random":
            while_starting = AtRandom(round(dice.uniform(3, 25), 1))
            while_running = AfterBatches(dice.randint(1, 4), round(dice.uniform(0, 2), 2))
            kills.append(dice.choice([while_starting, while_running]))
        elif kind == "replaced":
            kills.append(Replacement(dice.randint(1, 4), dice.randint(0, 3)))
        else:
            kills.append(ExecutorKill(dice.randint(0, 4), dice.choice([None, dice.randint(0, 3)])))
    return kills


def run_round(seed: int, folder: Path, cluster: tuple[str, Sequence[Any]], tell: Callable[[str], object]) -> None:
    """One stream on the cluster, from its beginning to its end."""
    dice = random.Random(seed)
    settings, kills = drawn_settings(dice), drawn_kills(dice)
    tell(f"seed {seed}: {', '.join(f'{name} {value}' for name, value in settings.items())}")
    place = folder / f"round-{seed}"
    processes = Processes(folder)
    try:
        # Whoever sleeps keeps its executors, and the cluster has only two: drivers that replace each other bring their own.
        master, workers = ("local[2]", ()) if any(isinstance(kill, Replacement) for kill in kills) else cluster
        Story(processes, place, seed, master=master, workers=workers, **settings).run(
            kills, lambda line: tell(f"  {line}")
        )
    finally:
        processes.close()
    # What went wrong stays, to be looked at.
    shutil.rmtree(place)


def run_rounds(seeds: Sequence[int], tell: Callable[[str], object]) -> int:
    """All of them on one cluster; how many failed."""
    began, failed = time.monotonic(), []
    folder = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    processes = Processes(folder)

    def stamped(line: str) -> None:
        tell(f"[{time.monotonic() - began:7.1f} s] {line}")

    try:
        cluster = start_cluster(processes)
        for number, seed in enumerate(seeds, start=1):
            try:
                run_round(seed, folder, cluster, stamped)
                stamped(f"seed {seed}: as the reference says ({number} of {len(seeds)}, {len(failed)} failed)")
            except Exception:
                failed.append(seed)
                stamped(f"seed {seed}: FAILED ({number} of {len(seeds)}), its files are in {folder}")
                tell(traceback.format_exc())
    finally:
        processes.close()
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    which = f": seeds {', '.join(map(str, failed))}" if failed else ""
    tell(
        f"{len(seeds)} rounds in {seconds:.0f} s, {len(seeds) - len(failed)} as the reference says, {len(failed)} failed{which}"
    )
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.rounds)
    return 1 if run_rounds(seeds, lambda line: print(line, flush=True)) else 0


if __name__ == "__main__":
    sys.exit(main())
