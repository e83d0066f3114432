"""Synthetic runs of pipelines on GPUs, whose truth is known.

A run is computed event by event: each rank's host launches kernels one after the other, each stream runs its kernels in
order, and a message moves once its NCCL kernels run on both ranks. The run is then written as PyTorch's profiler or as
nsys would have recorded it. Truth and file come from the same events, so a reader of the file can be judged exactly.

Deterministic: equal variants give equal files. Times are whole ns.
"""

import dataclasses
import gzip
import json
import os
import random
import sqlite3
import statistics

US = 1000
ROOTS = ("ramp", "imbalance", "slow_rank", "launch_bound", "network")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
START = 1_712_000_000_000_000_000  # wall clock of the run, ns


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is recorded, and how."""

    schedule: str = "1f1b"
    ranks: int = 4
    micro_batches: int = 8
    root: str = "ramp"
    seed: int = 1
    program: str = "kineto"  # or nsys
    annotations: str = "all"  # ranges on the device: all, none, some. Only kineto has them
    graphs: bool = False
    lost: bool = False  # the profiler lost kernels of the first step
    skew: int = 0  # largest error of a rank's wall clock, ns
    autograd: bool = True  # a thread of its own launches the backwards
    inside: bool = False  # messages in the ranges of tasks, which have ScheduleGPipe's names
    steps: int = 4

    def name(self):
        extra = [self.program, f"annotations {self.annotations}" if self.program == "kineto" else ""]
        extra += ["graphs" * self.graphs, "lost" * self.lost, "skew" * bool(self.skew),
                  "inside" * self.inside]
        return f"{self.schedule} p{self.ranks} m{self.micro_batches} {self.root} s{self.seed} " + " ".join(filter(None, extra))


def orders(variant):
    """The actions (kind, stage, micro-batch) of each rank, and the number of stages."""
    p, m = variant.ranks, variant.micro_batches
    result = []
    if variant.schedule == "interleaved":
        v = 2
        assert m % p == 0
        def at(n, forward):
            group, within = divmod(n, p * v)
            chunk, micro_batch = divmod(within, p)
            return (chunk if forward else v - 1 - chunk), group * p + micro_batch
        for r in range(p):
            warm_up = min(m * v, (p - r - 1) * 2 + (v - 1) * p)
            sequence = [("F", n) for n in range(warm_up)]
            for n in range(m * v - warm_up):
                sequence += [("F", warm_up + n), ("B", n)]
            sequence += [("B", n) for n in range(m * v - warm_up, m * v)]
            row = []
            for kind, n in sequence:
                chunk, micro_batch = at(n, kind == "F")
                row.append((kind, chunk * p + r, micro_batch))
            result.append(row)
        return result, p * v
    for r in range(p):
        if variant.schedule == "gpipe":
            row = [("F", r, i) for i in range(m)] + [("B", r, i) for i in range(m)]
        else:
            warm_up = min(m, p - r - 1)
            row = [("F", r, i) for i in range(warm_up)]
            zero = variant.schedule == "zero_bubble"
            weights = 0
            for i in range(m):
                if warm_up + i < m:
                    row.append(("F", r, warm_up + i))
                row.append(("I" if zero else "B", r, i))
                # The later ranks defer less, so that the first rank's gradients come early.
                if zero and (i >= r or warm_up + i >= m) and weights <= i:
                    row.append(("W", r, weights))
                    weights += 1
            row += [("W", r, i) for i in range(weights, m)] if zero else []
        result.append(row)
    return result, p


@dataclasses.dataclass
class Kernel:
    name: str
    stream: int
    call: int  # start of the launching call, ns
    thread: int  # 0: the main thread, 1: autograd's
    start: int = -1
    end: int = -1
    correlation: int = 0
    message: int = 0  # bytes


@dataclasses.dataclass
class Range:
    name: str
    start: int
    end: int
    kernels: list
    task: tuple = ()  # kind, stage, micro-batch, step
    messages: list = dataclasses.field(default_factory=list)  # ranges of torch.distributed inside: name, start, end


@dataclasses.dataclass
class Run:
    variant: Variant
    ranks: list  # of each rank: ranges by start
    steps: list  # of each rank: (number, start, end)
    syncs: list  # of each rank: (start, end) of waiting for the device
    truth: dict
    clocks: list  # of each rank: what its wall clock shows too much, ns


class Costs:
    """What the kernels, launches and messages of a run take, ns. `without`: roots that are not there."""

    def __init__(self, variant, stages):
        self.variant = variant
        random_ = random.Random(f"{variant.seed} {variant.root} {variant.schedule} {variant.ranks}")
        self.slow = random_.randrange(variant.ranks)
        self.heavy = random_.choice([0, stages - 1])
        self.base = random_.randrange(300, 700) * US  # of a forward
        self.noise = random_
        self.factor = random_.uniform(1.3, 1.7)
        self.launch = random_.randrange(3, 7) * US
        self.transfer = random_.randrange(4, 12) * US
        self.bytes = random_.choice([1, 2, 4, 8]) * 2**20
        if variant.root == "network":
            self.transfer = int(self.base * random_.uniform(0.6, 1.2))

    def kernels(self, kind, stage, rank):
        """(name, ns) of each kernel of a task."""
        whole = self.base * {"F": 1, "B": 2, "I": 1, "W": 1}[kind]
        if self.variant.schedule == "interleaved":
            whole //= 2
        count = {"F": 5, "B": 8, "I": 5, "W": 4}[kind]
        names = {"F": "gemm_forward", "B": "gemm_backward", "I": "gemm_input", "W": "gemm_weight"}
        parts = [(f"{names[kind]}_{k}", whole // count) for k in range(count)]
        if self.variant.root == "imbalance" and stage == self.heavy:
            parts += [(f"head_{kind}", int(whole * (self.factor - 1) / 2)) for _ in range(2)]
        slow = self.factor if self.variant.root == "slow_rank" and rank == self.slow else 1
        return [(name, int(ns * slow * self.noise.uniform(0.99, 1.01))) for name, ns in parts]

    def launch_of(self, kind):
        """ns of a call that launches one of the task's kernels."""
        if self.variant.root != "launch_bound":
            return self.launch
        # Of every second micro-batch in launch-bound code the calls take longer than the kernels.
        return int(self.base / 5 * self.factor / (2 if self.variant.schedule == "interleaved" else 1))


