#!/usr/bin/env python3
"""Measures what kernels reach on a device, for an entry of a device catalogue (docs/device-catalogue.md).

    kernel_rates.py --device cuda:0 --csv rates.csv --entry device.json [--time-limit 120] [--small]

Each row of the CSV is one operator at one size: the median, lowest and highest time of a call over the repeats, after a
warm-up, and the rate that follows from the median. A row is written as soon as it is measured. What the device cannot do, or
the time did not suffice for, has a row with the reason as its `status` and no figures. Needs torch alone.
"""
import argparse
import csv
import json
import math
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

COLUMNS = ["family", "operator", "dtype", "direction", "batch", "heads", "m", "n", "k", "aligned", "launched",
           "bytes", "flops", "median_ns", "lowest_ns", "highest_ns", "repeats", "flops_per_second", "bytes_per_second", "status"]
REPEATS = 7
MIB = 1 << 20
BEYOND_CACHES = 512 * MIB  # an operator that moves as much is not served by the caches of a device
# What the families take of the time limit; the rest is for starting.
SHARES = {"launch": 0.05, "product": 0.5, "attention": 0.2, "memory": 0.15, "copy": 0.08}
FLOAT8 = getattr(torch, "float8_e4m3fn", None)
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "tf32": torch.float32, "float32": torch.float32,
          "float64": torch.float64, "float8": FLOAT8}


class LeftOut(Exception):
    """The reason why there is no figure, which is no fault of the device."""


class Device:
    """Times calls on a device: by its events on CUDA, by the clock on the CPU."""

    def __init__(self, name):
        self.device = torch.device(name)
        self.is_cuda = self.device.type == "cuda"
        if self.is_cuda:
            torch.cuda.set_device(self.device)

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def span_ns(self, calls):
        """The time that `calls()` takes on the device."""
        if not self.is_cuda:
            start = time.perf_counter_ns()
            calls()
            return time.perf_counter_ns() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        calls()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e6

    def graph_of(self, call, times):
        """Replays `times` calls by one launch; None where the call cannot be captured."""
        if not self.is_cuda:
            return None
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                call()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(times):
                    call()
            return graph.replay
        except RuntimeError:
            self.wait()
            return None

    def times_of(self, call, deadline, by_graph=True):
        """Times of a call in ns, one for each repeat, and whether they were launched by a graph."""
        call()
        self.wait()
        once = max(self.span_ns(call), 1.0)
        once = min(once, max(self.span_ns(call), 1.0))
        if time.monotonic() + once * (REPEATS + 1) / 1e9 > deadline:
            raise LeftOut("out of time")
        # Events have steps of about half a microsecond: many short calls are timed together.
        inner = max(1, min(200, int(2e6 / once)))
        calls, launched = None, "eager"
        if by_graph and once < 200e3:  # the host may launch more slowly than the device computes
            calls = self.graph_of(call, inner)
            launched = "graph" if calls else "eager"
        if calls is None:
            def calls():
                for _ in range(inner):
                    call()
        calls()
        self.wait()
        return [self.span_ns(calls) / inner for _ in range(REPEATS)], launched


class Sweep:
    def __init__(self, device, small, path, seconds):
        self.device = device
        self.small = small
        self.seconds = seconds
        self.rows = []
        self.deadline = math.inf
        self.file = open(path, "w", newline="")
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="")
        self.writer.writeheader()

    def begin(self, family):
        self.deadline = time.monotonic() + self.seconds * SHARES[family]

    def write(self, row):
        self.rows.append(row)
        self.writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
        self.file.flush()

    def measure(self, row, make, by_graph=True):
        """`make` returns the call; it may raise what the device says of an operator that it lacks."""
        row = {"status": "ok", **row}
        if time.monotonic() > self.deadline:
            self.write({**row, "status": "left out: out of time"})
            return
        try:
            times, launched = self.device.times_of(make(), self.deadline, by_graph)
        except LeftOut as reason:
            self.write({**row, "status": f"left out: {reason}"})
            return
        except (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError) as error:
            said = (str(error) or type(error).__name__).splitlines()[0][:160]
            self.write({**row, "status": f"refused: {said}"})
            return
        median = statistics.median(times)
        row.update(median_ns=median, lowest_ns=min(times), highest_ns=max(times), repeats=len(times), launched=launched)
        if row.get("flops"):
            row["flops_per_second"] = row["flops"] / median * 1e9
        if row.get("bytes"):
            row["bytes_per_second"] = row["bytes"] / median * 1e9
        self.write(row)

    def matrix(self, *shape, dtype):
        return torch.randn(*shape, device=self.device.device, dtype=torch.float32).to(dtype)


