"""Tasks and memory over time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pipescope import _core
from pipescope._values import imported_pandas

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

KINDS: tuple[str, ...] = tuple(_core.task_kinds())

# The viewer's colours (Okabe and Ito), which people who see colours differently can tell apart.
_COLORS = {
    "forward": "#e69f00",
    "recompute": "#f0e442",
    "backward": "#0072b2",
    "backward_weight": "#56b4e9",
    "copy_forward": "#009e73",
    "copy_backward": "#009e73",
    "skip_forward": "#66c2a5",
    "skip_backward": "#66c2a5",
    "loss": "#d55e00",
    "optimizer": "#cc79a7",
    "all_reduce": "#d55e00",
    "shared_forward": "#66c2a5",
    "shared_backward": "#66c2a5",
    "shared_sum": "#d55e00",
}
_COPIES = ("copy_forward", "copy_backward", "skip_forward", "skip_backward", "shared_forward", "shared_backward")
_LIGHT_TEXT = ("backward", "loss", "all_reduce", "shared_sum")


class Lane(NamedTuple):
    """A serial worker of a pipeline."""

    name: str
    device: str


class Task(NamedTuple):
    """One task on a lane. Times in ns: since the start of the recording, or of the simulated step. A field without
    meaning is -1, such as the micro_batch of a loss of the whole mini-batch."""

    kind: str
    step: int
    partition: int
    micro_batch: int
    lane: int
    start_ns: int
    end_ns: int
    bytes: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def _column(data: bytes) -> array[int]:
    values = array("q")
    values.frombytes(data)
    return values


class _Columns:
    """Rows as columns of 64-bit integers. Immutable: nothing changes a column."""

    _columns: dict[str, array[int]]

    @property
    def columns(self) -> dict[str, memoryview]:
        """Read-only views of the columns, of 64-bit integers (format q), as numpy.asarray() takes them."""
        return {name: memoryview(values).toreadonly() for name, values in self._columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _frame(self) -> pandas.DataFrame:
        pandas = imported_pandas()
        import numpy

        return pandas.DataFrame({name: numpy.array(values, dtype="int64") for name, values in self._columns.items()})


class MemorySamples(_Columns):
    """Memory of the lanes over time. Columns: lane, time_ns, and in bytes allocated_bytes, peak_bytes (the highest since
    the sample before) and reserved_bytes (held by the caching allocator)."""

    def __init__(self, columns: Mapping[str, bytes]) -> None:
        self._columns = {name: _column(data) for name, data in columns.items()}

    def __repr__(self) -> str:
        return f"MemorySamples({len(self)} samples)"

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each sample."""
        return self._frame()