LATENCY = 3 * US  # from a call to the start of its kernel on an idle stream
COMPUTE_STREAM = 7


def simulate(variant):
    """The run's events."""
    order, stages = orders(variant)
    p = variant.ranks
    costs = Costs(variant, stages)
    rank_of = lambda stage: stage % p
    ranks = [[] for _ in range(p)]
    steps = [[] for _ in range(p)]
    syncs = [[] for _ in range(p)]
    host = [50 * US + 7 * US * r for r in range(p)]
    compute_free = [0] * p
    stream_free = {}
    tasks = {}  # (step, kind, stage, micro-batch): Range
    transfers = {}  # (step, direction, receiving stage, micro-batch): (sending kernel, receiving kernel, start)
    for step in range(variant.steps):
        pending = [[] for _ in range(p)]
        start_of_step = list(host)
        for r in range(p):
            clock = host[r] + 40 * US

            def launch(name, stream, thread, cost, parts):
                nonlocal clock
                kernel = Kernel(name, stream, clock, thread)
                clock += cost
                parts.append(kernel)
                return kernel

            def message(direction, stage, other, micro_batch, sends):
                nonlocal clock
                begin = clock
                clock += 6 * US
                parts = []
                peer = rank_of(other)
                stream = 20 + 4 * peer + 2 * (direction == "F") + (1 if sends else 0)
                kernel = launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", stream, 0, 9 * US, parts)
                kernel.message = costs.bytes
                clock += 4 * US
                verb, arrow = ("SEND", "->") if sends else ("RECV", "<-")
                each = Range(f"PP:{stage}{verb}_{direction}{micro_batch}", begin, clock, parts,
                             messages=[(f"nccl:{verb.lower()} {r}{arrow}{peer}", begin + 2 * US, clock - US)])
                clock += 2 * US
                receiver = other if sends else stage
                pending[r].append(("message", each, (step, direction, receiver, micro_batch), sends))

            for kind, stage, micro_batch in order[r]:
                forward = kind == "F"
                if forward and stage > 0:
                    message("F", stage, stage - 1, micro_batch, False)
                if kind in "BI" and stage < stages - 1:
                    message("B", stage, stage + 1, micro_batch, False)
                begin = clock
                clock += 5 * US
                thread = 1 if not forward and variant.autograd else 0
                parts = []
                for name, ns in costs.kernels(kind, stage, r):
                    cost = costs.launch_of(kind) if not variant.graphs else 0
                    launch(name, COMPUTE_STREAM, thread, cost, parts).end = ns  # the length, until it runs
                clock += (15 if variant.graphs else 2) * US
                each = Range(f"PP:{stage}{kind}{micro_batch}", begin, clock, parts, (kind, stage, micro_batch, step))
                clock += 2 * US
                pending[r].append(("task", each, None, None))
                if forward and stage < stages - 1:
                    message("F", stage, stage + 1, micro_batch, True)
                if kind in "BI" and stage > 0:
                    message("B", stage, stage - 1, micro_batch, True)
            begin = clock
            parts = []
            for k in range(2):
                launch(f"multi_tensor_adamw_{k}", COMPUTE_STREAM, 0, costs.launch, parts).end = 60 * US
            pending[r].append(("optimizer", Range("Optimizer.step#AdamW.step", begin, clock, parts), None, None))
            host[r] = clock

        inputs = {}  # (step, direction, receiving stage, micro-batch): ends of the kernels' starts
        position = [0] * p

        def run_kernels(r, parts, after):
            for kernel in parts:
                length = kernel.end
                kernel.start = max(compute_free[r], kernel.call + LATENCY, after)
                kernel.end = compute_free[r] = kernel.start + length

        moved = True
        while moved:
            moved = False
            for r in range(p):
                while position[r] < len(pending[r]):
                    what, each, key, sends = pending[r][position[r]]
                    if what == "message":
                        kernel = each.kernels[0]
                        free = stream_free.get((r, kernel.stream), 0)
                        if free is None:
                            break  # its stream waits for the peer
                        ready = max(kernel.call + LATENCY, free)
                        if sends:
                            ready = max(ready, compute_free[r])  # an event of the stream that computed it
                        kernel.start = ready
                        inputs.setdefault(key, {})["send" if sends else "receive"] = (r, kernel)
                        both = inputs[key]
                        if len(both) == 2:
                            begin = max(k.start for _, k in both.values())
                            transfers[key] = (both["send"][1], both["receive"][1], begin)
                            for owner, k in both.values():
                                k.end = begin + costs.transfer
                                stream_free[owner, k.stream] = k.end
                        else:
                            stream_free[r, kernel.stream] = None
                    elif what == "task":
                        kind, stage, micro_batch, _ = each.task
                        direction = "F" if kind == "F" else "B"
                        waits = (kind == "F" and stage > 0) or (kind in "BI" and stage < stages - 1)
                        arrival = 0
                        if waits:
                            if (step, direction, stage, micro_batch) not in transfers:
                                break
                            arrival = transfers[step, direction, stage, micro_batch][1].end
                        run_kernels(r, each.kernels, arrival)
                        tasks[each.task[3], *each.task[:3]] = each
                    else:
                        run_kernels(r, each.kernels, 0)
                    ranks[r].append(each)
                    position[r] += 1
                    moved = True
        assert all(position[r] == len(pending[r]) for r in range(p)), "the schedule has a deadlock"
        for r in range(p):
            begin = host[r]
            host[r] = max(host[r], compute_free[r]) + 15 * US
            syncs[r].append((begin, host[r] - 5 * US))
            steps[r].append((step, start_of_step[r], host[r]))
            host[r] += 100 * US
    clocks = random.Random(f"clock {variant.seed}")
    skews = [0] + [clocks.randint(-variant.skew, variant.skew) for _ in range(p - 1)]
    run = Run(variant, ranks, steps, syncs, {}, skews)
    number_launches(run)
    run.truth = truth_of(run, tasks, transfers, stages, costs)
    return run


