"""An aggregate of one's own: three small functions, and it runs in every window, on every host.

The peak factor of a load is its highest value over its mean. `lift` makes a partial of some values, `combine` joins two
partials, `lower` makes the result of one. A query names such code by import path ("own_aggregate:peak_factor", this
file), never by pickling it: a worker or another machine imports the same module.
"""

import headwater as hw


def lift(values):
    """The partial of some values, as a NumPy array without nulls: highest, sum, count."""
    return [float(values.max()), float(values.sum()), len(values)]


def combine(left, right):
    """Two partials as one. The grouping must not matter: slices, leaves and relays each combine as it suits them."""
    return [max(left[0], right[0]), left[1] + right[1], left[2] + right[2]]


def lower(partial):
    """The result; None is null."""
    highest, total, count = partial
    return highest * count / total if total else None


peak_factor = hw.aggregate_of("peak_factor", lift, combine, lower, identity=[float("-inf"), 0.0, 0])


def main():
    """Ask for the peak factor by its path, beside an aggregate that headwater has."""
    query = hw.query(
        "peaks",
        hw.sliding("20 s", "10 s"),
        keys=["house"],
        peak=hw.apply("own_aggregate:peak_factor", "load"),
        mean=hw.avg("load"),
    )
    events = {
        "time": [second * 1_000_000 for second in range(0, 40, 4)],
        "house": ["ash", "elm"] * 5,
        "load": [1.0, 2.0, 3.0, 2.0, None, 2.0, 8.0, 4.0, 1.0, 2.0],
    }
    for row in hw.run(events, [query])["peaks"].to_pylist():
        start, end = row["window_start"] // 1_000_000, row["window_end"] // 1_000_000
        print(f"{row['house']}  {start:>3} s to {end} s: mean {row['mean']:.2f}, peak factor {row['peak']:.2f}")
    print("\nThe query as it is stored and sent:", hw.to_yaml([query]), sep="\n")

    # Does it give the same in every plan? Generated values try to break its laws.
    try:
        hw.testing.check_laws(peak_factor, [1.0, 2.0, 4.5, None])
        print("Its laws hold.")
    except ImportError as error:  # hypothesis generates the values
        print(error)


if __name__ == "__main__":
    main()