class Timeline(_Columns):
    """The tasks of a run or of a simulated step, by start. A sequence of Task.

    A notebook draws it. Threading: immutable, use it from any thread.
    """

    source: str  #: "measured" or "simulated"
    lanes: tuple[Lane, ...]

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.source = columns["source"]
        self.lanes = tuple(Lane(*lane) for lane in columns["lanes"])
        names = ("kind", "step", "partition", "micro_batch", "lane", "start_ns", "end_ns", "bytes")
        self._columns = {name: _column(columns[name]) for name in names}

    def __repr__(self) -> str:
        return f"Timeline({self.source}, {len(self.lanes)} lanes, {len(self)} tasks)"

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, place: int | slice) -> Task | tuple[Task, ...]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        kind, *rest = (values[place] for values in self._columns.values())
        return Task(KINDS[kind], *rest)

    def __iter__(self) -> Iterator[Task]:
        for kind, *rest in zip(*self._columns.values()):
            yield Task(KINDS[kind], *rest)

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of the steps that have a task, ascending."""
        return tuple(sorted(set(self._columns["step"])))

    def step(self, number: int) -> Timeline:
        """The tasks of one step."""
        chosen = [place for place, each in enumerate(self._columns["step"]) if each == number]
        part = object.__new__(Timeline)
        part.source, part.lanes = self.source, self.lanes
        part._columns = {name: array("q", (values[k] for k in chosen)) for name, values in self._columns.items()}
        return part

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each task: kind and lane_name as texts, times in ns."""
        frame = self._frame()
        frame["kind"] = imported_pandas().Categorical.from_codes(self._columns["kind"], categories=list(KINDS))
        frame["duration_ns"] = frame["end_ns"] - frame["start_ns"]
        frame.insert(0, "source", self.source)
        return frame

    def _shown(self) -> Timeline:
        """What a picture shows: all, or of many steps the one of median length."""
        bounds: dict[int, tuple[int, int]] = {}
        for number, start, end in zip(*(self._columns[name] for name in ("step", "start_ns", "end_ns"))):
            first, last = bounds.get(number, (start, end))
            bounds[number] = (min(first, start), max(last, end))
        if len(bounds) <= 3:
            return self
        lengths = sorted((last - first, number) for number, (first, last) in bounds.items())
        return self.step(lengths[len(lengths) // 2][1])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the tasks into matplotlib's axes, one row for each lane, time in ms. Of more than three steps it draws the
        one of median length."""
        try:
            from matplotlib import pyplot
            from matplotlib.patches import Patch
        except ImportError as error:
            raise ImportError("plot() needs matplotlib; install it: pip install matplotlib") from error
        axes = ax if ax is not None else pyplot.subplots(figsize=(10, 0.6 + 0.5 * max(len(self.lanes), 1)))[1]
        tasks = list(self._shown())
        start = min((task.start_ns for task in tasks), default=0)
        rows: dict[tuple[int, bool], list[Task]] = {}
        for task in tasks:
            rows.setdefault((task.lane, task.kind in _COPIES), []).append(task)
        for (lane, copies), of_row in sorted(rows.items()):
            height = 0.25 if copies else 0.8
            axes.broken_barh(
                [((task.start_ns - start) / 1e6, task.duration_ns / 1e6) for task in of_row],
                (lane - height / 2, height),
                facecolors=[_COLORS[task.kind] for task in of_row],
                edgecolors="white",
                linewidth=0.5,
            )
        axes.set_yticks(range(len(self.lanes)), [lane.name for lane in self.lanes])
        axes.set_ylim(len(self.lanes) - 0.5, -0.5)
        axes.set_xlabel("ms")
        kinds = _kinds_of(tasks)
        if kinds:
            axes.legend(
                handles=[Patch(color=_COLORS[kind], label=kind) for kind in kinds], loc="upper left",
                bbox_to_anchor=(1, 1), frameon=False,
            )
        return axes

    def to_svg(self, width: int = 900) -> str:
        """A picture of its own of that many pixels, one row for each lane. Of more than three steps it has the one of
        median length."""
        return _svg(self._shown(), width)

    def _repr_html_(self) -> str:
        return self.to_svg()


def _kinds_of(tasks: list[Task]) -> list[str]:
    """The kinds that occur, in their usual order."""
    occurring = {task.kind for task in tasks}
    return [kind for kind in KINDS if kind in occurring]


_ROW, _LEFT, _TOP = 26, 70, 8


def _svg(timeline: Timeline, width: int) -> str:
    tasks = list(timeline)
    rows = max(len(timeline.lanes), 1)
    start = min((task.start_ns for task in tasks), default=0)
    span = max(max((task.end_ns for task in tasks), default=1) - start, 1)
    scale = (width - _LEFT - 10) / span
    kinds = _kinds_of(tasks)
    bottom = _TOP + rows * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 44}" '
        f'viewBox="0 0 {width} {bottom + 44}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(timeline.source)} timeline of {rows} lanes</title>",
    ]
    for number, lane in enumerate(timeline.lanes):
        y = _TOP + number * _ROW
        parts.append(f'<text x="0" y="{y + 17}" fill="currentColor">{escape(lane.name[:11])}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{y + 2}" width="{width - _LEFT - 10}" height="{_ROW - 4}" fill="#8882"/>')
    drawn: dict[tuple[int, bool], float] = {}
    for task in tasks:
        copy = task.kind in _COPIES
        left, right = _LEFT + (task.start_ns - start) * scale, _LEFT + (task.end_ns - start) * scale
        if right < drawn.get((task.lane, copy), -1.0) + 0.8:
            continue  # narrower than a picture can show, beside what is drawn already
        drawn[task.lane, copy] = right
        parts.append(_rectangle(task, left, max(right - left, 0.8), copy, start))
    parts += _axis(span, scale, bottom)
    x = float(_LEFT)
    for kind in kinds:
        parts.append(f'<rect x="{x:.0f}" y="{bottom + 26}" width="10" height="10" fill="{_COLORS[kind]}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="{bottom + 35}" fill="currentColor">{kind}</text>')
        x += 26 + 6.2 * len(kind)
    return "".join([*parts, "</svg>"])


def _rectangle(task: Task, left: float, width: float, copy: bool, start: int) -> str:
    y = _TOP + task.lane * _ROW + (18 if copy else 2)
    height = 6 if copy else _ROW - 4
    label = f"{task.kind} of micro-batch {task.micro_batch}, partition {task.partition}" if task.micro_batch >= 0 else task.kind
    title = f"{label}: {task.duration_ns / 1e6:.4g} ms from {(task.start_ns - start) / 1e6:.4g} ms"
    shape = (
        f'<rect x="{left:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{_COLORS[task.kind]}" stroke="#fff" '
        f'stroke-width="{0.5 if width > 3 else 0}"><title>{title}</title></rect>'
    )
    if copy or width < 14 or task.micro_batch < 0:
        return shape
    ink = "#fff" if task.kind in _LIGHT_TEXT else "#000"
    text = f'<text x="{left + width / 2:.1f}" y="{y + 15}" text-anchor="middle" fill="{ink}" pointer-events="none">'
    return f"{shape}{text}{task.micro_batch}</text>"


def _axis(span: int, scale: float, bottom: int) -> list[str]:
    """Marks at round times, about eight of them."""
    step = 1
    while span / step > 8:
        step *= 2 if str(step)[0] in "15" else 1
        step = step * 5 // 2 if str(step)[0] == "2" and span / step > 8 else step
    unit, name = next((pair for pair in ((10**9, "s"), (10**6, "ms"), (10**3, "us")) if step >= pair[0]), (1, "ns"))
    marks = []
    for time in range(0, span + 1, step):
        x = _LEFT + time * scale
        marks.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#8884"/>')
        marks.append(f'<text x="{x:.1f}" y="{bottom + 13}" text-anchor="middle" fill="currentColor">{time / unit:g} {name}</text>')
    return marks