def number_launches(run):
    for ranges in run.ranks:
        number = 100
        for each in ranges:
            for kernel in each.kernels:
                in_graph = run.variant.graphs and each.task and kernel is not each.kernels[0]
                number += 0 if in_graph else 1
                kernel.correlation = number


def truth_of(run, tasks, transfers, stages, costs):
    """Means over the steps, and the median bubble of each lane: bubbles, and the shares of what lanes waited for."""
    p = run.variant.ranks
    counted = range(1, run.variant.steps) if run.variant.lost else range(run.variant.steps)
    lanes = [[] for _ in range(p)]
    shares = dict.fromkeys(("partition", "copy", "launch", "finished", "other"), 0.0)
    step_times = []
    idle_within = 0.0
    for step in counted:
        own = [[] for _ in range(p)]
        for (number, kind, stage, micro_batch), each in tasks.items():
            if number == step:
                own[stage % p].append(each)
        begin = min(each.kernels[0].start for lane in own for each in lane)
        end = max(each.kernels[-1].end for lane in own for each in lane)
        whole = end - begin
        step_times.append(whole)
        for r in range(p):
            free = begin
            busy = 0
            for each in sorted(own[r], key=lambda task: task.kernels[0].start):
                kind, stage, micro_batch, _ = each.task
                first, last = each.kernels[0], each.kernels[-1]
                busy += last.end - first.start
                idle_within += (last.end - first.start - sum(k.end - k.start for k in each.kernels)) / whole / p
                at = free

                def until(time, cause):
                    nonlocal at
                    time = min(time, first.start)
                    if time > at:
                        shares[cause] += (time - at) / whole / p
                        at = time

                direction = "F" if kind == "F" else "B"
                key = (step, direction, stage, micro_batch)
                if kind in "FBI" and key in transfers:
                    sent, received, moving = transfers[key]
                    producer = tasks[step, kind, stage - 1 if kind == "F" else stage + 1, micro_batch]
                    until(producer.kernels[-1].end, "partition")
                    # The message could have moved once its kernels were launched on both ranks.
                    until(min(moving, max(sent.call, received.call) + LATENCY), "launch")
                    until(received.end, "copy")
                until(first.call + LATENCY, "launch")
                until(first.start, "other")
                free = last.end
            shares["finished"] += (end - free) / whole / p
            lanes[r].append(1 - busy / whole)
    n = len(counted)
    return {
        "lanes": [statistics.median(lane) for lane in lanes],
        "bubble": sum(map(sum, lanes)) / n / p,
        "step_ns": sum(step_times) / n,
        "shares": {cause: share / n for cause, share in shares.items()},
        "idle_within": idle_within / n,
        "root": run.variant.root,
        "rank": costs.slow if run.variant.root == "slow_rank" else None,
        "steps": list(counted),
    }


