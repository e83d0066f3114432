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
from copy import deepcopy

US = 1000
ROOTS = ("ramp", "imbalance", "slow_rank", "launch_bound", "network")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
MORE_SCHEDULES = ("looped_bfs", "zero_bubble_v", "interleaved_zero_bubble")
SPLITS = ("zero_bubble", "zero_bubble_v", "interleaved_zero_bubble")  # their backwards
CHUNKS = {"interleaved": 2, "looped_bfs": 2, "zero_bubble_v": 2, "interleaved_zero_bubble": 2}
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
    threads: int = 1  # autograd's, which take turns
    early: int = 0  # how much too early the device's clock shows its work, ns
    nodes: bool = False  # of graphs: nsys shows each kernel (--cuda-graph-trace=node), with the number of the launch
    weights_apart: bool = False  # the kernels of backward_weight run on a stream of their own
    tensor: bool = False  # tasks hold and end with all-reduces of a tensor-parallel group
    reduces: bool = False  # a partition's last backward launches an all-reduce of its gradients
    loading: int = 0  # the first partition's forwards copy their input to the device, ns; its host waits half of that
    part: bool = False  # the root shows in every second half of the micro-batches only
    second: str = "ramp"  # another root
    bare_optimizer: bool = False  # no range holds the optimizer
    forwards_only: bool = False  # only forwards have ranges; backwards are linked to them
    unnamed_steps: bool = False  # no ranges of steps
    lost_calls: bool = False  # some calls of the second step are not recorded, and their kernels are
    drift: int = 0  # ns that a rank's wall clock gains in each second, at most
    batched: bool = False  # a message's kernel is launched after its range of torch.distributed, as a batch is
    files: bool = False  # nsys: one export for each rank
    chunks: int = 2  # partitions on a lane, if interleaved
    joint: bool = False  # a graph holds the forwards of two micro-batches. With graphs only
    counted: bool = False  # names as zero bubble in Megatron-LM has them: no messages, and partitions counted on each rank
    lost_pairs: bool = False  # some calls of the second step are not recorded, and neither are their kernels
    one_stream: bool = False  # all messages of a rank are on one stream
    slow_link: int = 0  # the messages between the first two ranks take that many times as long
    waits: str = ""  # the host waits for its device: messages (each one received) or loss (of the last partition)

    def more_names(self):
        """Names of the later fields that differ from the usual."""
        plain = Variant()
        names = [field.name for field in dataclasses.fields(self)]
        later = [name for name in names[names.index("threads"):] if getattr(self, name) != getattr(plain, name)]
        return [name if getattr(self, name) is True else f"{name} {getattr(self, name)}" for name in later]

    def name(self):
        extra = [self.program, f"annotations {self.annotations}" if self.program == "kineto" else ""]
        extra += ["graphs" * self.graphs, "lost" * self.lost, "skew" * bool(self.skew),
                  "inside" * self.inside]
        extra += self.more_names()
        return f"{self.schedule} p{self.ranks} m{self.micro_batches} {self.root} s{self.seed} " + " ".join(filter(None, extra))


class Listed:
    """Orders of schedules that torch computes by lists: each rank runs the best task that is ready, in unit times.
    Backwards come first, then forwards while few micro-batches are open, then gradients of weights."""

    def __init__(self, p, m, stages, rank_of, open_limit):
        self.order = [[] for _ in range(p)]
        done = {}
        left = {(kind, stage, i) for kind in "FIW" for stage in range(stages) for i in range(m)}
        free = [0] * p
        opened = [0] * p
        for now in range(10 * m * stages):
            for r in range(p):
                if free[r] > now:
                    continue
                ready = [each for each in left if rank_of(each[1]) == r and self.is_ready(each, stages, done, now)]
                ready = [each for each in ready if each[0] != "F" or opened[r] < open_limit]
                if not ready:
                    continue
                best = min(ready, key=lambda each: ("IFW".index(each[0]), each[2], -each[1] if each[0] == "F" else each[1]))
                left.discard(best)
                self.order[r].append(best)
                opened[r] += {"F": 1, "I": 0, "W": -1}[best[0]]
                done[best] = free[r] = now + 1
        assert not left, "the schedule has a deadlock"

    @staticmethod
    def is_ready(task, stages, done, now):
        kind, stage, i = task
        if kind == "F":
            needed = [("F", stage - 1, i)] if stage else []
        elif kind == "W":
            needed = [("I", stage, i)]
        else:
            needed = [("F", stage, i)] + ([("I", stage + 1, i)] if stage + 1 < stages else [])
        return all(done.get(each, now + 1) <= now for each in needed)


def rank_of_stage(variant, stage):
    if variant.schedule == "zero_bubble_v" and stage >= variant.ranks:
        return 2 * variant.ranks - 1 - stage
    return stage % variant.ranks


