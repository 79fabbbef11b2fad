"""Replaying a seed: a tree of nodes in a simulated world in which everything goes wrong, and the one number that says how.

A seed decides queries, streams, delays, losses, crashes and clocks. Every result row is compared with the slow, obvious
reference. A run that fails is a bug report of one line; here a known mistake is planted, so that there is one to replay.
"""

from headwater.simulator import Options, Transcript, simulate

SMALL = {"leaves": 4, "height": 2}  # four leaves, two relays, a root


def show(outcome):
    """How a run went, and which faults it met: only those count that a later step has noticed."""
    faults = {name.removeprefix("fault: "): n for name, n in outcome.counts.items() if name.startswith("fault: ")}
    right = f"seed {outcome.options.seed}: every row was right, {outcome.rows} rows in {outcome.steps:,} steps"
    print(outcome.text() if outcome.failure else right)
    print("  it met", ", ".join(f"{n} x {fault}" for fault, n in sorted(faults.items())))


# The nodes as they are: three seeds, all faults.
for seed in range(3):
    show(simulate(Options(seed, **SMALL)))

# A root that takes a delta although some before it are missing: the first seed that notices is the bug report.
seed = next(seed for seed in range(100) if simulate(Options(seed, plant="gap-accepted", **SMALL)).failure)
wrong = Options(seed, plant="gap-accepted", **SMALL)
print()
show(simulate(wrong))

# The same seed again, step by step: the same run to the last message.
steps = []
simulate(wrong, [Transcript(steps.append)])
again = []
simulate(wrong, [Transcript(again.append)])
print(f"\nreplayed twice, {len(steps)} steps, the same each time: {steps == again}; the last three:")
for step in steps[-3:]:
    print(step[:140])