def first_of_graph(each):
    return next(kernel for kernel in each.kernels if not kernel.message) if each.task else each.kernels[0]


def recorded(run, rank):
    """The rank's ranges on the host, as the program names them."""
    if not run.variant.inside:
        return run.ranks[rank]
    ranges = []
    received = None
    for each in run.ranks[rank]:
        if each.task:
            kind, _, micro_batch, _ = each.task
            joined = Range(f"{'Forward' if kind == 'F' else 'Backward'} {micro_batch}", each.start, each.end,
                           list(each.kernels), each.task)
            if received is not None:
                joined.start = received.start
                joined.kernels[:0] = received.kernels
                joined.messages += received.messages
                received = None
            ranges.append(joined)
        elif "RECV" in each.name:
            received = each
        elif "SEND" in each.name:
            ranges[-1].end = each.end
            ranges[-1].kernels += each.kernels
            ranges[-1].messages += each.messages
        else:
            ranges.append(each)
    return ranges


def is_lost(run, each, kernel):
    """The profiler loses the first kernels of a session."""
    return run.variant.lost and each.task and each.task[3] == 0 and each.task[2] < 2 and kernel is not None


def annotated(run, rank, position, each):
    if run.variant.annotations == "all":
        return not is_lost(run, each, each.kernels[0])
    return run.variant.annotations == "some" and (position * 7 + rank) % 5 != 0 and not is_lost(run, each, each.kernels[0])