def orders(variant):
    """The actions (kind, stage, micro-batch) of each rank, and the number of stages."""
    p, m = variant.ranks, variant.micro_batches
    result = []
    if variant.schedule in ("zero_bubble_v", "interleaved_zero_bubble"):
        stages = 2 * p
        listed = Listed(p, m, stages, lambda stage: rank_of_stage(variant, stage), 2 * p + 1)
        return listed.order, stages
    if variant.schedule == "looped_bfs":
        for r in range(p):
            result.append([("F", chunk * p + r, i) for chunk in range(2) for i in range(m)]
                          + [("B", chunk * p + r, i) for chunk in (1, 0) for i in reversed(range(m))])
        return result, 2 * p
    if variant.schedule == "interleaved":
        v = variant.chunks
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
    kind: str = "kernel"  # memcpy; collective
    lost_call: bool = False
    lost: bool = False


@dataclasses.dataclass
class Range:
    name: str
    start: int
    end: int
    kernels: list
    task: tuple = ()  # kind, stage, micro-batch, step
    messages: list = dataclasses.field(default_factory=list)  # ranges of torch.distributed inside: name, start, end
    loads: list = dataclasses.field(default_factory=list)  # (start, end) of waiting for data on the host

    def computing(self):
        return [kernel for kernel in self.kernels if kernel.kind == "kernel" and not kernel.message]

    def span(self):
        kernels = self.computing()
        return min(kernel.start for kernel in kernels), max(kernel.end for kernel in kernels)