def product_shapes(small):
    """(m, n, k): squares, the products of a transformer's layers, and sizes that tiles do not divide."""
    if small:
        return [(128, 128, 128), (256, 256, 256), (256, 256, 255), (64, 512, 256)]
    squares = [(n, n, n) for n in (8192, 4096, 2048, 1024, 512, 256, 128)]
    layers = [(rows, n, k) for rows in (4096, 512, 64, 1) for n, k in ((12288, 4096), (4096, 16384), (4096, 4096), (50304, 4096))]
    unaligned = [(4096, 4096, k) for k in (4088, 4092, 4094, 4095, 4104)]
    unaligned += [(4096, n, 4096) for n in (4088, 4095, 4097)] + [(m, 4096, 4096) for m in (4095, 4000, 4097)]
    rounds = [(m, 4096, 4096) for m in (1024, 1536, 2048, 2560, 3072, 3584, 5120, 6144, 7168)]  # the last round of tiles
    return squares + layers + unaligned + rounds


def make_product(sweep, dtype, m, n, k):
    if dtype == "float8":
        if FLOAT8 is None:
            raise NotImplementedError("this torch has no float8")
        one = torch.ones((), device=sweep.device.device)
        a = sweep.matrix(m, k, dtype=FLOAT8)
        b = sweep.matrix(n, k, dtype=FLOAT8).t()
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    a = sweep.matrix(m, k, dtype=DTYPES[dtype])
    b = sweep.matrix(k, n, dtype=DTYPES[dtype])
    out = torch.empty(m, n, device=a.device, dtype=a.dtype)
    return lambda: torch.mm(a, b, out=out)


def measure_products(sweep):
    sweep.begin("product")
    of_dtype = {"float8": 1, "tf32": 4, "float32": 4, "float64": 8}
    dtypes = ["bfloat16", "float32"] if sweep.small else ["bfloat16", "float8", "tf32", "float16", "float32", "float64"]
    for m, n, k in product_shapes(sweep.small):
        for dtype in dtypes:
            if dtype in ("float16", "float32", "float64") and not sweep.small and (n, k) != (m, m) and (m, n) != (4096, 4096):
                continue  # these three follow the others
            torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
            size = of_dtype.get(dtype, 2)
            # 16 bytes, what the tensor units' loads need of each row.
            aligned = all(length * size % 16 == 0 for length in (n, k))
            row = {"family": "product", "operator": "mm", "dtype": dtype, "direction": "forward", "batch": 1, "m": m, "n": n, "k": k,
                   "aligned": int(aligned), "flops": 2 * m * n * k}
            sweep.measure(row, lambda dtype=dtype, m=m, n=n, k=k: make_product(sweep, dtype, m, n, k))
    torch.backends.cuda.matmul.allow_tf32 = False
    for batch, m, n, k in [(4, 64, 64, 64)] if sweep.small else [(64, 1024, 1024, 64), (64, 1024, 64, 1024), (16, 512, 512, 512)]:
        def make(batch=batch, m=m, n=n, k=k):
            a, b = sweep.matrix(batch, m, k, dtype=torch.bfloat16), sweep.matrix(batch, k, n, dtype=torch.bfloat16)
            return lambda: torch.bmm(a, b)
        sweep.measure({"family": "product", "operator": "bmm", "dtype": "bfloat16", "direction": "forward", "batch": batch, "m": m,
                       "n": n, "k": k, "aligned": 1, "flops": 2 * batch * m * n * k}, make)


def make_attention(sweep, batch, heads, length, width, causal, backward):
    query, key, value = (sweep.matrix(batch, heads, length, width, dtype=torch.bfloat16).requires_grad_(backward) for _ in range(3))

    def forward():
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

    if not backward:
        return forward
    output = forward()
    gradient = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True)


