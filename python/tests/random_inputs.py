"""Random profiles, pipelines and schedules for tests of what must hold for all of them.

Each test takes the same few examples every time, so that it does not fail by chance. PIPESCOPE_EXAMPLES=1000 takes as many new
ones, and prints the smallest that fails.
"""

import os

import pipescope
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_MORE = int(os.environ.get("PIPESCOPE_EXAMPLES", "0"))
TIME = st.integers(1, 10**8)
BYTES = st.integers(0, 10**9)


def examples(count):
    """Decorates a test that takes random inputs. `count`: of its examples."""
    return settings(max_examples=_MORE or count, deadline=None, derandomize=not _MORE, database=None, print_blob=True,
                    suppress_health_check=list(HealthCheck))


def lists_of(values, count):
    return st.lists(values, min_size=count, max_size=count)


@st.composite
def profile_fields(draw, fewest=1, most=8):
    """The fields of a profile of some layers at one to three micro-batch sizes."""
    samples = sorted(draw(st.sets(st.integers(1, 64), min_size=1, max_size=3)))
    sizes = len(samples)
    fields = {"format": "pipescope.profile", "version": 1, "model": draw(st.text(max_size=8)), "samples": samples, "layers": []}
    for number in range(draw(st.integers(fewest, most))):
        layer = {"name": f"{number}.{draw(st.text(max_size=5))}", "parameter_bytes": draw(BYTES)}
        for name in ("forward_ns", "backward_ns"):
            layer[name] = draw(lists_of(TIME, sizes))
        layer["output_bytes"] = draw(lists_of(BYTES, sizes))
        if draw(st.booleans()):
            layer["saved_bytes"] = draw(lists_of(BYTES, sizes))
            layer["transient_bytes"] = draw(lists_of(BYTES, sizes))
        if draw(st.booleans()):
            layer["recompute_ns"] = draw(lists_of(TIME, sizes))
        fields["layers"].append(layer)
    return fields


@st.composite
def balances(draw, layers, partitions):
    """Layers of each partition."""
    cuts = sorted(draw(st.permutations(range(1, layers)))[:partitions - 1])
    return [end - begin for begin, end in zip([0, *cuts], [*cuts, layers])]


@st.composite
def pipelines(draw, most_layers=8):
    """A profile and the options of a pipeline with one partition on each lane, whose lanes have an order of their own."""
    profile = pipescope.Profile.from_dict(draw(profile_fields(most=most_layers)))
    lanes = draw(st.integers(1, min(4, len(profile))))
    options = {
        "balance": draw(balances(len(profile), lanes)),
        "batch": draw(st.integers(8, 64)),
        "chunks": draw(st.integers(1, 8)),
        "schedule": draw(st.sampled_from(["gpipe", "1f1b", "zero-bubble-h1", "model-parallel"])),
        "checkpoint": draw(st.sampled_from(["always", "except_last", "never"])),
    }
    return profile, options


@st.composite
def machines(draw, lanes):
    """Options of what a pipeline of that many lanes runs on."""
    options = {}
    if draw(st.booleans()):
        options["link_bandwidth"] = draw(st.one_of(st.integers(10**6, 10**12), st.sampled_from(["50MB/s", "1.5GB/s"])))
    if draw(st.booleans()):
        options["link_latency"] = draw(st.one_of(st.integers(1000, 10**6), st.sampled_from([0, "7ns", "0.5ms"])))
    if draw(st.booleans()):
        options["speed"] = draw(lists_of(st.floats(0.1, 10), lanes))
    if draw(st.booleans()):
        options["memory_limit"] = draw(st.one_of(st.sampled_from(["1GiB", "100GB"]), lists_of(st.integers(1000, 10**12), lanes)))
    if draw(st.booleans()):
        options["optimizer"] = draw(st.sampled_from(["sgd", "momentum", "adam", 2.5]))
    return options


def waits_of(partition, kind, micro_batch, last, splits):
    """The tasks that a task waits for, by the rules of a pipeline and not by our code."""
    backward = "I" if splits else "B"
    if kind == "F":
        return [(partition - 1, "F", micro_batch)] if partition else []
    if kind == "W":
        return [(partition, "I", micro_batch)]
    return [(partition, "F", micro_batch)] + ([(partition + 1, backward, micro_batch)] if partition < last else [])


def ends(rows, splits):
    """Whether lanes that run these rows, lists of (partition, kind, micro-batch), all come to their ends."""
    last = max(task[0] for row in rows for task in row)
    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for lane, row in enumerate(rows):
            while places[lane] < len(row) and all(each in done for each in waits_of(*row[places[lane]], last, splits)):
                done.add(row[places[lane]])
                places[lane] += 1
                moved = True
    return all(place == len(row) for place, row in zip(places, rows))


@st.composite
def tables(draw):
    """Rows of tasks in a random order that ends: at each moment some task that may start is next on its lane."""
    lanes = draw(st.integers(1, 3))
    partitions = draw(st.integers(lanes, 4))
    placement = draw(st.permutations([*range(lanes), *(draw(st.integers(0, lanes - 1)) for _ in range(partitions - lanes))]))
    micro_batches = draw(st.integers(1, 4))
    splits = draw(st.booleans())
    kinds = ("F", "I", "W") if splits else ("F", "B")
    left = [(partition, kind, number) for partition in range(partitions) for kind in kinds for number in range(micro_batches)]
    done, rows = set(), [[] for _ in range(lanes)]
    while left:
        ready = [task for task in left if all(each in done for each in waits_of(*task, partitions - 1, splits))]
        task = draw(st.sampled_from(ready))
        left.remove(task)
        done.add(task)
        rows[placement[task[0]]].append(task)
    return rows, splits


def csv_of(rows):
    return "".join(",".join(f"{partition}{kind}{number}" for partition, kind, number in row) + "\n" for row in rows)