@dataclasses.dataclass
class Run:
    variant: Variant
    ranks: list  # of each rank: ranges by start
    steps: list  # of each rank: (number, start, end)
    syncs: list  # of each rank: (start, end) of waiting for the device
    truth: dict
    clocks: list  # of each rank: what its wall clock shows too much, ns
    drifts: list = ()  # of each rank: ns that its wall clock gains in each ns


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
        if self.has("network"):
            self.transfer = int(self.base * random_.uniform(0.6, 1.2))

    def has(self, root, micro_batch=None):
        late = micro_batch is None or not self.variant.part or micro_batch * 2 >= self.variant.micro_batches
        return root in (self.variant.root, self.variant.second) and late

    def kernels(self, kind, stage, rank, micro_batch):
        """(name, ns) of each kernel of a task."""
        whole = self.base * {"F": 1, "B": 2, "I": 1, "W": 1}[kind]
        if self.variant.schedule in CHUNKS:
            whole //= self.variant.chunks
        count = {"F": 5, "B": 8, "I": 5, "W": 4}[kind]
        names = {"F": "gemm_forward", "B": "gemm_backward", "I": "gemm_input", "W": "gemm_weight"}
        parts = [(f"{names[kind]}_{k}", whole // count) for k in range(count)]
        if self.has("imbalance", micro_batch) and stage == self.heavy:
            parts += [(f"head_{kind}", int(whole * (self.factor - 1) / 2)) for _ in range(2)]
        slow = self.factor if self.has("slow_rank", micro_batch) and rank == self.slow else 1
        return [(name, int(ns * slow * self.noise.uniform(0.99, 1.01))) for name, ns in parts]

    def launch_of(self, micro_batch):
        """ns of a call that launches one of the task's kernels."""
        if not self.has("launch_bound", micro_batch):
            return self.launch
        # Of every second micro-batch in launch-bound code the calls take longer than the kernels.
        return int(self.base / 5 * self.factor / (self.variant.chunks if self.variant.schedule in CHUNKS else 1))


LATENCY = 3 * US  # from a call to the start of its kernel on an idle stream
COMPUTE_STREAM = 7
WEIGHT_STREAM = 13
TENSOR_STREAM = 16  # of the tensor-parallel group's collectives
REDUCE_STREAM = 17  # of the sums of gradients


def simulate(variant):
    """The run's events."""
    order, stages = orders(variant)
    p = variant.ranks
    costs = Costs(variant, stages)
    rank_of = lambda stage: rank_of_stage(variant, stage)
    ranks = [[] for _ in range(p)]
    steps = [[] for _ in range(p)]
    syncs = [[] for _ in range(p)]
    host = [50 * US + 7 * US * r for r in range(p)]
    compute_free = [0] * p
    side_free = {}  # (rank, stream): when a stream beside the compute stream is free
    turn = [0] * p  # of autograd's threads
    stream_free = {}
    tasks = {}  # (step, kind, stage, micro-batch): Range
    transfers = {}  # (step, direction, receiving stage, micro-batch): (sending kernel, receiving kernel, start)
    for step in range(variant.steps):
        # A host that waits launches late, which changes what it waits for. Repeated until it waits for the same.
        before_step = (host, compute_free, side_free, turn, stream_free, tasks, transfers, ranks)
        known = deepcopy(before_step) if variant.waits else None
        noise = costs.noise.getstate()
        waits = {}  # (kind, stage, micro-batch): when the host may launch the task
        while True:
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
                    stream = 20 if variant.one_stream else 20 + 4 * peer + 2 * (direction == "F") + (1 if sends else 0)
                    kernel = launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", stream, 0, 9 * US, parts)
                    kernel.message = costs.bytes
                    clock += 4 * US
                    verb, arrow = ("SEND", "->") if sends else ("RECV", "<-")
                    until = begin + 5 * US if variant.batched else clock - US
                    each = Range(f"PP:{stage}{verb}_{direction}{micro_batch}", begin, clock, parts,
                                 messages=[(f"nccl:{verb.lower()} {r}{arrow}{peer}", begin + 2 * US, until)])
                    clock += 2 * US
                    receiver = other if sends else stage
                    pending[r].append(("message", each, (step, direction, receiver, micro_batch), sends))

                left = {}  # backwards of each stage to come
                for kind, stage, micro_batch in order[r]:
                    left[stage] = left.get(stage, 0) + (kind != "F")
                for kind, stage, micro_batch in order[r]:
                    forward = kind == "F"
                    on_other_rank = lambda other: rank_of(other) != r
                    if forward and stage > 0 and on_other_rank(stage - 1):
                        message("F", stage, stage - 1, micro_batch, False)
                    if kind in "BI" and stage < stages - 1 and on_other_rank(stage + 1):
                        message("B", stage, stage + 1, micro_batch, False)
                    loads = []
                    if variant.loading and forward and stage == 0:
                        loads.append((clock, clock + variant.loading // 2))
                        clock = loads[0][1] + US
                    clock = max(clock, waits.get((kind, stage, micro_batch), 0))
                    begin = clock
                    clock += 5 * US
                    thread = 0
                    if not forward and variant.autograd:
                        turn[r] += 1
                        thread = 1 + turn[r] % variant.threads
                    parts = []
                    if variant.loading and forward and stage == 0:
                        copy = launch("Memcpy HtoD (Pinned -> Device)", COMPUTE_STREAM, thread, costs.launch, parts)
                        copy.kind = "memcpy"
                        copy.end = variant.loading
                    stream = WEIGHT_STREAM if kind == "W" and variant.weights_apart else COMPUTE_STREAM
                    kernels = costs.kernels(kind, stage, r, micro_batch)
                    for number, (name, ns) in enumerate(kernels):
                        cost = costs.launch_of(micro_batch) if not variant.graphs else 0
                        launch(name, stream, thread, cost, parts).end = ns  # the length, until it runs
                        if variant.tensor and number in (1, len(kernels) - 1) and kind != "W":
                            reduce = launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                                            TENSOR_STREAM, thread, costs.launch if not variant.graphs else 0, parts)
                            reduce.kind = "collective"
                            reduce.end = costs.base // 12
                    left[stage] -= not forward
                    if variant.reduces and not forward and left[stage] == 0:
                        reduce = launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                                        REDUCE_STREAM, thread, costs.launch if not variant.graphs else 0, parts)
                        reduce.kind = "collective"
                        reduce.end = costs.base
                    clock += (15 if variant.graphs else 2) * US
                    each = Range(f"PP:{stage}{kind}{micro_batch}", begin, clock, parts, (kind, stage, micro_batch, step),
                                 loads=loads)
                    clock += 2 * US
                    pending[r].append(("task", each, None, None))
                    if forward and stage < stages - 1 and on_other_rank(stage + 1):
                        message("F", stage, stage + 1, micro_batch, True)
                    if kind in "BI" and stage > 0 and on_other_rank(stage - 1):
                        message("B", stage, stage - 1, micro_batch, True)
                begin = clock
                parts = []
                for k in range(2):
                    launch(f"multi_tensor_adamw_{k}", COMPUTE_STREAM, 0, costs.launch, parts).end = 60 * US
                pending[r].append(("optimizer", Range("Optimizer.step#AdamW.step", begin, clock, parts), None, None))
                host[r] = clock

            inputs = {}  # (step, direction, receiving stage, micro-batch): ends of the kernels' starts

            def run_kernels(r, parts, after):
                for kernel in parts:
                    length = kernel.end
                    if kernel.stream == COMPUTE_STREAM:
                        kernel.start = max(compute_free[r], kernel.call + LATENCY, after)
                        kernel.end = compute_free[r] = kernel.start + length
                        continue
                    free = side_free.get((r, kernel.stream), 0)
                    kernel.start = max(free, compute_free[r], kernel.call + LATENCY, after)
                    kernel.end = side_free[r, kernel.stream] = kernel.start + length
                    if kernel.stream == TENSOR_STREAM:
                        compute_free[r] = kernel.end  # the next kernel needs its sum

            # Each stream runs its items in order, and no stream waits for another one without need.
            queues = [{} for _ in range(p)]  # of each rank and stream: items in order
            computed = [{} for _ in range(p)]  # of each rank: when the compute stream was done with an item
            for r in range(p):
                for number, (what, each, _, sends) in enumerate(pending[r]):
                    stream = each.kernels[0].stream if what == "message" else COMPUTE_STREAM
                    queues[r].setdefault(stream, []).append(number)
                ranks[r] += [each for _, each, _, _ in pending[r]]
            before = [[max((k for k in range(number) if pending[r][k][0] != "message"), default=None)
                       for number in range(len(pending[r]))] for r in range(p)]

            def can_run(r, number):
                what, each, key, sends = pending[r][number]
                if what == "message":
                    free = stream_free.get((r, each.kernels[0].stream), 0)
                    return free is not None and (not sends or before[r][number] is None or before[r][number] in computed[r])
                return not each.task or needs(each.task) is None or needs(each.task) in transfers

            def needs(task):
                kind, stage, micro_batch, _ = task
                if kind == "F" and stage > 0 and rank_of(stage - 1) != rank_of(stage):
                    return step, "F", stage, micro_batch
                if kind in "BI" and stage < stages - 1 and rank_of(stage + 1) != rank_of(stage):
                    return step, "B", stage, micro_batch
                return None

            def run_item(r, number):
                what, each, key, sends = pending[r][number]
                if what == "message":
                    kernel = each.kernels[0]
                    ready = max(kernel.call + LATENCY, stream_free.get((r, kernel.stream), 0))
                    if sends and before[r][number] is not None:
                        ready = max(ready, computed[r][before[r][number]])  # an event of the stream that computed it
                    kernel.start = ready
                    inputs.setdefault(key, {})["send" if sends else "receive"] = (r, kernel)
                    both = inputs[key]
                    if len(both) == 2:
                        begin = max(k.start for _, k in both.values())
                        transfers[key] = (both["send"][1], both["receive"][1], begin)
                        slow = variant.slow_link and {owner for owner, _ in both.values()} == {0, 1}
                        for owner, k in both.values():
                            k.end = begin + costs.transfer * (variant.slow_link if slow else 1)
                            stream_free[owner, k.stream] = k.end
                    else:
                        stream_free[r, kernel.stream] = None
                    return
                if what == "task":
                    needed = needs(each.task)
                    run_kernels(r, each.kernels, transfers[needed][1].end if needed else 0)
                    tasks[each.task[3], *each.task[:3]] = each
                else:  # the optimizer needs all gradients
                    run_kernels(r, each.kernels, max([compute_free[r]] + [side_free.get((r, stream), 0) for stream in
                                                                          (WEIGHT_STREAM, REDUCE_STREAM)]))
                computed[r][number] = compute_free[r]

            moved = True
            while moved:
                moved = False
                for r in range(p):
                    for queue in queues[r].values():
                        while queue and can_run(r, queue[0]):
                            run_item(r, queue.pop(0))
                            moved = True
            assert not any(queue for each in queues for queue in each.values()), "the schedule has a deadlock"
            found = {}
            for kind, stage, micro_batch in [task for row in order for task in row] if variant.waits else []:
                needed = needs((kind, stage, micro_batch, step))
                if variant.waits == "messages" and needed:
                    found[kind, stage, micro_batch] = transfers[needed][1].end + 4 * US
                if variant.waits == "loss" and kind in "BI" and stage == stages - 1:
                    found[kind, stage, micro_batch] = tasks[step, "F", stage, micro_batch].span()[1] + 4 * US
            if found == waits:
                break
            waits = found
            costs.noise.setstate(noise)
            host, compute_free, side_free, turn, stream_free, tasks, transfers, ranks = deepcopy(known)

        for r in range(p):
            begin = host[r]
            host[r] = max([host[r], compute_free[r]] + [free for (rank, _), free in side_free.items() if rank == r]) + 15 * US
            syncs[r].append((begin, host[r] - 5 * US))
            steps[r].append((step, start_of_step[r], host[r]))
            host[r] += 100 * US
    clocks = random.Random(f"clock {variant.seed}")
    skews = [0] + [clocks.randint(-variant.skew, variant.skew) for _ in range(p - 1)]
    drifts = [0.0] + [clocks.uniform(-variant.drift, variant.drift) / 1e9 for _ in range(p - 1)]
    run = Run(variant, ranks, steps, syncs, {}, skews, drifts)
    number_launches(run)
    lose_calls(run)
    run.truth = truth_of(run, tasks, transfers, stages, costs)
    return run


def lose_calls(run):
    """In the second step, each seventh kernel's call is not recorded; or of a few tasks, the last kernel and its call."""
    for ranges in run.ranks:
        tasks = [each.computing() for each in ranges if each.task and each.task[3] == 1]
        for kernel in sum(tasks, [])[3::7] if run.variant.lost_calls else []:
            kernel.lost_call = True
        for kernels in tasks[2::5] if run.variant.lost_pairs else []:
            kernels[-1].lost_call = kernels[-1].lost = True


def number_launches(run):
    for ranges in run.ranks:
        number = 100
        for each in ranges:
            for kernel in each.kernels:
                in_graph = run.variant.graphs and each.task and kernel is not each.kernels[0]
                number += 0 if in_graph else 1
                kernel.correlation = number
        for each in ranges if run.variant.joint else []:
            if each.task and each.task[0] == "F" and each.task[2] % 2:
                kind, stage, micro_batch, step = each.task
                before = next(other for other in ranges if other.task == (kind, stage, micro_batch - 1, step))
                for kernel in each.kernels:
                    kernel.correlation = first_of_graph(before).correlation
                    kernel.lost_call = True  # there is none


def merged(spans):
    """The union of spans, without overlaps, by time."""
    union = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([start, end])
    return union


def overlaid(pieces, spans, cause, over):
    """The pieces (start, end, cause) of a gap, where spans take over those of some causes."""
    result = []
    for start, end, own in pieces:
        for from_, to in spans if own in over else []:
            from_, to = max(from_, start), min(to, end)
            if from_ < to:
                result += [(start, from_, own)] if start < from_ else []
                result.append((from_, to, cause))
                start = to
        if start < end:
            result.append((start, end, own))
    return result


CAUSES = ("partition", "copy", "launch", "collective", "optimizer", "loading", "finished", "other")


def truth_of(run, tasks, transfers, stages, costs):
    """Means over the steps, and the median bubble of each lane: bubbles, and the shares of what lanes waited for."""
    p = run.variant.ranks
    lost = ({0} if run.variant.lost else set()) | ({1} if run.variant.lost_calls or run.variant.lost_pairs else set())
    counted = [step for step in range(run.variant.steps) if step not in lost]
    lanes = [[] for _ in range(p)]
    shares = dict.fromkeys(CAUSES, 0.0)
    step_times = []
    idle_within = 0.0
    all_spans = {kind: [merged((k.start, k.end) for each in ranges for k in each.kernels if test(each, k))
                        for ranges in run.ranks]
                 for kind, test in (("collective", lambda each, k: k.kind == "collective"),
                                    ("optimizer", lambda each, k: not each.task and not k.message),
                                    ("loading", lambda each, k: k.kind == "memcpy"))}
    loads = [merged(load for each in ranges for load in each.loads) for ranges in run.ranks]
    for step in counted:
        own = [[] for _ in range(p)]
        for (number, kind, stage, micro_batch), each in tasks.items():
            if number == step:
                own[rank_of_stage(run.variant, stage)].append(each)
        begin = min(each.span()[0] for lane in own for each in lane)
        end = max(each.span()[1] for lane in own for each in lane)
        whole = end - begin
        step_times.append(whole)
        for r in range(p):
            free = begin
            pieces = []
            busy = sum(to - from_ for from_, to in merged(each.span() for each in own[r]))
            for each in sorted(own[r], key=lambda task: task.span()[0]):
                kind, stage, micro_batch, _ = each.task
                start, last = each.span()
                first = each.computing()[0]
                idle_within += (last - start - sum(to - from_ for from_, to in merged(
                    (k.start, k.end) for k in each.computing()))) / whole / p
                at = free

                def until(time, cause):
                    nonlocal at
                    time = min(time, start)
                    if time > at:
                        pieces.append((at, time, cause))
                        at = time

                direction = "F" if kind == "F" else "B"
                key = (step, direction, stage, micro_batch)
                if kind in "FBI" and key in transfers:
                    sent, received, moving = transfers[key]
                    producer = tasks[step, kind, stage - 1 if kind == "F" else stage + 1, micro_batch]
                    until(producer.span()[1], "partition")
                    summed = max((k for k in producer.kernels if k.stream == TENSOR_STREAM), key=lambda k: k.end, default=None)
                    if summed:
                        until(summed.call + LATENCY, "launch")
                        until(summed.end, "collective")
                    # The message could have moved once its kernels were launched on both ranks.
                    until(min(moving, max(sent.call, received.call) + LATENCY), "launch")
                    until(received.end, "copy")
                until(first.call + LATENCY, "launch")
                until(start, "other")
                free = max(free, last)
            if free < end:
                pieces.append((free, end, "finished"))
            for cause in ("collective", "optimizer", "loading"):
                pieces = overlaid(pieces, all_spans[cause][r], cause, ("launch", "other", "finished"))
            pieces = overlaid(pieces, loads[r], "loading", ("launch", "other"))
            for from_, to, cause in pieces:
                shares[cause] += (to - from_) / whole / p
            lanes[r].append(1 - busy / whole)
    n = len(counted)
    if run.variant.counted:  # no message is known
        shares["other"] += shares.pop("copy")
        shares["copy"] = 0.0
    return {
        "lanes": [statistics.median(lane) for lane in lanes],
        "bubble": sum(map(sum, lanes)) / n / p,
        "step_ns": sum(step_times) / n,
        "shares": {cause: share / n for cause, share in shares.items()},
        "idle_within": idle_within / n,
        "root": run.variant.root,
        "second": run.variant.second,
        "rank": costs.slow,
        "steps": list(counted),
    }


def first_of_graph(each):
    return next(kernel for kernel in each.kernels if not kernel.message) if each.task else each.kernels[0]


def is_hidden(variant, each):
    """True if no range on the host shows the work."""
    return (variant.bare_optimizer and not each.task and each.name.startswith("Optimizer")) or (
        variant.forwards_only and bool(each.task) and each.task[0] != "F")


def linked_operators(run, rank):
    """Of runs whose backwards have no ranges: (thread, start, end, name, number, is_forward) of each operator. A forward
    operator and the backward of its result have one number."""
    operators = []
    numbers = {}
    for each in run.ranks[rank] if run.variant.forwards_only else []:
        if not each.task:
            continue
        kind, stage, micro_batch, step = each.task
        forward = kind == "F"
        kernels = each.computing()
        for place, kernel in enumerate(kernels):
            key = (step, stage, micro_batch, place if forward else min(place, 4))
            number = numbers.setdefault(key, 1 + len(numbers))
            end = kernels[place + 1].call if place + 1 < len(kernels) else kernel.call + 2 * US + 500
            name = "aten::linear" if forward else "autograd::engine::evaluate_function: AddmmBackward0"
            operators.append((kernel.thread, kernel.call - 200, end - 300, name, number, forward))
    return operators


def device_time(run, time):
    """A time as the device's clock shows it."""
    return time - run.variant.early


def wall(run, rank, time):
    """A time as the rank's wall clock shows it."""
    return time + run.clocks[rank] + int(time * run.drifts[rank])


def counted_name(run, each):
    if not each.task:
        return each.name if not each.kernels[0].message else ""
    kind, stage, micro_batch, _ = each.task
    return f"{'B' if kind == 'I' else kind}{micro_batch}.{stage // run.variant.ranks}.0"


def recorded(run, rank):
    """The rank's ranges on the host, as the program names them."""
    if run.variant.counted:
        return [dataclasses.replace(each, name=counted_name(run, each), messages=[]) for each in run.ranks[rank]]
    if not run.variant.inside:
        return [dataclasses.replace(each, name="") if is_hidden(run.variant, each) else each for each in run.ranks[rank]]
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
    return kernel.lost or (run.variant.lost and each.task and each.task[3] == 0 and each.task[2] < 2)


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
            if process == 0:
                start, end = device_time(run, start), device_time(run, end)
            start, end = wall(run, r, start), wall(run, r, end)
            events.append({"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
                           "ts": round(start / 1000, 3), "dur": round((end - start) / 1000, 3), "args": arguments})

        for number, start, end in run.steps[r] if not run.variant.unnamed_steps else []:
            add("user_annotation", f"ProfilerStep#{number + 3}", pid, pid, start, end)
        for thread, start, end, name, number, forward in linked_operators(run, r):
            add("cpu_op", name, pid, pid + thread, start, end, **{"Sequence number": number, "Fwd thread id": int(not forward)})
            events.append({"ph": "s" if forward else "f", "id": number, "pid": pid, "tid": pid + thread,
                           "ts": round(wall(run, r, start) / 1000, 3), "cat": "fwdbwd", "name": "fwdbwd"}
                          | ({} if forward else {"bp": "e"}))
        for start, end in run.syncs[r]:
            add("cuda_runtime", "cudaStreamSynchronize", pid, pid, start, end, correlation=9_000_000 + start // US)
        for position, each in enumerate(ranges):
            if each.name:
                add("user_annotation", each.name, pid, pid, each.start, each.end)
            for name, start, end in each.messages:
                add("user_annotation", name, pid, pid, start, end)
            for start, end in each.loads:
                add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", pid, pid, start, end)
            for kernel in each.kernels:
                graph = run.variant.graphs and each.task and not kernel.message
                if (not graph or kernel is first_of_graph(each)) and not kernel.lost_call:
                    call = "cudaGraphLaunch" if graph else "cudaMemcpyAsync" if kernel.kind == "memcpy" else "cudaLaunchKernel"
                    add("cuda_runtime", call, pid, pid + kernel.thread, kernel.call,
                        kernel.call + (10 * US if graph else 2 * US), correlation=kernel.correlation)
                if not is_lost(run, each, kernel):
                    facts = {"device": 0, "context": 1, "stream": kernel.stream, "correlation": kernel.correlation,
                             "grid": [128, 1, 1], "block": [256, 1, 1]}
                    if kernel.message:
                        facts |= {"Collective name": "send" if kernel.stream % 2 else "recv", "dtype": "BFloat16",
                                  "In msg nelems": kernel.message // 2, "Out msg nelems": kernel.message // 2, "Group size": 2,
                                  "registers per thread": 96, "shared memory": 8192}
                    if kernel.kind == "collective":
                        facts |= {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 4096, "Out msg nelems": 4096,
                                  "Group size": 2}
                    if kernel.kind == "memcpy":
                        facts = {"device": 0, "context": 1, "stream": kernel.stream, "correlation": kernel.correlation,
                                 "bytes": 2**20}
                    add("gpu_memcpy" if kernel.kind == "memcpy" else "kernel", kernel.name, 0, kernel.stream, kernel.start,
                        kernel.end, **facts)
                    events.append({"ph": "s", "id": kernel.correlation, "pid": pid, "tid": pid + kernel.thread,
                                   "ts": round(wall(run, r, kernel.call) / 1000, 3), "cat": "ac2g", "name": "ac2g"})
                    events.append({"ph": "f", "id": kernel.correlation, "pid": 0, "tid": kernel.stream, "bp": "e",
                                   "ts": round(wall(run, r, device_time(run, kernel.start)) / 1000, 3), "cat": "ac2g", "name": "ac2g"})
            if not run.variant.inside and each.name and annotated(run, r, position, each):
                for stream in dict.fromkeys(kernel.stream for kernel in each.kernels):
                    own = [kernel for kernel in each.kernels if kernel.stream == stream]
                    add("gpu_user_annotation", each.name, 0, stream, own[0].start, own[-1].end)
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
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text, localTime text);
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
create table ENUM_CUDA_MEMCPY_OPER (id integer primary key, name text, label text);
insert into ENUM_CUDA_MEMCPY_OPER values (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer, globalPid integer,
  bytes integer not null, copyKind integer not null);
create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer,
  globalPid integer, graphId integer not null, graphExecId integer not null);
"""


def write_nsys(run, path, ranks):
    """One export of some ranks on one host."""
    database = sqlite3.connect(path)
    database.executescript(NSYS_TABLES)
    texts = {}

    def text(value):
        return texts.setdefault(value, len(texts) + 1)

    database.executemany("insert into META_DATA_EXPORT values (?, ?)",
                         [("EXPORT_SCHEMA_VERSION", "3.24.14"), ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems")])
    database.execute("insert into TARGET_INFO_SESSION_START_TIME (utcEpochNs) values (?)",
                     (START + run.clocks[ranks[0]] * run.variant.files,))
    for r in ranks:
        ranges = recorded(run, r)
        process = 4000 + r
        of_process = (1 << 56) | (process << 24)
        database.execute("insert into PROCESSES values (?, ?, 'python3')", (of_process, process))
        for thread, name in enumerate(["python3"] + [f"pt_autograd_{k}" for k in range(run.variant.threads)]):
            database.execute("insert into ThreadNames values (?, 1, ?)", (text(name), of_process | process + thread))

        def nvtx(start, end, name, by_id=True):
            database.execute("insert into NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) "
                             "values (?, ?, 59, ?, ?, ?, 0)",
                             (start, end, None if by_id else name, of_process | process, text(name) if by_id else None))

        def call(start, end, name, thread, correlation):
            database.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, 0, ?, ?, ?, 0, null)",
                             (start, end, of_process | process + thread, correlation, text(name)))

        for number, start, end in run.steps[r] if not run.variant.unnamed_steps else []:
            nvtx(start, end, f"iter_0_{number + 3}" if run.variant.counted else f"ProfilerStep#{number + 3}", by_id=False)
        for number, (start, end) in enumerate(run.syncs[r]):
            call(start, end, "cudaStreamSynchronize_v3020", 0, 9_000_000 + number)
        for each in ranges:
            if each.name:
                nvtx(each.start, each.end, each.name)
            for name, start, end in each.messages:
                nvtx(start, end, name)
            for start, end in each.loads:
                nvtx(start, end, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
            for kernel in each.kernels:
                graph = run.variant.graphs and each.task and not kernel.message
                if (not graph or kernel is first_of_graph(each)) and not kernel.lost_call:
                    name = "cudaGraphLaunch_v10000" if graph else \
                        "cudaMemcpyAsync_v3020" if kernel.kind == "memcpy" else "cudaLaunchKernel_v7000"
                    call(kernel.call, kernel.call + (10 * US if graph else 2 * US), name, kernel.thread, kernel.correlation)
                if kernel.kind == "memcpy" and not is_lost(run, each, kernel):
                    database.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, "
                                     "correlationId, globalPid, bytes, copyKind) values (?, ?, ?, 1, ?, ?, ?, 1048576, 1)",
                                     (device_time(run, kernel.start), device_time(run, kernel.end), r, kernel.stream,
                                      kernel.correlation, of_process))
                elif not is_lost(run, each, kernel) and (not graph or run.variant.nodes):
                    name = text(kernel.name)
                    database.execute(
                        "insert into CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
                        "globalPid, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, "
                        "blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId, "
                        "graphNodeId) values (?, ?, ?, 1, ?, ?, ?, ?, ?, 64, 128, 1, 1, 256, 1, 1, 0, 0, 0, 0, 1, ?)",
                        (device_time(run, kernel.start), device_time(run, kernel.end), r, kernel.stream, kernel.correlation,
                         of_process, name, name, 77 if graph else None))
            first = first_of_graph(each)
            if run.variant.graphs and not run.variant.nodes and each.task and not is_lost(run, each, first):
                last = max(kernel.end for kernel in each.kernels if not kernel.message)
                database.execute("insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (?, ?, ?, 1, null, ?, ?, ?, 1, 1)",
                                 (device_time(run, first.start), device_time(run, last), r, first.stream, first.correlation,
                                  of_process))
    database.executemany("insert into StringIds values (?, ?)", [(number, value) for value, number in texts.items()])
    database.commit()
    database.close()


def write(run, folder):
    """Writes the run, and returns what to open."""
    if run.variant.program == "nsys":
        os.makedirs(folder, exist_ok=True)
        if run.variant.files:
            for rank in range(run.variant.ranks):
                write_nsys(run, os.path.join(folder, f"job-{rank}.sqlite"), [rank])
            return folder
        path = os.path.join(folder, "run.sqlite")
        write_nsys(run, path, range(run.variant.ranks))
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


def more_variants(seeds):
    """Other schedules, sizes, programs and faults; each with every root in turn."""
    kineto = dict(program="kineto", annotations="none")
    nsys = dict(program="nsys")
    ways = [kineto, nsys, dict(program="kineto", annotations="all"),
            kineto | dict(weights_apart=True), nsys | dict(weights_apart=True),
            kineto | dict(forwards_only=True), kineto | dict(early=20 * US), nsys | dict(early=35 * US, files=True),
            nsys | dict(graphs=True, nodes=True), kineto | dict(tensor=True), nsys | dict(tensor=True),
            kineto | dict(reduces=True), nsys | dict(reduces=True, bare_optimizer=True),
            kineto | dict(loading=150 * US), nsys | dict(loading=80 * US), kineto | dict(part=True), nsys | dict(part=True),
            kineto | dict(lost_calls=True), nsys | dict(lost_calls=True), kineto | dict(unnamed_steps=True),
            kineto | dict(threads=3, batched=True), nsys | dict(threads=2, bare_optimizer=True),
            kineto | dict(skew=300 * US, drift=20 * US), kineto | dict(skew=2_000 * US, drift=100 * US, early=15 * US),
            kineto | dict(skew=300 * US, batched=True), kineto | dict(graphs=True, tensor=True),
            kineto | dict(lost=True, reduces=True, tensor=True, loading=100 * US),
            kineto | dict(waits="messages"), nsys | dict(waits="loss"), kineto | dict(chunks=4),
            nsys | dict(counted=True), kineto | dict(lost_pairs=True), nsys | dict(waits="messages")]
    schedules = SCHEDULES + MORE_SCHEDULES
    pairs = [(root, "ramp") for root in ROOTS] + [("slow_rank", "network"), ("imbalance", "network"),
                                                  ("launch_bound", "network"), ("slow_rank", "launch_bound")]
    sizes = [2, 3, 4, 5, 8, 16]
    for seed in seeds:
        for w, way in enumerate(ways):
            for k, (root, second) in enumerate(pairs):
                if way.get("graphs") and "launch_bound" in (root, second):
                    continue  # a graph is one call
                schedule = schedules[(seed + 3 * w + k) % len(schedules)]
                if way.get("chunks"):
                    schedule = "interleaved"
                if schedule in SPLITS and way.get("forwards_only"):
                    schedule = "1f1b"  # the halves of a backward cannot be told apart
                ranks = sizes[(seed + w + 5 * k) % len(sizes)]
                micro_batches = 16 if ranks == 16 else 2 * ranks if schedule == "interleaved" else 2 * ranks + 1
                yield Variant(schedule=schedule, ranks=ranks, micro_batches=micro_batches, root=root, second=second, seed=seed,
                              **way)