def measure_attention(sweep):
    sweep.begin("attention")
    lengths = [64, 128] if sweep.small else [512, 1024, 2048, 4096, 8192, 16384]
    tokens, heads = (256, 2) if sweep.small else (16384, 16)
    for width in [32] if sweep.small else [128, 64, 256]:
        for length in lengths:
            batch = max(1, tokens // length)
            for causal in (True, False):
                for direction in ("forward", "backward"):
                    products = 2 if direction == "forward" else 5  # the backward recomputes the scores
                    flops = products * 2 * batch * heads * length * length * width // (2 if causal else 1)
                    row = {"family": "attention", "operator": "causal" if causal else "full", "dtype": "bfloat16",
                           "direction": direction, "batch": batch, "heads": heads, "m": length, "n": length, "k": width,
                           "flops": flops}
                    arguments = (batch, heads, length, width, causal, direction == "backward")
                    sweep.measure(row, lambda a=arguments: make_attention(sweep, *a), by_graph=direction == "forward")


def memory_operators(sweep, rows, width):
    """Operator: (bytes that it must move, what makes its call)."""
    size = rows * width * 2

    def tensor():
        return sweep.matrix(rows, width, dtype=torch.bfloat16)

    def of_one(function):
        def make():
            x = tensor()
            return lambda: function(x)
        return make

    def of_two(function):
        def make():
            x, y = tensor(), tensor()
            return lambda: function(x, y)
        return make

    def backward(function):
        def make():
            x = tensor().requires_grad_()
            y = function(x)
            gradient = torch.randn_like(y)
            return lambda: torch.autograd.grad(y, x, gradient, retain_graph=True)
        return make

    def adam():
        parameter = torch.nn.Parameter(torch.randn(rows * width, device=sweep.device.device))
        parameter.grad = torch.randn_like(parameter)
        optimizer = torch.optim.AdamW([parameter], fused=True)
        return optimizer.step

    def norm(x):
        return F.layer_norm(x, (width,))

    return {("copy", "forward"): (2 * size, of_one(torch.clone)), ("add", "forward"): (3 * size, of_two(torch.add)),
            ("fill", "forward"): (size, of_one(lambda x: x.zero_())), ("sum", "forward"): (size, of_one(torch.sum)),
            ("gelu", "forward"): (2 * size, of_one(F.gelu)), ("gelu", "backward"): (3 * size, backward(F.gelu)),
            ("softmax", "forward"): (2 * size, of_one(lambda x: F.softmax(x, -1))),
            ("softmax", "backward"): (3 * size, backward(lambda x: F.softmax(x, -1))),
            ("layer_norm", "forward"): (2 * size, of_one(norm)), ("layer_norm", "backward"): (3 * size, backward(norm)),
            ("transpose", "forward"): (2 * size, of_one(lambda x: x.t().contiguous())),
            ("to_float32", "forward"): (3 * size, of_one(torch.Tensor.float)),
            ("adamw", "update"): (7 * 4 * rows * width, adam)}


def measure_memory(sweep):
    sweep.begin("memory")
    for rows in [64, 256] if sweep.small else [16384, 65536, 4096, 1024, 128]:
        width = 256 if sweep.small else 4096
        for (name, direction), (size, make) in memory_operators(sweep, rows, width).items():
            row = {"family": "memory", "operator": name, "dtype": "float32" if name == "adamw" else "bfloat16",
                   "direction": direction, "m": rows, "n": width, "bytes": size}
            sweep.measure(row, make, by_graph=direction == "forward")


def measure_launches(sweep):
    """A kernel that does nearly nothing: the time from launch to launch is the host's, or the device's by a graph."""
    sweep.begin("launch")
    count = 50 if sweep.small else 1000
    x = torch.zeros(1, device=sweep.device.device)

    def calls():
        for _ in range(count):
            x.add_(1)

    def per_call(times):
        return [each / count for each in times]

    for launched in ("eager", "graph", "host"):
        row = {"family": "launch", "operator": "add", "dtype": "float32", "direction": "forward", "launched": launched, "status": "ok"}
        run = calls
        if launched == "graph":
            run = sweep.device.graph_of(lambda: x.add_(1), count)
            if run is None:
                sweep.write({**row, "status": f"left out: {sweep.device.device.type} has no graphs"})
                continue
        run()
        sweep.device.wait()
        times = []
        for _ in range(REPEATS):
            if launched == "host":  # until the host is free again; the queue is empty before
                start = time.perf_counter_ns()
                run()
                times.append(time.perf_counter_ns() - start)
                sweep.device.wait()
            else:
                times.append(sweep.device.span_ns(run))
        times = per_call(times)
        sweep.write({**row, "median_ns": statistics.median(times), "lowest_ns": min(times), "highest_ns": max(times),
                     "repeats": REPEATS})


def measure_copies(sweep):
    sweep.begin("copy")
    device = sweep.device.device
    others = [k for k in range(torch.cuda.device_count()) if k != device.index] if sweep.device.is_cuda else []
    ways = [("host to device", True), ("device to host", True), ("host to device", False), ("device to host", False),
            ("device to device", False)]
    for way, pinned in ways:
        for size in [4096, MIB] if sweep.small else [4096, 64 * 1024, MIB, 16 * MIB, 256 * MIB]:
            def make(way=way, pinned=pinned, size=size):
                if not sweep.device.is_cuda and way != "device to device":
                    raise LeftOut("the CPU's memory is the host's")
                if way == "device to device" and sweep.device.is_cuda and not others:
                    raise LeftOut("there is one device")
                here = torch.empty(size, dtype=torch.uint8, device=device)
                there = torch.empty(size, dtype=torch.uint8, device=f"cuda:{others[0]}" if way == "device to device" and others
                                    else "cpu", pin_memory=pinned)
                source, target = (there, here) if way == "host to device" else (here, there)
                return lambda: target.copy_(source, non_blocking=True)
            sweep.measure({"family": "copy", "operator": way + (", pinned" if pinned else ""), "dtype": "uint8",
                           "direction": "forward", "m": size, "bytes": size}, make, by_graph=False)


def entry_of(sweep, name):
    """The catalogue's entry that the rows give; docs/device-catalogue.md says which figure is which."""
    good = [row for row in sweep.rows if row["status"] == "ok"]
    products = [row for row in good if row["family"] == "product" and row["operator"] == "mm"]
    known = ("float64", "float32", "tf32", "float16", "bfloat16")  # the dtypes that a catalogue has
    peaks = {dtype: max(row["flops_per_second"] for row in products if row["dtype"] == dtype)
             for dtype in known if any(row["dtype"] == dtype for row in products)}
    large = 100 if sweep.small else 1024
    shares = [row["flops_per_second"] / peaks[row["dtype"]] for row in products
              if row["dtype"] in peaks and row["aligned"] and min(row["m"], row["n"], row["k"]) >= large]
    memory = [row for row in good if row["family"] == "memory" and (sweep.small or row["bytes"] >= BEYOND_CACHES)]
    launches = [row["median_ns"] for row in good if row["family"] == "launch" and row["launched"] == "eager"]
    missing = [what for what, there in (("products in float32", "float32" in peaks), ("large aligned products", shares),
                                        ("operators that move memory", memory), ("launches", launches)) if not there]
    if missing:
        return None, f"not measured: {', '.join(missing)}"
    fastest = max(row["bytes_per_second"] for row in memory)
    entry = {"name": name, "flops_per_second": peaks, "memory_bytes_per_second": fastest, "launch_ns": round(launches[0]),
             "compute_efficiency": statistics.median(shares), "matmul_efficiency": 1,
             "memory_efficiency": statistics.median(row["bytes_per_second"] for row in memory) / fastest}
    if sweep.device.is_cuda:
        properties = torch.cuda.get_device_properties(sweep.device.device)
        entry.update(memory_bytes=properties.total_memory, multiprocessors=properties.multi_processor_count)
    else:
        entry.update(memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    between = [row for row in good if row["family"] == "copy" and row["operator"] == "device to device"]
    said = f"measured by kernel_rates.py with torch {torch.__version__}; link: "
    if between and sweep.device.is_cuda:
        entry.update(link_bytes_per_second=max(row["bytes_per_second"] for row in between),
                     link_latency_ns=min(row["median_ns"] for row in between))
        entry["source"] = said + "copies between two devices of this host"
    else:
        entry["source"] = said + "not measured, and free here: add link_bytes_per_second and link_latency_ns"
    return entry, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--csv", required=True)
    parser.add_argument("--entry", help="write the entry of a device catalogue, if enough was measured")
    parser.add_argument("--time-limit", type=float, default=120, help="in seconds")
    parser.add_argument("--small", action="store_true", help="few small sizes, to try the program on a CPU")
    options = parser.parse_args()
    torch.manual_seed(0)
    for option, path in (("--csv", options.csv), ("--entry", options.entry)):
        try:
            if path:
                open(path, "w").close()  # now, rather than after minutes of measuring; and no earlier entry stays
        except OSError as error:
            parser.error(f"{option} is '{path}', which cannot be written ({error.strerror}); name a file that can be made")
    try:
        device = Device(options.device)
    except (RuntimeError, AssertionError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        parser.error(f"--device is '{options.device}', which torch refuses ({said}); name a GPU such as cuda:0, or cpu")
    if not device.is_cuda:
        torch.set_num_threads(1)  # two programs' threads that share cores wait for each other
    sweep = Sweep(device, options.small, options.csv, options.time_limit)
    for family in (measure_launches, measure_products, measure_attention, measure_memory, measure_copies):
        started = time.monotonic()
        family(sweep)
        print(f"{family.__name__}: {len(sweep.rows)} rows so far, {time.monotonic() - started:.1f} s", flush=True)
    counts = {word: sum(row["status"].startswith(word) for row in sweep.rows) for word in ("ok", "refused", "left out")}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    if options.entry:
        what = torch.cuda.get_device_name(device.device) if device.is_cuda else "CPU"
        entry, fault = entry_of(sweep, what.replace(" ", "-") + "-measured")
        if entry is None:
            os.remove(options.entry)
            print(f"no entry of a catalogue: {fault}")
            return 1
        with open(options.entry, "w") as file:
            json.dump({"format": "pipescope.devices", "version": 1, "devices": [entry]}, file, indent=1)
        print(json.dumps(entry, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