def write_kineto(run, folder, compress=False, named_by_file=False):
    """One file for each rank, as torch.profiler's export_chrome_trace()."""
    os.makedirs(folder, exist_ok=True)
    for r in range(run.variant.ranks):
        ranges = recorded(run, r)
        pid = 4000 + r
        events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python3"}},
                  {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0, "args": {"labels": "CPU"}},
                  {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}}]

        def add(category, name, process, thread, start, end, **arguments):
            us = (start + run.clocks[r]) / 1000
            events.append({"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
                           "ts": round(us, 3), "dur": round((end - start) / 1000, 3), "args": arguments})

        for number, start, end in run.steps[r]:
            add("user_annotation", f"ProfilerStep#{number + 3}", pid, pid, start, end)
        for start, end in run.syncs[r]:
            add("cuda_runtime", "cudaStreamSynchronize", pid, pid, start, end, correlation=9_000_000 + start // US)
        for position, each in enumerate(ranges):
            add("user_annotation", each.name, pid, pid, each.start, each.end)
            for name, start, end in each.messages:
                add("user_annotation", name, pid, pid, start, end)
            for kernel in each.kernels:
                graph = run.variant.graphs and each.task and not kernel.message
                if not graph or kernel is first_of_graph(each):
                    add("cuda_runtime", "cudaGraphLaunch" if graph else "cudaLaunchKernel", pid, pid + kernel.thread,
                        kernel.call, kernel.call + (10 * US if graph else 2 * US), correlation=kernel.correlation)
                if not is_lost(run, each, kernel):
                    facts = {"device": 0, "context": 1, "stream": kernel.stream, "correlation": kernel.correlation,
                             "grid": [128, 1, 1], "block": [256, 1, 1]}
                    if kernel.message:
                        facts |= {"Collective name": "send" if kernel.stream % 2 else "recv", "dtype": "BFloat16",
                                  "In msg nelems": kernel.message // 2, "Out msg nelems": kernel.message // 2, "Group size": 2}
                    add("kernel", kernel.name, 0, kernel.stream, kernel.start, kernel.end, **facts)
                    events.append({"ph": "s", "id": kernel.correlation, "pid": pid, "tid": pid + kernel.thread,
                                   "ts": round((kernel.call + run.clocks[r]) / 1000, 3), "cat": "ac2g", "name": "ac2g"})
                    events.append({"ph": "f", "id": kernel.correlation, "pid": 0, "tid": kernel.stream, "bp": "e",
                                   "ts": round((kernel.start + run.clocks[r]) / 1000, 3), "cat": "ac2g", "name": "ac2g"})
            if not run.variant.inside and annotated(run, r, position, each):
                add("gpu_user_annotation", each.name, 0, each.kernels[0].stream, each.kernels[0].start,
                    each.kernels[-1].end)
        file = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
        if not named_by_file:
            file["distributedInfo"] = {"backend": "nccl", "rank": r, "world_size": run.variant.ranks}
        file |= {"traceEvents": events, "baseTimeNanoseconds": START}
        path = os.path.join(folder, f"rank{r}.pt.trace.json" + ".gz" * compress)
        with (gzip.open if compress else open)(path, "wt") as out:
            json.dump(file, out)


NSYS_TABLES = """
create table StringIds (id integer primary key, value text not null);
create table META_DATA_EXPORT (name text not null, value text);
create table ThreadNames (nameId integer not null, priority integer, globalTid integer);
create table PROCESSES (globalPid integer, pid integer, name text);
create table NVTX_EVENTS (start integer not null, end integer, eventType integer not null, rangeId integer,
  category integer, color integer, text text, globalTid integer, endGlobalTid integer, textId integer, domainId integer,
  uint64Value integer, int64Value integer, doubleValue real, uint32Value integer, int32Value integer, floatValue real,
  jsonTextId integer, jsonText text, binaryData text);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer not null, end integer not null, eventClass integer not null,
  globalTid integer, correlationId integer, nameId integer not null, returnValue integer not null, callchainId integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer, globalPid integer,
  demangledName integer not null, shortName integer not null, mangledName integer, launchType integer,
  cacheConfig integer, registersPerThread integer not null, gridX integer not null, gridY integer not null,
  gridZ integer not null, blockX integer not null, blockY integer not null, blockZ integer not null,
  staticSharedMemory integer not null, dynamicSharedMemory integer not null, localMemoryPerThread integer not null,
  localMemoryTotal integer not null, gridId integer not null, sharedMemoryExecuted integer, graphNodeId integer,
  sharedMemoryLimitConfig integer);
create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer,
  globalPid integer, graphId integer not null, graphExecId integer not null);
"""


def write_nsys(run, path):
    """One export of all ranks on one host."""
    database = sqlite3.connect(path)
    database.executescript(NSYS_TABLES)
    texts = {}

    def text(value):
        return texts.setdefault(value, len(texts) + 1)

    database.executemany("insert into META_DATA_EXPORT values (?, ?)",
                         [("EXPORT_SCHEMA_VERSION", "3.24.14"), ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")])
    for r in range(run.variant.ranks):
        ranges = recorded(run, r)
        process = 4000 + r
        of_process = (1 << 56) | (process << 24)
        database.execute("insert into PROCESSES values (?, ?, 'python3')", (of_process, process))
        for thread, name in enumerate(("python3", "pt_autograd_0")):
            database.execute("insert into ThreadNames values (?, 1, ?)", (text(name), of_process | process + thread))

        def nvtx(start, end, name, by_id=True):
            database.execute("insert into NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) "
                             "values (?, ?, 59, ?, ?, ?, 0)",
                             (start, end, None if by_id else name, of_process | process, text(name) if by_id else None))

        def call(start, end, name, thread, correlation):
            database.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, 0, ?, ?, ?, 0, null)",
                             (start, end, of_process | process + thread, correlation, text(name)))

        for number, start, end in run.steps[r]:
            nvtx(start, end, f"ProfilerStep#{number + 3}", by_id=False)
        for number, (start, end) in enumerate(run.syncs[r]):
            call(start, end, "cudaStreamSynchronize_v3020", 0, 9_000_000 + number)
        for each in ranges:
            nvtx(each.start, each.end, each.name)
            for name, start, end in each.messages:
                nvtx(start, end, name)
            for kernel in each.kernels:
                graph = run.variant.graphs and each.task and not kernel.message
                if not graph or kernel is first_of_graph(each):
                    call(kernel.call, kernel.call + (10 * US if graph else 2 * US),
                         "cudaGraphLaunch_v10000" if graph else "cudaLaunchKernel_v7000", kernel.thread, kernel.correlation)
                if not is_lost(run, each, kernel) and not graph:
                    name = text(kernel.name)
                    database.execute(
                        "insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
                        "globalPid, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, "
                        "blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId) "
                        "values (?, ?, ?, 1, ?, ?, ?, ?, ?, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, 1)",
                        (kernel.start, kernel.end, r, kernel.stream, kernel.correlation, of_process, name, name))
            first = first_of_graph(each)
            if run.variant.graphs and each.task and not is_lost(run, each, first):
                last = max(kernel.end for kernel in each.kernels if not kernel.message)
                database.execute("insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (?, ?, ?, 1, null, ?, ?, ?, 1, 1)",
                                 (first.start, last, r, first.stream, first.correlation, of_process))
    database.executemany("insert into StringIds values (?, ?)", [(number, value) for value, number in texts.items()])
    database.commit()
    database.close()


def write(run, folder):
    """Writes the run, and returns what to open."""
    if run.variant.program == "nsys":
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "run.sqlite")
        write_nsys(run, path)
        return path
    write_kineto(run, folder)
    return folder


def variants(seeds):
    """Every schedule with every root, and each way to record once for each of these in turn."""
    ways = [dict(program="kineto", annotations="all"), dict(program="kineto", annotations="none"),
            dict(program="kineto", annotations="some"), dict(program="nsys"),
            dict(program="kineto", annotations="none", graphs=True), dict(program="nsys", graphs=True),
            dict(program="kineto", annotations="all", lost=True), dict(program="nsys", lost=True),
            dict(program="kineto", annotations="none", skew=2_000 * US), dict(program="kineto", annotations="all", skew=300 * US),
            dict(program="kineto", annotations="none", inside=True), dict(program="nsys", inside=True)]
    sizes = [(2, 4), (4, 8), (4, 16), (8, 16), (16, 16)]
    for seed in seeds:
        for s, schedule in enumerate(SCHEDULES):
            for k, root in enumerate(ROOTS):
                for w, way in enumerate(ways):
                    if way.get("graphs") and root == "launch_bound":
                        continue  # a graph is one call
                    if way.get("inside") and schedule != "gpipe":
                        continue  # the other schedules have ranges for messages
                    ranks, micro_batches = sizes[(seed + s + k + w) % len(sizes)]
                    yield Variant(schedule=schedule, ranks=ranks, micro_batches=micro_batches, root=root, seed=seed, **way)
