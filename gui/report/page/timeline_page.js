// Draws the timelines of a PipeScope page. All data is in the element #data; see timelinePageData() for its form.
// Times are ns since the page's origin. Texts of the trace only ever become text nodes or canvas text.
'use strict';
(() => {
const whole = JSON.parse(document.getElementById('data').textContent);
if (whole.names) {  // a text is written once; elsewhere is the number of the name that has it
  for (const column of ['name', 'brief']) {
    whole.names[column] = whole.names[column].map((text, i, all) => (typeof text === 'number' ? all[text] : text));
  }
}
const otherSteps = new Map((whole.others || []).map((other) => [other.step, other]));
const isHeld = (step) => step === whole.step || otherSteps.has(step);
/// What the page shows of a step: its own measured timeline, figures and lanes, and the simulated timeline moved to it.
/// Threads and counters are those of the step that was exported; so is memory, unless the page holds that of the step.
function dataOf(step) {
  const other = otherSteps.get(step);
  if (!other) {
    return whole;
  }
  const {measured, simulated, memory, ...own} = other;
  const shown = {...whole, ...own};
  shown.timelines = whole.timelines.filter((line) => line.source !== 'threads').map((line) => (line.source === 'simulated'
    ? {...line, ...simulated} : {source: line.source, title: line.title, lanes: line.lanes, noTwin: line.noTwin, ...measured}));
  if (memory) {
    shown.memory = whole.memory.map((lane, k) => ({...lane, measured: memory[k],
      simulated: lane.simulated && {...lane.simulated, by: simulated.by}}));
  }
  for (const name of [...(memory ? [] : ['memory']), 'counters', 'selected', 'others', ...(own.lateness ? [] : ['lateness'])]) {
    delete shown[name];
  }
  return shown;
}
/// What stays as it is from step to step.
const kept = {mode: whole.mode, causes: whole.causes, critical: whole.criticalPath, composition: Boolean(whole.composition), find: '',
              theme: whole.theme === 'system' ? null : whole.theme};
let shownPage = null;  // what openPage() gave
const systemTheme = window.matchMedia('(prefers-color-scheme: dark)');

/// Builds the page of a step, and removes that of another one. `link`: the view to show, as viewText() writes it.
function openPage(step, link) {
if (shownPage) {
  shownPage.close();
}
const data = dataOf(step);
const THREADS = Boolean(data.threads);  // ranges of threads and counters instead of a pipeline's tasks

// ---- Formats, as in the viewer

const TIME_UNITS = [[1e9, 's', 9], [1e6, 'ms', 6], [1e3, 'µs', 3], [1, 'ns', 0]];
const NBSP = '\u00a0';
/// `rounded`: 999.95 of a unit are shown as one of the next.
const unitFor = (ns, rounded = false) =>
  TIME_UNITS.find(([size]) => Math.abs(ns) >= size - (rounded ? Math.floor(size / 20000) : 0)) || TIME_UNITS[3];
/// Decimals for three significant digits, or for `more`, of the rounded value: 9.9996 becomes 10.00, not 10.000.
function decimalsFor(value, more = 0) {
  const decimalsOf = (size) => more + (size >= 100 ? 0 : size >= 10 ? 1 : 2);
  const unit = 10 ** decimalsOf(Math.abs(value));
  return decimalsOf(Math.round(Math.abs(value) * unit) / unit);
}

const numberFormats = new Map();  // in the language of the figures that were written with the page
function numberText(value, decimals, useGrouping) {
  const key = 2 * decimals + Number(useGrouping);
  if (!numberFormats.has(key)) {
    numberFormats.set(key, new Intl.NumberFormat(`${data.language}-u-nu-latn`,
      {minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping}));
  }
  return numberFormats.get(key).format(value).replace('-', '−');
}
const grouped = (value, decimals) => numberText(value, decimals, data.grouping);
const GROUPED = 10000;  // from here on digits are always in groups
const withUnit = (value, decimals, unit) =>
  numberText(value, decimals, data.grouping || Math.abs(value) >= GROUPED) + NBSP + unit;
function withSign(text, value) {
  const digits = text.replace(/^[-−]/, '');
  return /[1-9]/.test(digits) ? (value < 0 ? '−' : '+') + digits : digits;
}
function duration(ns) {
  const [size, name] = unitFor(ns, true);
  const value = ns / size;
  return withUnit(value, size === 1 || Math.abs(value) >= GROUPED ? 0 : decimalsFor(value, 1), name);
}
const change = (ns) => withSign(duration(ns), ns);
const share = (value) => withUnit(value * 100, 1, '%');
function bytesText(bytes) {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let value = bytes;
  for (; Math.abs(value) >= 1023.5 && unit + 1 < names.length; ++unit) {
    value /= 1024;
  }
  return withUnit(value, unit === 0 ? 0 : decimalsFor(value), names[unit]);
}
/// Text of a tick; all ticks of a ruler share unit and decimals.
function tickText(ns, step, largest) {
  const [size, name, most] = unitFor(Math.max(Math.abs(largest), step));
  let decimals = most;
  for (let rest = Math.max(Math.round(step), 1); decimals > 0 && rest % 10 === 0; rest /= 10) {
    --decimals;
  }
  return withUnit(ns === 0 ? 0 : ns / size, decimals, name);  // ns may be -0
}

// ---- Elements

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'class') {
      made.className = value;
    } else if (name.startsWith('on')) {
      made.addEventListener(name.slice(2), value);
    } else {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const factRow = (name, value) => element('tr', {}, element('th', {scope: 'row'}, name), element('td', {}, value));

/// Columns of figures are aligned to the right. A cell of them starts with a digit or a sign, or says that none is known.
/// A cell is a text or an element.
function tableElement({title, header, rows, note}) {
  const sides = header.map((name, i) => (i > 0 && rows.every((cells) => /^($|[0-9+−–])/.test(cells[i])) ? 'number' : 'text'));
  const row = (cells, scope) => element('tr', {}, ...cells.map((cell, i) =>
    (scope || i === 0 ? element('th', {scope: scope || 'row', class: sides[i]}, cell) : element('td', {class: sides[i]}, cell))));
  return element('div', {},
    element('h2', {}, title),
    rows.length === 0 ? null : element('table', {'aria-label': title}, element('thead', {}, row(header, 'col')),
      element('tbody', {}, ...rows.map((cells) => row(cells, '')))),
    note ? element('p', {class: 'faint'}, note) : null);
}

// ---- Tasks

/// One timeline's tasks in columns, unpacked from the gaps between them.
function unpack(packed) {
  const count = packed.start.length;
  const line = {
    source: packed.source, title: packed.title, facts: packed.facts, factsWithPath: packed.factsWithPath || packed.facts, noTwin: packed.noTwin, lanes: packed.lanes,
    threads: packed.source === 'threads', names: packed.names || data.names,
    only: packed.only === undefined ? null : packed.only,  // other steps, which overlap this one, are faint
    steps: packed.steps.map(([number, from, to]) => [number, from + (packed.by || 0), to + (packed.by || 0)]), count, start: new Float64Array(count), end: new Float64Array(count), name: packed.name,
    kind: new Uint8Array(count), twin: packed.twin || new Int32Array(count).fill(-1), late: packed.late, bound: packed.bound ? [packed.bound[0] + (packed.by || 0), packed.bound[1]] : null, tiers: packed.tiers || null, bytes: packed.bytes, row: new Uint32Array(count),
    stepOf: (i) => (Array.isArray(packed.step) ? packed.step[i] : packed.step), rows: [], bubbles: [],
    critical: packed.critical, isCritical: new Uint8Array(count),
  };
  const by = packed.by || 0;  // the simulated timeline of another step
  let i = 0;
  packed.rows.forEach((row, index) => {
    const first = i;
    for (let before = by; i < first + row.tasks; ++i) {
      line.start[i] = before + packed.start[i];
      line.end[i] = before = line.start[i] + packed.length[i];
      line.kind[i] = line.names.kind[packed.name[i]] + (line.threads ? data.kinds.length : 0);  // an index into paints
      line.row[i] = index;
    }
    const kernels = Boolean(row.kernels);
    const sameLane = line.rows.filter((each) =>
      each.lane === row.lane && each.copies === row.copies && each.kernels === kernels).length;
    line.rows.push({lane: row.lane, copies: row.copies, kernels, first, end: i, depth: sameLane, top: 0, height: 0});
  });
  line.places = line.lanes.map((lane) => new Map(lane.places || []));  // by lane: those of its partitions among them, 0 to 1
  line.inOrder = [...line.rows].sort((a, b) => a.lane - b.lane);  // from top to bottom; kernels are below their lane's tasks
  line.critical.forEach((task) => { line.isCritical[task] = 1; });
  line.stepStart = new Map(line.steps.map(([number, start]) => [number, start]));
  const {lane, start, length, cause, culprit, next, root} = packed.bubbles;
  lane.forEach((number, b) => {
    line.bubbles.push({number: b, lane: number, start: start[b] + by, end: start[b] + length[b] + by, cause: cause[b],
                       culprit: culprit[b], next: next[b], root: root ? root[b] : -1});
  });
  let to = 0;
  line.arrows = packed.arrows.to.map((gap, k) => ({to: (to += gap), from: to - packed.arrows.from[k]}));
  return line;
}
const MOST_ARROWS = 24;  // more would be illegible
/// From what a task waits for, the last of it first, and to what waits for the task.
function arrowsOf(line, task) {
  const before = line.arrows.filter((arrow) => arrow.to === task).sort((a, b) => line.end[b.from] - line.end[a.from]);
  return [...before, ...line.arrows.filter((arrow) => arrow.from === task)].slice(0, MOST_ARROWS);
}
const timelines = data.timelines.map(unpack);  // that of threads, if there is one, is the last
const measured = timelines.find((line) => line.source === 'measured') || null;
const simulated = timelines.find((line) => line.source === 'simulated') || null;
const otherOf = (line) => (line === measured ? simulated : measured);
/// Of two runs, the simulated timeline is that of the run before.
const calledOf = (source) => (!data.twoRuns ? source : source === 'measured' ? 'after' : 'before');
const capital = (word) => word[0].toUpperCase() + word.slice(1);
const nameOf = (line, i) => line.names.name[line.name[i]];
const isKernel = (line, i) => line.rows[line.row[i]].kernels;

/// Start of the task's own step; the simulated timeline has one step, whatever its tasks' numbers.
function stepStartOf(line, i) {
  const found = line.stepStart.get(line.stepOf(i));
  return found !== undefined ? found : line.steps.length > 0 ? line.steps[0][1] : 0;
}

/// A task's facts, and how it differs from its twin: simulated minus measured, or after minus before, each since the start
/// of its own step.
function factsOf(line, i) {
  const facts = {
    name: nameOf(line, i), lane: line.lanes[line.rows[line.row[i]].lane], kind: line.threads ? '' : data.kinds[line.kind[i]].name,
    partition: line.threads ? -1 : line.names.partition[line.name[i]], microBatch: line.threads ? -1 : line.names.microBatch[line.name[i]],
    step: line === simulated && measured !== null ? data.step : line.stepOf(i),
    start: line.start[i] - stepStartOf(line, i), duration: line.end[i] - line.start[i],
    bytes: line.bytes ? line.bytes[i] : 0, twin: null,
  };
  const t = line.twin[i];
  if (t >= 0) {
    const other = otherOf(line);
    const twin = {start: other.start[t] - stepStartOf(other, t), duration: other.end[t] - other.start[t]};
    const [m, s] = (line === measured) !== Boolean(data.twoRuns) ? [facts, twin] : [twin, facts];
    facts.twin = {
      ...twin, startChange: s.start - m.start, durationChange: s.duration - m.duration,
      endChange: s.start + s.duration - m.start - m.duration,
      ratio: m.duration > 0 ? (s.duration - m.duration) / m.duration : null,
    };
  }
  return facts;
}

// ---- State

let low = data.range[0];
let high = data.range[1];
for (const line of timelines.filter((each) => !each.threads || timelines.length === 1)) {  // twins may lie outside the exported range
  for (const row of line.rows) {
    if (row.end > row.first) {
      low = Math.min(low, line.start[row.first]);
      high = Math.max(high, line.end[row.end - 1]);
    }
  }
}
const SHORTEST = 100;  // ns
const home = {start: data.range[0], length: Math.max(SHORTEST, data.range[1] - data.range[0])};
const view = {...home};
const state = {
  mode: kept.mode === 'difference' && !data.lateness ? 'side-by-side' : kept.mode,
  causes: kept.causes, critical: kept.critical, composition: kept.composition,
  hidden: new Set(), hovered: null, selected: null, theme: 'light', cursor: null,
  chosen: null,  // a bubble that was clicked, with its line
  find: '', hits: [], hit: -1,  // what is searched, what was found, and which of them is selected
  arrows: [],  // of the selected task
  bubble: null,  // under the pointer, with its line
};

function show(start, length) {
  const whole = Math.max(SHORTEST, high - low);
  view.length = Math.min(Math.max(length, SHORTEST), whole);
  view.start = Math.min(Math.max(start, low), high - view.length);
  schedule();
}
/// `anchor`: the share of the view's width that keeps its time.
function zoom(anchor, factor) {
  const length = Math.min(Math.max(view.length * factor, SHORTEST), Math.max(SHORTEST, high - low));
  show(view.start + anchor * (view.length - length), length);
}
const pan = (part) => show(view.start + part * view.length, view.length);

// ---- Colours

const rgba = (hex) => {  // as a pixel of ImageData, on a little-endian machine
  const value = parseInt(hex.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
};
function mix(ground, color, part) {
  const channel = (shift) => {
    const from = (ground >>> shift) & 255;
    return (from + (((color >>> shift) & 255) - from) * part) << shift;
  };
  return ((255 << 24) | channel(16) | channel(8) | (channel(0) & 255)) >>> 0;
}
const cssOf = (color) => `#${[0, 8, 16].map((shift) => ((color >>> shift) & 255).toString(16).padStart(2, '0')).join('')}`;
/// The shade of the partition at this place among those of its lane, from 0 to 1.
const shadeOf = (color, place) => cssOf(mix(color, rgba('#000000'), data.darkestShade * place));
const PLAIN = [0, 0, 0, 0, 0, 0, 0, 0];
const RANGE_COLORS = data.rangeColors || [];
const FIRST_LATE = data.kinds.length + RANGE_COLORS.length;  // in paints
const FIRST_FAINT = FIRST_LATE + (data.lateness || []).length;
/// Everything a task can be painted with: kinds, colours of ranges, lateness, faint kinds, links of a cluster.
let paints = [];
let groundPaints = [];
let colors = data.colors.light;
function choosePaints() {
  const dark = state.theme === 'dark';
  colors = data.colors[state.theme];
  const lane = rgba(colors.lane);
  const kinds = data.kinds.map((kind) =>
    ({color: rgba(kind.color), ink: rgba(kind.ink), tile: kind.tile, css: kind.color, text: kind.text}));
  const ranges = RANGE_COLORS.map((css) => ({color: rgba(css), ink: rgba(css), tile: PLAIN, css, text: textOn(css)}));
  const late = (data.lateness || []).map((each) => {
    const css = dark ? each.dark : each.light;
    return {color: rgba(css), ink: rgba(dark ? each.darkInk : each.lightInk), tile: each.tile, css, text: textOn(css)};
  });
  const faint = kinds.map((kind) => {
    const color = mix(lane, kind.color, 0.2);
    return {color, ink: lane, tile: PLAIN, css: cssOf(color), text: colors.faintText};
  });
  const tiers = (data.tiers || []).map((tier) => (
    {color: rgba(tier.color), ink: rgba(tier.color), tile: PLAIN, css: tier.color, text: textOn(tier.color)}));
  paints = [...kinds, ...ranges, ...late, ...faint, ...tiers];
  groundPaints = [
    {ink: rgba(colors.bubbleDot), tile: [0, 34, 0, 0, 0, 34, 0, 0]},
    ...data.bubbleCauses.map((cause) => ({ink: rgba(dark ? cause.dark : cause.light), tile: cause.tile})),
  ];
}
function textOn(hex) {
  const value = parseInt(hex.slice(1), 16);
  return 0.299 * (value >> 16) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255) > 100 ? '#000000' : '#ffffff';
}
/// The paint of a task in the current mode.
function paintOf(line, i) {
  if (line.threads) {
    return line.kind[i];
  }
  const tier = line.tiers && data.kinds[line.kind[i]].hops ? line.tiers[line.names.partition[line.name[i]]] : -1;
  if (tier >= 0) {
    return paints.length - data.tiers.length + tier;
  }
  if (state.mode !== 'difference' || line !== measured || !line.late) {
    return line.only !== null && line.stepOf(i) !== line.only ? FIRST_FAINT + line.kind[i] : line.kind[i];
  }
  if (line.late[i] >= 0) {
    return FIRST_LATE + line.late[i];
  }
  return line.rows[line.row[i]].copies || isKernel(line, i) ? line.kind[i] : FIRST_FAINT + line.kind[i];
}

// ---- Panes

const TICKS = 22;  // CSS pixels
const RULER = TICKS + (data.rangeNotes.length ? 20 : 0);  // with the line of notes
const LANE_GAP = 4;
const COPY_ROW = 7;
const KERNEL_ROW = 12;
const RANGE_ROW = 20;  // of threads
const LEAST_NAME = 30;  // a narrower range shows no name
const LOWEST_ROW = 18;
const TALLEST_ROW = 56;
const MEMORY_LANE = 20;
const STACK_LANE = 48;  // of a stack by category
const FONT = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif';
const SMALL = 0.75;  // size of a small label
const SMALL_FONT = FONT.replace('12px', `${12 * SMALL}px`);
const TALL_GHOST = 20;  // a simulated outline is in the lower part of a bar of this height, so that its label stays readable
const GHOST_TOP = 0.62;
const TOP_INSET = 2;  // of the top of a bar on a lane of several partitions, which has their shades
const TOP_WITH_NUMBER = 11;
const LOWEST_WITH_NUMBER = 33;
const LEAST_BORDER = 4;
const FAINTEST = 0.25;  // keeps a short task alone in its pixel visible
const SOLID = 0.9;

const measuring = document.createElement('canvas').getContext('2d');
measuring.font = FONT;
const textWidth = (() => {
  const known = new Map();
  return (text) => {
    let width = known.get(text);
    if (width === undefined) {
      width = measuring.measureText(text).width;
      known.set(text, width);
    }
    return width;
  };
})();
function elided(text, width) {
  if (textWidth(text) <= width) {
    return text;
  }
  for (let kept = text.length - 1; kept > 1; --kept) {  // from the middle: lanes of a name differ at its end
    const short = `${text.slice(0, Math.floor(kept / 2))}…${text.slice(text.length - Math.ceil(kept / 2))}`;
    if (measuring.measureText(short).width <= width) {
      return short;
    }
  }
  return '…';
}
/// Keeps separators and figures beside a name in Hebrew or Arabic in their order.
const isolated = (name) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name);
const laneTitle = (lane) => (lane.device ? `${isolated(lane.name)} · ${isolated(lane.device)}` : lane.name);
let gutter = 80;
function chooseGutter() {
  let widest = 60;
  for (const line of timelines) {
    for (const lane of line.lanes) {
      widest = Math.max(widest, textWidth(laneTitle(lane)) + 16);
    }
  }
  for (const lane of data.memory || []) {
    const of = lane.measured || lane.simulated;
    widest = Math.max(widest, of ? textWidth(`${lane.name} · ▼ ${bytesText(of.highest)}`) + 16 : 0);
  }
  for (const counter of data.counters || []) {
    widest = Math.max(widest, textWidth(`${counter.name} · ${extentText(counter)}`) + 16);
  }
  gutter = Math.round(Math.min(widest, window.innerWidth < 700 ? 84 : window.innerWidth < 1300 ? 180 : 240));
}

/// What timelines and memory have in common: a canvas in a scroll area, on the shared time axis.
class Pane {
  constructor(kind, title, facts) {
    this.canvas = element('canvas', {tabindex: '0', role: 'application', 'aria-roledescription': 'timeline'});
    this.spacer = element('div', {class: 'spacer'});
    this.scroll = element('div', {class: 'scroll'}, this.canvas);
    this.heading = element('h2', {}, title);
    this.about = element('p', {});
    this.tellFacts(facts);
    this.section = element('section', {class: `pane ${kind}`, 'aria-label': title},
      element('header', {}, this.heading, this.about), this.scroll);
    this.context = this.canvas.getContext('2d', {alpha: false});
    this.contentHeight = 0;
    this.width = 0;
    this.height = 0;
  }
  /// The figures beside the title.
  tellFacts(facts) {
    this.about.textContent = facts;
    this.about.setAttribute('title', facts);
  }
  /// Width of the time axis in CSS pixels.
  get axisWidth() { return Math.max(1, this.width - gutter); }
  x(time) { return gutter + (time - view.start) / view.length * this.axisWidth; }
  timeAt(x) { return view.start + (x - gutter) / this.axisWidth * view.length; }
  /// Makes the pane this high, or as high as its content.
  setHeight(height) {
    this.height = Math.max(this.topHeight + LOWEST_ROW, Math.min(height, this.contentHeight + this.topHeight));
    this.scroll.style.height = `${this.height}px`;
    // The canvas sticks to the top while the spacer below it makes the scroll bar.
    this.canvas.style.height = `${this.height}px`;
    this.spacer.style.height = `${Math.max(0, this.contentHeight + this.topHeight - this.height)}px`;
    this.scroll.append(this.spacer);
  }
  setWidth(width) {
    this.width = width;
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.style.width = `${width}px`;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.strip = null;
  }
  begin() {
    const context = this.context;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = 'middle';
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, this.height);
  }
  /// The detail is a figure that must stay whole, or a name that may be shortened.
  laneName(name, detail, top, height, isFigure = false) {
    const context = this.context;
    context.textAlign = 'left';
    context.fillStyle = colors.text;
    const middle = top + Math.min(height, 40) / 2;
    const room = gutter - 14;
    if (detail && height >= 34) {
      context.fillText(elided(name, room), 8, middle - 8);
      context.fillStyle = colors.faintText;
      context.fillText(elided(detail, room), 8, middle + 8);
    } else {
      context.fillText(this.nameWithDetail(name, detail, room, isFigure), 8, middle);
    }
  }
  nameWithDetail(name, detail, room, isFigure) {
    const both = detail ? `${isolated(name)} · ${isolated(detail)}` : name;
    if (!detail || textWidth(both) <= room) {
      return elided(both, room);
    }
    const least = 40;  // pixels of a part that tells something
    const rest = textWidth(` · ${detail}`);
    if (isFigure) {
      return room - rest >= least ? `${isolated(elided(name, room - rest))} · ${detail}` : elided(name, room);
    }
    const shown = elided(name, Math.max(0.6 * room, room - rest));
    const left = room - textWidth(`${shown} · `);
    return left >= least ? `${isolated(shown)} · ${elided(detail, left)}` : elided(name, room);
  }
  cursor() {
    if (state.cursor !== null) {
      const x = Math.round(this.x(state.cursor)) + 0.5;
      if (x > gutter && x < this.width) {
        this.context.strokeStyle = colors.faintText;
        this.context.lineWidth = 1;
        this.context.beginPath();
        this.context.moveTo(x, 0);
        this.context.lineTo(x, this.height);
        this.context.stroke();
      }
    }
  }
}

const largestTime = () => Math.max(Math.abs(view.start), Math.abs(view.start + view.length));
function ticks(width) {
  const least = view.length / Math.max(1, width / 110);
  let step = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  step *= [1, 2, 5, 10].find((factor) => factor * step >= least) || 10;
  step = Math.max(1, Math.round(step));
  const places = [];
  for (let at = Math.ceil(view.start / step) * step; at <= view.start + view.length; at += step) {
    places.push(at);
  }
  return places.map((at) => [at, tickText(at, step, largestTime())]);
}

class TimelinePane extends Pane {
  constructor(line) {
    super(line.source, line.title, line.facts);
    this.line = line;
    this.labels = [];  // of bars, as drawn
    this.topHeight = RULER;
    this.shares = paints.map(() => null);
    this.canvas.setAttribute('aria-describedby', 'help-hint');
  }
  /// Height of all lanes if a row of tasks has this height.
  heightFor(row) {
    let height = LANE_GAP;
    let lane = null;
    for (const each of this.line.inOrder) {
      height += (each.lane !== lane ? LANE_GAP : 1) + this.rowHeight(each, row);
      lane = each.lane;
    }
    return height;
  }
  rowHeight(each, ofTasks) { return each.copies ? COPY_ROW : each.kernels ? KERNEL_ROW : this.line.threads ? RANGE_ROW : ofTasks; }
  layOut(row) {
    let y = 0;
    this.lanes = [];
    for (const each of this.line.inOrder) {
      const last = this.lanes[this.lanes.length - 1];
      const isNew = !last || last.lane !== each.lane;
      y += isNew ? LANE_GAP : 1;
      each.top = y;
      each.height = this.rowHeight(each, row);
      if (isNew) {
        this.lanes.push({lane: each.lane, top: y, bottom: y + each.height, taskBottom: y + each.height, first: each});
      } else {
        last.bottom = y + each.height;
        last.taskBottom = each.copies || each.kernels ? last.taskBottom : last.bottom;
      }
      y += each.height;
    }
    this.contentHeight = y + LANE_GAP;
  }
  /// Top of a row on the canvas.
  y(row) { return RULER + row.top - this.scroll.scrollTop; }
  rectOf(i) {
    const row = this.line.rows[this.line.row[i]];
    return {x: this.x(this.line.start[i]), y: this.y(row), width: this.x(this.line.end[i]) - this.x(this.line.start[i]),
            height: row.height};
  }
  /// First and end of the row's tasks that overlap the view.
  visible(row) {
    const {start, end} = this.line;
    const bound = (from, to, isBefore) => {
      while (from < to) {
        const middle = (from + to) >> 1;
        if (isBefore(middle)) {
          from = middle + 1;
        } else {
          to = middle;
        }
      }
      return from;
    };
    const first = bound(row.first, row.end, (i) => end[i] < view.start);
    return [first, bound(first, row.end, (i) => start[i] <= view.start + view.length)];
  }
  draw() {
    this.begin();
    const {context, line} = this;
    this.drawGrid();
    const wide = [];
    for (const row of line.rows) {
      const y = this.y(row);
      if (y < this.height && y + row.height > RULER) {
        this.drawRow(row, y, wide);
      }
    }
    context.save();
    context.beginPath();
    context.rect(gutter, RULER, this.width - gutter, this.height - RULER);
    context.clip();
    this.drawBorders(wide);
    if (state.mode === 'overlay' && line === measured && simulated) {
      this.drawGhosts();
    }
    this.drawLabels(wide);
    if (state.causes) {
      this.drawCauseNames();
    }
    if (state.critical) {
      this.drawCritical();
    }
    this.drawArrows();
    this.drawMarks();
    this.drawBound();
    context.restore();
    this.drawGutter();
    this.drawRuler();
    this.cursor();
  }
  drawGrid() {
    const {context} = this;
    context.fillStyle = colors.grid;
    for (const [at] of ticks(this.axisWidth)) {
      context.fillRect(Math.round(this.x(at)), RULER, 1, this.height - RULER);
    }
  }
  drawNotes() {
    const {context} = this;
    context.textAlign = 'left';
    data.rangeNotes.forEach(([start, end, text], index) => {
      const left = Math.max(gutter, this.x(start));
      const right = Math.min(this.width, this.x(end));
      if (right < gutter || left > this.width) {
        return;
      }
      const wide = Math.max(3, right - left);
      const next = data.rangeNotes.slice(index + 1).find(([other]) => other > start);
      const inside = wide > 60;
      const room = inside ? wide - 6 : (next ? this.x(next[0]) : this.width) - left - wide - 6;
      context.fillStyle = colors.areaPeak;
      context.fillRect(left, TICKS + 1, wide, RULER - TICKS - 3);
      let shown = text;
      while (shown.length > 1 && textWidth(shown) > room) {
        shown = shown.length > 2 ? `${shown.slice(0, -2)}…` : '';
      }
      context.fillStyle = inside ? '#ffffff' : colors.text;
      context.fillText(shown, inside ? left + 4 : left + wide + 4, (TICKS + RULER) / 2);
    });
  }
  drawRuler() {
    const {context} = this;
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, this.width, RULER);
    context.fillStyle = colors.grid;
    context.fillRect(0, RULER - 1, this.width, 1);
    this.drawNotes();
    let free = gutter;
    context.textAlign = 'left';
    const plate = this.boundPlate();
    const cursor = this.cursorPlate(plate);
    if (plate) {
      context.fillStyle = colors.text;
      context.fillRect(plate.left, 2, plate.width, TICKS - 5);
      context.fillStyle = colors.paper;
      context.fillText(plate.text, plate.left + 5, TICKS / 2);
    }
    for (const [at, text] of ticks(this.axisWidth)) {
      const x = this.x(at);
      context.fillStyle = colors.grid;
      context.fillRect(Math.round(x), TICKS - 6, 1, 6);
      const hidden = [plate, cursor].some(
        (each) => each && x < each.left + each.width && x + 4 + textWidth(text) > each.left);
      if (x >= free && x + 4 + textWidth(text) < this.width && !hidden) {
        context.fillStyle = colors.faintText;
        context.fillText(text, x + 4, TICKS / 2);
        free = x + textWidth(text) + 12;
      }
    }
    if (cursor) {
      context.fillStyle = colors.text;
      context.fillRect(cursor.left, 2, cursor.width, TICKS - 5);
      context.fillStyle = colors.paper;
      context.fillText(cursor.text, cursor.left + 5, TICKS / 2);
    }
  }
  /// Place and text of the cursor's time on the ruler, beside the lower bound's plate; null without a cursor in view.
  cursorPlate(bound) {
    const x = state.cursor === null ? -1 : this.x(state.cursor);
    if (x < gutter) {
      return null;
    }
    const step = 10 ** Math.max(0, Math.floor(Math.log10(view.length / this.axisWidth)));
    const text = tickText(Math.round(state.cursor / step) * step, step, largestTime());
    const width = textWidth(text) + 10;
    let left = Math.min(Math.max(x - width / 2, gutter), this.width - width);
    if (bound && left < bound.left + bound.width && left + width > bound.left) {
      const before = bound.left - 3 - width;
      const after = bound.left + bound.width + 3;
      const first = x < bound.left + bound.width / 2 && before >= gutter;
      left = first || after + width > this.width ? Math.max(gutter, before) : after;
    }
    return {left, width, text};
  }
  /// Place and text of the lower bound's plate on the ruler; null if the line is not in view.
  boundPlate() {
    const x = this.line.bound ? this.x(this.line.bound[0]) : -1;
    if (x < gutter || x > this.width) {
      return null;
    }
    const text = `lower bound ${duration(this.line.bound[1])}`;
    const width = textWidth(text) + 10;
    return {x, left: x + width <= this.width ? x : Math.max(gutter, x - width), width, text};
  }
  drawBound() {
    const plate = this.boundPlate();
    if (plate) {
      const {context} = this;
      context.strokeStyle = colors.text;
      context.lineWidth = 2;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(plate.x, RULER);
      context.lineTo(plate.x, this.height);
      context.stroke();
      context.setLineDash([]);
    }
  }
  drawGutter() {
    const {context} = this;
    context.fillStyle = colors.paper;
    context.fillRect(0, RULER, gutter - 1, this.height - RULER);
    for (const lane of this.lanes) {
      const top = RULER + lane.top - this.scroll.scrollTop;
      const info = this.line.lanes[lane.lane];
      this.laneName(info.name, info.device, top, lane.taskBottom - lane.top);
    }
  }
  /// Paints a row's background and tasks. Each pixel column shows the kind that fills most of it, blended with the
  /// background by the busy share, so that many short tasks neither flicker nor form a moiré. Collects tasks that are
  /// wide enough for a border.
  drawRow(row, y, wide) {
    const {line, ratio} = this;
    const left = Math.round(gutter * ratio);
    const width = this.canvas.width - left;
    const height = Math.round((y + row.height) * ratio) - Math.round(y * ratio);
    if (width < 1) {
      return;
    }
    const scale = Math.max(1, Math.round(ratio));
    const lines = 8 * scale;
    if (!this.strip || this.strip.width !== width || this.strip.height !== lines) {
      this.strip = new ImageData(width, lines);
      this.pixels = new Uint32Array(this.strip.data.buffer);
      this.shares = paints.map(() => new Float32Array(width));
      this.ground = new Uint8Array(width);
      this.inked = new Uint32Array(width);  // columns with a pattern, its ink and its bits by line
      this.inkAt = new Uint32Array(width);
      this.bitsAt = new Uint8Array(width);
    }
    const perNs = width / view.length;
    const [first, end] = this.visible(row);
    const used = [];
    const least = LEAST_BORDER * ratio / perNs;
    for (let i = first; i < end; ++i) {
      if (state.hidden.has(line.kind[i])) {
        continue;
      }
      const paint = paintOf(line, i);
      const into = this.shares[paint];
      if (!used.includes(paint)) {
        used.push(paint);
        into.fill(0);
      }
      const from = Math.max(0, (line.start[i] - view.start) * perNs);
      const to = Math.min(width, (line.end[i] - view.start) * perNs);
      const a = Math.floor(from);
      const b = Math.min(width - 1, Math.floor(to));
      if (a === b) {
        into[a] += line.end[i] === line.start[i] && (line.threads || data.kinds[line.kind[i]].ticks) ? 1 : to - from;  // a tick
      } else if (a < b) {
        into[a] += a + 1 - from;
        into.fill(1, a + 1, b);
        into[b] += to - b;
      }
      if (!row.copies && line.end[i] - line.start[i] >= least) {
        wide.push(i);
      }
    }
    this.markGround(row, perNs, width);
    const lane = rgba(colors.lane);
    const bubble = rgba(colors.bubble);
    const {pixels, ground, shares, inked, inkAt, bitsAt} = this;
    let count = 0;
    for (let x = 0; x < width; ++x) {
      let most = 0;
      let busy = 0;
      let best = -1;
      for (const paint of used) {
        const part = shares[paint][x];
        busy += part;
        if (part > most) {
          most = part;
          best = paint;
        }
      }
      let color = ground[x] === 0 ? lane : bubble;
      let ink = color;
      let bits = 0;
      const tileX = ((x / scale) | 0) & 7;
      if (best < 0) {
        if (ground[x] > 0) {
          ({ink} = groundPaints[ground[x] - 1]);
          bits = groundPaints[ground[x] - 1].tile[tileX];
        }
      } else {
        const paint = paints[best];
        color = busy >= 1 ? paint.color : mix(color, paint.color, Math.max(FAINTEST, busy));
        if (busy >= SOLID) {
          ({ink} = paint);
          bits = paint.tile[tileX];
        }
      }
      pixels[x] = color;
      if (bits !== 0) {
        inkAt[x] = ink;
        bitsAt[x] = bits;
        inked[count++] = x;
      }
    }
    for (let k = 1; k < lines; ++k) {
      pixels.copyWithin(k * width, 0, width);
    }
    for (let i = 0; i < count; ++i) {
      const x = inked[i];
      for (let at = x, k = 0; k < lines; ++k, at += width) {
        if ((bitsAt[x] >> ((k / scale) | 0)) & 1) {
          pixels[at] = inkAt[x];
        }
      }
    }
    const top = Math.round(y * ratio);
    const ruler = Math.round(RULER * ratio);
    for (let done = 0; done < height; done += lines) {
      const part = Math.min(lines, height - done);
      const hidden = Math.max(0, ruler - top - done);  // lines below the ruler
      if (hidden < part) {
        this.context.putImageData(this.strip, left, top + done, 0, hidden, width, part - hidden);
      }
    }
  }
  /// By column: 0 outside of steps, 1 in a bubble, 2 and more in a bubble of that cause.
  markGround(row, perNs, width) {
    const {ground, line} = this;
    ground.fill(0);
    if (row.copies || row.kernels) {
      return;
    }
    const fill = (start, end, value) => {
      const from = Math.max(0, Math.round((start - view.start) * perNs));
      const to = Math.min(width, Math.round((end - view.start) * perNs));
      if (from < to) {
        ground.fill(value, from, to);
      }
    };
    for (const [, start, end] of line.steps) {
      fill(start, end, 1);
    }
    if (state.causes && row.depth === 0) {
      for (const bubble of this.bubblesOf(row.lane)) {
        fill(bubble.start, bubble.end, 2 + bubble.cause);
      }
    }
  }
  bubblesOf(lane) {
    if (!this.byLane) {
      this.byLane = this.line.lanes.map((_, number) => this.line.bubbles.filter((each) => each.lane === number));
    }
    return this.byLane[lane] || [];
  }
  drawBorders(wide) {
    this.context.fillStyle = colors.border;
    for (const i of wide) {
      const {x, y, height} = this.rectOf(i);
      this.context.fillRect(Math.floor(x * this.ratio) / this.ratio, y, 1 / this.ratio, height);
    }
  }
  /// The part of a bar that is in view.
  seen(i) {
    const rect = this.rectOf(i);
    const left = Math.max(rect.x, gutter);
    return {...rect, x: left, width: Math.min(rect.x + rect.width, this.width) - left};
  }
  /// Names of ranges and kernels, or their last parts, in which they differ.
  drawRangeNames(ranges) {
    const {context, line} = this;
    context.textAlign = 'left';
    for (const i of ranges) {
      const rect = this.seen(i);
      if (rect.width < LEAST_NAME || rect.height < KERNEL_ROW) {
        continue;
      }
      const size = rect.height < LOWEST_ROW ? SMALL : 1;
      const room = (rect.width - 6) / size;
      const name = nameOf(line, i);
      const brief = (line.names.brief && line.names.brief[line.name[i]]) || name;
      const text = textWidth(name) <= room ? name : elided(brief.length > room ? brief.slice(0, Math.ceil(room)) : brief, room);
      // Two letters tell a short name, whose letters may be wide.
      const tells = text.length > 3 || (text.length === 3 && 3 * (text.length - 1) >= brief.length);
      if (tells || text === brief || text === name) {
        const paint = paints[paintOf(line, i)];
        context.font = size < 1 ? SMALL_FONT : FONT;
        context.fillStyle = paint.css;  // keeps a pattern away from the letters
        context.fillRect(rect.x + 2, rect.y, textWidth(text) * size + 2, rect.height);
        context.fillStyle = paint.text;
        context.fillText(text, rect.x + 3, rect.y + rect.height / 2 + 0.5);
      }
    }
    context.font = FONT;
  }
  drawLabels(wide) {
    const {context, line} = this;
    this.drawRangeNames(line.threads ? wide : wide.filter((i) => isKernel(line, i)));
    if (line.threads) {
      return;
    }
    wide = wide.filter((i) => !isKernel(line, i));
    const difference = state.mode === 'difference' && line === measured && line.late;
    const ghosts = state.mode === 'overlay' && line === measured && simulated;
    const placeOf = (i) => line.places[line.rows[line.row[i]].lane].get(line.names.partition[line.name[i]]);
    const hasNumber = (i) => !difference && !ghosts && this.rectOf(i).height >= LOWEST_WITH_NUMBER;
    const labelOf = (i) => {
      const {letter} = data.kinds[line.kind[i]];
      const micro = line.names.microBatch[line.name[i]];
      const partition = letter && placeOf(i) !== undefined && !hasNumber(i) ? line.names.partition[line.name[i]] : '';
      return letter && micro >= 0 ? [partition + letter + micro, String(micro)] : [partition + letter, letter];
    };
    const shaded = wide.filter((i) => placeOf(i) !== undefined && !difference);
    for (const i of shaded) {
      this.drawTop(i, placeOf(i), hasNumber(i));
    }
    // One form per kind, the most detailed that fits nearly all bars: F3, 3, or a small 3. Neighbours that differ by a
    // pixel look alike. A bar with room for twice its label has the full one.
    const fits = new Map();
    for (const i of wide) {
      const counts = fits.get(line.kind[i]) || [0, 0, 0, 0];
      const room = this.rectOf(i).width - 2;
      const [full, short] = labelOf(i);
      counts[3] += 1;
      [textWidth(full), textWidth(short), SMALL * textWidth(short)].forEach((width, form) => {
        counts[form] += width <= room ? 1 : 0;
      });
      fits.set(line.kind[i], counts);
    }
    this.labels = wide.map((i) => {
      const rect = this.seen(i);
      const counts = fits.get(line.kind[i]);
      const roomy = this.rectOf(i).width >= 2 * textWidth(labelOf(i)[0]) + 4;
      const form = roomy ? 0 : [0, 1, 2].find((each) => counts[each] >= 0.9 * counts[3]);
      let text = form === undefined || rect.height < 12 ? '' : labelOf(i)[form === 0 ? 0 : 1];
      if (difference && line.late[i] >= 0 && text) {
        const late = line.end[i] - simulated.end[line.twin[i]];  // as both are drawn
        const word = late > 0 ? ' late' : late < 0 ? ' early' : '';
        const long = `${labelOf(i)[0]} ${duration(Math.abs(late))}${word}`;
        text = textWidth(long) + 6 <= rect.width ? long : text;
      }
      const small = form === 2 && text === labelOf(i)[1];
      const width = textWidth(text) * (small ? SMALL : 1);
      const fitsIn = width + 2 <= rect.width && !(difference && line.late[i] < 0);
      return {i, rect, text: fitsIn ? text : '', small, width};
    });
    context.textAlign = 'center';
    for (const {i, rect, text, small, width} of this.labels.filter((label) => label.text !== '')) {
      const paint = paints[paintOf(line, i)];
      const middle = rect.x + rect.width / 2;
      const above = hasNumber(i) && placeOf(i) !== undefined ? TOP_INSET + TOP_WITH_NUMBER : 0;
      const y = rect.y + above + (rect.height - above) * (ghosts && rect.height >= TALL_GHOST ? GHOST_TOP / 2 : 0.5);
      if (paint.tile.some((bits) => bits !== 0)) {  // keeps the pattern away from the letters
        context.fillStyle = paint.css;
        const left = Math.max(rect.x + 1, middle - width / 2 - 3);  // a line that ends at a number looks like a minus sign
        context.fillRect(left, y - 7, Math.min(rect.x + rect.width, middle + width / 2 + 3) - left, 14);
      }
      context.font = small ? SMALL_FONT : FONT;
      context.fillStyle = paint.text;
      context.fillText(text, middle, y + 0.5);
    }
    context.font = FONT;
  }
  /// The top of a bar, in the shade of its partition, with the partition's number if there is room.
  drawTop(i, place, hasNumber) {
    const {context, line} = this;
    const rect = this.seen(i);
    const css = shadeOf(paints[paintOf(line, i)].color, place);
    const height = hasNumber ? TOP_WITH_NUMBER : Math.max(2, Math.min(5, Math.floor(rect.height / 5)));
    const top = rect.y + (hasNumber ? TOP_INSET : 1);
    context.fillStyle = css;
    context.fillRect(rect.x + 1, top, Math.max(0, rect.width - 1), height);
    const text = String(line.names.partition[line.name[i]]);
    if (hasNumber && SMALL * textWidth(text) + 1 <= rect.width) {
      context.textAlign = 'center';
      context.font = SMALL_FONT;
      context.fillStyle = textOn(css);
      context.fillText(text, rect.x + rect.width / 2, top + height / 2 + 0.5);
      context.font = FONT;
    }
  }
  drawCauseNames() {
    const {context} = this;
    context.textAlign = 'center';
    for (const lane of this.lanes) {
      const y = this.y(lane.first);
      if (lane.first.copies || lane.first.height < 14 || y > this.height || y + lane.first.height < RULER) {
        continue;
      }
      for (const bubble of this.bubblesOf(lane.lane)) {
        const from = Math.max(gutter, this.x(bubble.start));
        const to = Math.min(this.width, this.x(bubble.end));
        const text = data.bubbleCauses[bubble.cause].name;
        if (to - from > 60 && textWidth(text) + 10 < to - from) {
          context.fillStyle = colors.bubble;
          context.fillRect((from + to - textWidth(text)) / 2 - 4, y + lane.first.height / 2 - 8, textWidth(text) + 8, 16);
          context.fillStyle = colors.text;
          context.fillText(text, (from + to) / 2, y + lane.first.height / 2 + 0.5);
        }
      }
    }
  }
  /// Outlines of the simulated tasks over the measured ones.
  drawGhosts() {
    const {context} = this;
    const pane = paneOf.get(simulated);
    context.lineWidth = 1;
    for (const row of simulated.rows) {
      const here = this.line.rows.find((each) =>
        each.lane === row.lane && each.copies === row.copies && !each.kernels && each.depth === row.depth);
      if (!here) {
        continue;
      }
      const [first, end] = pane.visible(row);
      const inset = row.copies || here.height < TALL_GHOST ? 0 : Math.round(here.height * GHOST_TOP);
      for (let i = first; i < end; ++i) {
        const x = Math.max(gutter - 2, this.x(simulated.start[i]));
        const width = Math.min(this.width + 2, this.x(simulated.end[i])) - x;
        if (width < 2 || state.hidden.has(simulated.kind[i])) {
          continue;
        }
        context.globalAlpha = 0.43;
        context.fillStyle = colors.paper;
        context.fillRect(x, this.y(here) + inset, width, here.height - inset - 1);
        context.globalAlpha = 1;
        context.strokeStyle = colors.selection;
        context.strokeRect(Math.round(x) + 0.5, this.y(here) + inset + 0.5, Math.max(1, Math.round(width) - 1),
          here.height - inset - 2);
      }
    }
  }
  drawCritical() {
    const {context, line} = this;
    let before = null;
    for (const i of line.critical) {
      const rect = this.rectOf(i);
      const y = rect.y + rect.height - Math.min(4, rect.height);
      if (before && rect.x >= gutter - 2 && before.x <= this.width) {
        for (const [color, width] of [[colors.paper, 4], [colors.critical, 2]]) {
          context.strokeStyle = color;
          context.lineWidth = width;
          context.beginPath();
          context.moveTo(before.x, before.y + 2);
          context.lineTo(rect.x, y + 2);
          context.stroke();
        }
      }
      context.fillStyle = colors.paper;
      context.fillRect(rect.x, y - 1, Math.max(2, rect.width), 1);
      context.fillStyle = colors.critical;
      context.fillRect(rect.x, y, Math.max(2, rect.width), Math.min(4, rect.height));
      before = {x: rect.x + rect.width, y};
    }
  }
  /// Of the selected task, and from the culprit of the selected bubble, and of that under the pointer, to the task that
  /// waits for it.
  drawArrows() {
    const {selected} = state;
    const arrows = selected && selected.line === this.line ? [...state.arrows] : [];
    for (const bubble of new Set([state.chosen, state.bubble])) {
      if (bubble && bubble.line === this.line && bubble.culprit >= 0 && bubble.next >= 0) {
        arrows.push({from: bubble.culprit, to: bubble.next});
      }
    }
    arrows.forEach(({from, to}) => this.drawArrow(from, to));
  }
  drawArrow(from, to) {
    const {context, line} = this;
    const [left, right] = [this.rectOf(from), this.rectOf(to)];
    const edge = (rect, below) => {  // above the labels in the middle of a row, or below them
      const inset = Math.min(rect.height / 2, Math.min(Math.max(rect.height / 6, 4), 10));
      return below ? rect.y + rect.height - inset : rect.y + inset;
    };
    const up = right.y < left.y;
    const x = (time) => Math.min(Math.max(this.x(time), -1e5), 1e5);
    // An arrow leaves at the end, or before if the other range starts earlier, as that of an asynchronous launch does.
    const start = {x: x(Math.min(Math.max(line.start[to], line.start[from]), line.end[from])), y: edge(left, !up)};
    const end = {x: x(line.start[to]), y: edge(right, up || right.y === left.y)};
    const reach = Math.max(12, Math.abs(end.x - start.x) / 2);
    for (const [color, width] of [[colors.paper, 4], [colors.selection, 1.5]]) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(start.x, start.y);
      context.bezierCurveTo(start.x + reach, start.y, end.x - reach, end.y, end.x, end.y);
      context.stroke();
    }
    context.fillStyle = colors.selection;
    context.beginPath();
    context.moveTo(end.x, end.y);
    context.lineTo(end.x - 7, end.y - 3.5);
    context.lineTo(end.x - 7, end.y + 3.5);
    context.fill();
  }
  /// Where a bubble is: in the row of its lane's tasks.
  rectOfBubble(bubble) {
    const row = this.line.rows.find((each) => each.lane === bubble.lane && !each.copies && !each.kernels);
    return {x: this.x(bubble.start), y: this.y(row), width: this.x(bubble.end) - this.x(bubble.start), height: row.height};
  }
  drawMarks() {
    const {context} = this;
    context.fillStyle = colors.selection;
    for (const {line, task} of state.hits) {
      const rect = line === this.line ? this.rectOf(task) : null;
      if (rect && rect.x + rect.width >= gutter && rect.x <= this.width) {
        context.fillRect(rect.x, rect.y + rect.height - 3, Math.max(2, rect.width), 3);
      }
    }
    const frame = (i, dashed, width, rect = this.rectOf(i)) => {
      const x = Math.max(gutter - 4, rect.x);
      const shown = Math.max(3, Math.min(this.width + 4, rect.x + rect.width) - x);
      context.setLineDash([]);
      context.strokeStyle = colors.paper;
      context.lineWidth = width + 2;
      context.strokeRect(x - 1, rect.y - 1, shown + 2, rect.height + 2);
      context.setLineDash(dashed ? [5, 3] : []);
      context.strokeStyle = colors.selection;
      context.lineWidth = width;
      context.strokeRect(x - 1, rect.y - 1, shown + 2, rect.height + 2);
      context.setLineDash([]);
    };
    const {hovered, selected, chosen} = state;
    if (chosen && chosen.line === this.line) {
      frame(-1, false, 2, this.rectOfBubble(chosen));
    }
    if (hovered && hovered.line === this.line) {
      frame(hovered.task, false, 1);
    }
    if (selected && selected.line === this.line) {
      frame(selected.task, false, 2);
    } else if (selected && this.line === otherOf(selected.line) && selected.line.twin[selected.task] >= 0) {
      frame(selected.line.twin[selected.task], true, 2);
    }
  }
  /// The visible task at a position of the canvas, or within 3 pixels of it; -1: none.
  taskAt(x, y) {
    const row = this.line.rows.find((each) => y >= this.y(each) && y < this.y(each) + each.height);
    if (!row || x < gutter || y < RULER) {
      return -1;
    }
    const time = this.timeAt(x);
    const reach = 3 / this.axisWidth * view.length;
    const [first, end] = this.visible(row);
    let low = first;
    let high = end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.line.end[middle] <= time) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    let best = -1;
    let distance = Infinity;
    for (let i = Math.max(first, low - 1); i < Math.min(end, low + 2); ++i) {
      const away = Math.max(this.line.start[i] - time, time - this.line.end[i], 0);
      if (!state.hidden.has(this.line.kind[i]) && away < distance && away <= reach) {
        best = i;
        distance = away;
      }
    }
    return best;
  }
  bubbleAt(x, y) {
    const lane = this.lanes.find((each) => !each.first.copies && y >= this.y(each.first) &&
                                           y < this.y(each.first) + each.first.height);
    const time = this.timeAt(x);
    return lane && x >= gutter && y >= RULER
      ? this.bubblesOf(lane.lane).find((each) => time >= each.start && time < each.end) || null : null;
  }
  describe() {
    let tasks = 0;
    for (const row of this.line.rows) {
      const [first, end] = this.visible(row);
      tasks += end - first;
    }
    this.canvas.setAttribute('aria-label', `${this.line.title}: ${this.line.lanes.length} ` +
      `${this.line.threads ? 'threads' : 'lanes'}, ${tasks} ${this.line.threads ? 'ranges' : 'tasks'} from ` +
      `${duration(view.start)} to ${duration(view.start + view.length)}`);
  }
  tipAt(x, y) {
    const plate = y < TICKS ? this.boundPlate() : null;
    if (plate && x >= plate.left && x <= plate.left + plate.width) {
      return [`No order of these tasks can be faster than ${duration(this.line.bound[1])}, even with split backwards.`];
    }
    const task = this.taskAt(x, y);
    if (task >= 0) {
      return taskTip(this.line, task);
    }
    if (x < gutter) {
      const lane = this.lanes.find((each) => y >= RULER + each.top - this.scroll.scrollTop &&
                                             y < RULER + each.bottom - this.scroll.scrollTop);
      return lane ? laneTip(this.line, lane.lane) : null;
    }
    const bubble = this.bubbleAt(x, y);
    return bubble ? bubbleTip(this.line, bubble) : null;
  }
}

class MemoryPane extends Pane {
  constructor(lanes) {
    super('memory', 'MEMORY', '');
    this.legend = element('ul', {class: 'legend', 'aria-label': 'Legend of the composition of memory'});
    this.scroll.before(this.legend);
    this.topHeight = 0;
    this.line = null;
    this.memory = lanes.map((lane) => ({...lane, measured: curve(lane.measured), simulated: curve(lane.simulated)}));
    let most = 1;
    for (const lane of this.memory) {
      for (const each of [lane.measured, lane.simulated]) {
        most = Math.max(most, each ? each.highest : 0);
      }
    }
    this.limits = this.memory.map((lane) => (lane.limit !== undefined && lane.limit <= 1.5 * most ? lane.limit : null));
    most = Math.max(most, ...this.limits.map((limit) => limit || 0));
    this.top = most * 17 / 16;
    this.laneHeight = MEMORY_LANE;
  }
  /// What a lane's stack shows: what was measured, or what was simulated if nothing was; null without a composition.
  stackOf(lane) {
    const of = lane.measured || lane.simulated;
    return state.composition && of && of.held.length > 0 ? of : null;
  }
  get composed() { return this.memory.some((lane) => [lane.measured, lane.simulated].some((of) => of && of.held.length > 0)); }
  layOut(height) {
    this.laneHeight = height;
    this.contentHeight = this.memory.length * (height + 3) + 3;
    const has = (source) => this.memory.some((lane) => lane[source]);
    const stacked = this.memory.some((lane) => this.stackOf(lane));
    const drawn = [stacked ? 'stacked from below in this order' : has('measured') ? `area: ${calledOf('measured')}` : null,
                   has('simulated') ? `line: ${calledOf('simulated')}` : null,
                   has('measured') ? `▼ peak (${calledOf('measured')}: of the whole run)` : '▼ peak',
                   this.memory.some((lane) => lane.limit !== undefined) ? 'red: limit' : null];
    this.about.textContent = drawn.filter((each) => each !== null).join(', ');
    this.about.setAttribute('title', this.about.textContent);
  }
  box(lane) { return 3 + lane * (this.laneHeight + 3) - this.scroll.scrollTop; }
  /// Each column as the last sample in it: rectangles of columns that show the same sample.
  drawStack(of, width, y, floor) {
    const {context} = this;
    const last = of.time[of.time.length - 1];
    let from = 0;
    for (let x = 0; x < width; x = from) {
      const sampleAt = (column) => {
        const end = view.start + (column + 1) / width * view.length;
        return end < of.time[0] || end - view.length / width > last ? -1 : firstFrom(of.time, end + 1) - 1;
      };
      const sample = sampleAt(x);
      for (from = x + 1; from < width && sampleAt(from) === sample;) {
        ++from;
      }
      let below = 0;
      for (const {category, bytes} of sample < 0 ? [] : of.held) {
        if (bytes[sample] > 0) {
          const top = y(below + bytes[sample]);
          const place = [gutter + x, top, from - x, (below === 0 ? floor : y(below)) - top];
          context.fillStyle = data.memoryCategories[category].color;
          context.fillRect(...place);
          context.fillStyle = patternOf(context, data.memoryCategories[category]);
          context.fillRect(...place);
          below += bytes[sample];
        }
      }
    }
  }
  /// Highest value of each pixel column, or -1 before the first sample. Between two samples a lane holds the first
  /// one's bytes, and at most the second one's peak.
  columns(of, width) {
    const allocated = new Float64Array(width).fill(-1);
    const peak = new Float64Array(width).fill(-1);
    let next = firstFrom(of.time, view.start);
    for (let x = 0; x < width; ++x) {
      const first = next;
      const end = view.start + (x + 1) / width * view.length;
      while (next < of.time.length && of.time[next] < end) {
        allocated[x] = Math.max(allocated[x], of.allocated[next]);
        peak[x] = Math.max(peak[x], of.peak[next]);
        ++next;
      }
      if (first > 0 && (next > first || first < of.time.length)) {
        allocated[x] = Math.max(allocated[x], of.allocated[first - 1]);
        peak[x] = Math.max(peak[x], of.allocated[first - 1]);
      }
      if (next < of.time.length && next > 0) {
        peak[x] = Math.max(peak[x], of.peak[next]);
      }
    }
    return {allocated, peak};
  }
  draw() {
    this.begin();
    const {context} = this;
    const width = Math.round(this.axisWidth);
    this.memory.forEach((lane, number) => {
      const top = this.box(number);
      if (top > this.height || top + this.laneHeight < 0) {
        return;
      }
      const y = (bytes) => top + this.laneHeight * (1 - bytes / this.top);
      context.fillStyle = colors.lane;
      context.fillRect(gutter, top, this.axisWidth, this.laneHeight);
      const stack = this.stackOf(lane);
      if (stack) {
        this.drawStack(stack, width, y, top + this.laneHeight);
      } else if (lane.measured) {
        const {allocated, peak} = this.columns(lane.measured, width);
        for (const [values, color, alpha] of [[peak, colors.area, 0.35], [allocated, colors.area, 1]]) {
          context.globalAlpha = alpha;
          context.fillStyle = color;
          context.beginPath();
          for (let x = 0; x < width; ++x) {
            if (values[x] > 0) {
              context.rect(gutter + x, y(values[x]), 1, top + this.laneHeight - y(values[x]));
            }
          }
          context.fill();
        }
        context.globalAlpha = 1;
      }
      if (lane.simulated) {
        const {peak} = this.columns(lane.simulated, width);
        context.strokeStyle = colors.text;
        context.lineWidth = 1;
        context.beginPath();
        let drawing = false;
        for (let x = 0; x < width; ++x) {
          if (peak[x] < 0) {
            drawing = false;
            continue;
          }
          const at = Math.round(y(peak[x])) + 0.5;
          if (drawing) {
            context.lineTo(gutter + x, at);
          } else {
            context.moveTo(gutter + x, at);
          }
          context.lineTo(gutter + x + 1, at);
          drawing = true;
        }
        context.stroke();
      }
      if (this.limits[number] !== null) {
        const at = Math.round(y(this.limits[number])) + 0.5;
        context.strokeStyle = colors.limit;
        context.setLineDash([5, 3]);
        context.beginPath();
        context.moveTo(gutter, at);
        context.lineTo(this.width, at);
        context.stroke();
        context.setLineDash([]);
      }
      for (const [of, color] of [[lane.measured, colors.areaPeak], [lane.simulated, colors.text]]) {
        const first = of ? of.peak.indexOf(of.highest) : -1;  // or the first one in view that is as high
        const shown = first >= 0 ? of.peak.indexOf(of.highest, Math.max(first, firstFrom(of.time, view.start))) : -1;
        const i = shown >= 0 ? shown : first;
        const x = i >= 0 ? this.x(of.time[i]) : -1;
        if (x >= gutter && x <= this.width) {
          context.fillStyle = color;
          context.beginPath();
          context.moveTo(x - 4, y(of.highest));
          context.lineTo(x + 4, y(of.highest));
          context.lineTo(x, y(of.highest) + 6);
          context.fill();
        }
      }
      const peak = lane.measured || lane.simulated;
      context.fillStyle = colors.paper;
      context.fillRect(0, top, gutter - 1, this.laneHeight);
      this.laneName(lane.name, peak ? `▼ ${bytesText(peak.highest)}` : '', top, this.laneHeight, true);
    });
    this.cursor();
  }
  taskAt() { return -1; }
  describe() {
    const peaks = this.memory.map((lane) => {
      const of = lane.measured || lane.simulated;
      return of ? `${lane.name} ${bytesText(of.highest)}` : lane.name;
    });
    this.canvas.setAttribute('aria-label', `Memory of each lane; peaks: ${peaks.join(', ')}`);
  }
  tipAt(x, y) {
    const number = this.memory.findIndex((_, i) => y >= this.box(i) && y < this.box(i) + this.laneHeight);
    if (number < 0) {
      return null;
    }
    const lane = this.memory[number];
    const lines = [element('b', {}, lane.name)];
    for (const [title, of] of [[calledOf('measured'), lane.measured], [calledOf('simulated'), lane.simulated]]) {
      if (of) {
        const i = firstFrom(of.time, this.timeAt(x)) - 1;
        const held = x >= gutter && i >= 0 ? of.held.filter(({bytes}) => bytes[i] > 0).map(({category, bytes}) =>
          `${data.memoryCategories[category].name} ${bytesText(bytes[i])}`).join(', ') : '';
        const here = x >= gutter && i >= 0 ? `${bytesText(of.allocated[i])} here${held ? ` (${held})` : ''}, ` : '';
        lines.push(`${title}: ${here}peak ${bytesText(of.highest)}`
          + (of.parts.length ? `, of which ${of.parts.map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(', ')}` : ''));
      }
    }
    if (lane.limit !== undefined) {
      lines.push(`limit: ${bytesText(lane.limit)}`);
    }
    return lines;
  }
}

/// A bar for each step of the run: its time, and the bubble as the pale upper part. The compared step is framed.
class StepStrip {
  constructor({bars, median, losses}) {
    this.bars = bars;
    this.losses = losses;  // at the ends of the scale; a spike may be beyond
    this.top = Math.max(...bars.map((bar) => Math.min(bar.time, 2.5 * median)));
    this.canvas = element('canvas', {role: 'img', 'aria-label': `Times of ${bars.length} steps, ${duration(median)} in the median`});
    this.section = element('section', {class: 'steps'}, element('h2', {}, 'STEPS'), this.canvas,
      element('p', {class: 'faint'}, `median ${duration(median)}, height ${duration(this.top)}`, element('br'), this.legend()));
    this.canvas.style.maxWidth = `${Math.min(1200, 40 * bars.length)}px`;
    this.canvas.addEventListener('pointermove', (event) => {
      const box = this.canvas.getBoundingClientRect();
      const bar = this.bars[Math.floor((event.clientX - box.left) / box.width * this.bars.length)];
      placeTip(event, bar ? [bar.text, ...(isHeld(bar.step) || otherSteps.size === 0 ? [] : ['This step is not on the page.'])] : null);
    });
    this.canvas.addEventListener('pointerleave', () => { tooltip.hidden = true; });
    if (otherSteps.size > 0) {
      this.canvas.style.cursor = 'pointer';
      this.canvas.addEventListener('click', (event) => {
        const box = this.canvas.getBoundingClientRect();
        const bar = this.bars[Math.floor((event.clientX - box.left) / box.width * this.bars.length)];
        if (bar) {
          goToStep(bar.step);
        }
      });
    }
  }
  drawLosses(context, each, wide, height) {
    const [least, most] = this.losses;
    const place = (loss) => most > least ? Math.min(1, Math.max(0, (loss - least) / (most - least))) : loss > most ? 1 : loss < least ? 0 : 0.5;
    const x = (i) => i * each + wide / 2;
    const y = (bar) => bar.loss === undefined ? 5 : 2 + (height - 4) * (1 - place(bar.loss));
    context.strokeStyle = colors.text;
    context.fillStyle = colors.text;
    context.lineWidth = 1;
    context.beginPath();
    let isDrawing = false;
    this.bars.forEach((bar, i) => {
      if (bar.loss !== undefined) {
        isDrawing ? context.lineTo(x(i), y(bar)) : context.moveTo(x(i), y(bar));
      }
      isDrawing = bar.loss !== undefined;
    });
    context.stroke();
    this.bars.forEach((bar, i) => {
      const [left, middle] = [x(i), Math.min(height - 5, Math.max(5, y(bar)))];
      context.beginPath();
      if (bar.spike) {
        context.moveTo(left, middle - 4);
        context.lineTo(left + 4, middle);
        context.lineTo(left, middle + 4);
        context.lineTo(left - 4, middle);
        context.fill();
      } else if (bar.noLoss) {
        context.moveTo(left - 4, middle - 4);
        context.lineTo(left + 4, middle + 4);
        context.moveTo(left - 4, middle + 4);
        context.lineTo(left + 4, middle - 4);
        context.stroke();
      }
    });
  }
  /// What the marks that occur mean.
  legend() {
    const has = (what) => this.bars.some(what);
    return [has((bar) => bar.least < bar.time) ? 'pale top: slowest of the bar' : has((bar) => bar.bubble > 0) ? 'pale top: bubble' : null,
            has((bar) => !bar.counts) ? 'hatched: not counted' : null, has((bar) => bar.slow) ? '▲ slow' : null,
            this.losses ? `line: loss ${this.losses.map((loss) => Number(loss.toPrecision(4))).join(' to ')}` : null,
            has((bar) => bar.spike) ? '◆ loss far from the steps around' : null,
            has((bar) => bar.noLoss) ? '× loss that is no number' : null,
            has((bar) => bar.step === data.step) ? `frame: step ${data.step}` : null,
            otherSteps.size > 0 ? 'click: another step' : null].filter((each) => each !== null).join(', ');
  }
  draw() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext('2d');
    context.scale(ratio, ratio);
    const each = width / this.bars.length;
    const wide = Math.max(1, Math.min(each - 1, 40));
    this.bars.forEach((bar, i) => {
      const high = height * Math.min(1, bar.time / this.top);
      const solid = bar.least < bar.time ? height * Math.min(1, bar.least / this.top) : high * (1 - (bar.bubble || 0));
      context.globalAlpha = bar.counts ? 1 : 0.4;
      context.fillStyle = bar.slow ? colors.slow : colors.area;
      context.fillRect(i * each, height - solid, wide, solid);
      context.globalAlpha *= 0.4;
      context.fillRect(i * each, height - high, wide, high - solid);
      context.globalAlpha = 1;
      if (!bar.counts && wide >= 4) {
        context.fillStyle = patternOf(context, {ink: colors.faintText, tile: HATCH});
        context.fillRect(i * each, height - high, wide, high);
      }
      if (bar.slow) {  // not told by colour alone
        context.fillStyle = colors.text;
        context.beginPath();
        context.moveTo(i * each + wide / 2, 0);
        context.lineTo(i * each + wide / 2 - 4, 7);
        context.lineTo(i * each + wide / 2 + 4, 7);
        context.fill();
      }
      if (bar.step === data.step) {
        context.strokeStyle = colors.text;
        context.lineWidth = 2;
        context.strokeRect(i * each + 1, 1, Math.max(2, wide - 2), height - 2);
      }
    });
    if (this.losses) {
      this.drawLosses(context, each, wide, height);
    }
  }
}

/// Each counter has its own scale, which includes 0.
class CounterPane extends Pane {
  constructor(counters) {
    super('memory counters', 'COUNTERS', '');
    this.topHeight = 0;
    this.line = null;
    this.memory = counters.map((each) =>
      ({...each, least: Math.min(0, each.lowest), most: Math.max(0, each.highest)}));  // one row each
    this.laneHeight = MEMORY_LANE;
  }
  layOut(height) {
    this.laneHeight = height;
    this.contentHeight = this.memory.length * (height + 3) + 3;
  }
  box(row) { return 3 + row * (this.laneHeight + 3) - this.scroll.scrollTop; }
  draw() {
    this.begin();
    const {context} = this;
    this.memory.forEach((counter, number) => {
      const top = this.box(number);
      if (top > this.height || top + this.laneHeight < 0) {
        return;
      }
      const span = counter.most - counter.least || 1;
      const y = (value) => top + 1 + (this.laneHeight - 2) * (counter.most - value) / span;
      context.fillStyle = colors.lane;
      context.fillRect(gutter, top, this.axisWidth, this.laneHeight);
      context.save();
      context.beginPath();
      context.rect(gutter, top, this.axisWidth, this.laneHeight);
      context.clip();
      context.fillStyle = colors.areaPeak;
      const first = Math.max(0, firstFrom(counter.time, view.start) - 1);
      for (let i = first; i < counter.time.length && counter.time[i] <= view.start + view.length; ++i) {
        const left = this.x(counter.time[i]);
        const right = i + 1 < counter.time.length ? this.x(counter.time[i + 1]) : this.width;
        const far = Math.abs(counter.high[i]) >= Math.abs(counter.low[i]) ? counter.high[i] : counter.low[i];
        context.globalAlpha = 0.3;
        context.fillRect(left, Math.min(y(0), y(far)), right - left, Math.abs(y(far) - y(0)));
        context.globalAlpha = 1;
        context.fillRect(left, y(counter.high[i]), right - left, Math.max(1, y(counter.low[i]) - y(counter.high[i])));
      }
      context.restore();
      context.fillStyle = colors.paper;
      context.fillRect(0, top, gutter - 1, this.laneHeight);
      this.laneName(counter.name, extentText(counter), top, this.laneHeight, true);
    });
    this.cursor();
  }
  taskAt() { return -1; }
  describe() {
    this.canvas.setAttribute('aria-label', `Counters: ${this.memory.map((each) => each.name).join(', ')}`);
  }
  tipAt(x, y) {
    const counter = this.memory.find((_, i) => y >= this.box(i) && y < this.box(i) + this.laneHeight);
    if (!counter) {
      return null;
    }
    const i = firstFrom(counter.time, this.timeAt(x)) - 1;
    const lines = [element('b', {}, counter.name), counter.group];
    if (x >= gutter && i >= 0) {
      const [low, high] = [counter.low[i], counter.high[i]];
      lines.push(extentText({bytes: counter.bytes, lowest: low, highest: high}));
    }
    lines.push(`all: ${extentText(counter)}`);
    return lines.filter((each) => each !== '');
  }
}
function counterText(value, isBytes) {
  const size = Math.abs(value);
  if (isBytes && size < 1e15) {
    return bytesText(value);
  }
  return size !== 0 && (size >= 1e15 || size < 1e-3) ? value.toExponential(3).replace('-', '−')
    : grouped(value, Number.isInteger(value) || size >= 1000 ? 0 : decimalsFor(value) + 1);
}

function extentText({bytes, lowest, highest}) {
  const from = counterText(lowest, bytes);
  return lowest === highest ? from : `${from} to ${counterText(highest, bytes)}`;
}

function curve(packed) {
  if (!packed) {
    return null;
  }
  let at = packed.by || 0;
  const time = packed.time.map((gap) => (at += gap));
  return {time, allocated: packed.allocated, peak: packed.peak, highest: packed.highest, parts: packed.parts,
          held: (packed.held || []).map((each) => heldOf(each, time.length))};
}
/// The bytes of a category at each sample.
function heldOf({category, at, change}, samples) {
  const bytes = new Float64Array(samples);
  let [next, place, now] = [0, at[0], 0];
  for (let i = 0; i < samples; ++i) {
    if (i === place) {
      now += change[next];
      next += 1;
      place += at[next];  // not a number after the last change
    }
    bytes[i] = now;
  }
  return {category, bytes};
}
/// Index of the first sample at this time or later.
function firstFrom(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// ---- Texts about a task, bubble or lane

const otherName = (line) => calledOf(line === measured ? 'simulated' : 'measured');
const [against, minus] = data.twoRuns ? ['after against before', 'after minus before']
  : ['simulated against measured', 'simulated minus measured'];
function taskTip(line, i) {
  const facts = factsOf(line, i);
  if (line.threads) {
    return [element('b', {}, facts.name), laneTitle(facts.lane), `${duration(facts.duration)}, from ${duration(facts.start)}`];
  }
  const lines = [
    element('b', {}, facts.name),
    `${laneTitle(facts.lane)} · step ${facts.step}`,
    [isKernel(line, i) ? `launched by: ${facts.kind}` : `kind: ${facts.kind}`, facts.partition >= 0 ? `partition ${facts.partition}` : null,
     facts.microBatch >= 0 ? `micro-batch ${facts.microBatch}` : null].filter((each) => each !== null).join(', '),
    `${calledOf(line.source)}: ${duration(facts.duration)}, from ${duration(facts.start)} of the step`,
  ];
  if (facts.bytes > 0) {
    lines.push(`moves ${bytesText(facts.bytes)}`);
  }
  if (facts.twin) {
    lines.push(`${otherName(line)}: ${duration(facts.twin.duration)}, from ${duration(facts.twin.start)}`,
      `${against}: ${durationChangeText(facts.twin)}`);
  } else if (!isKernel(line, i)) {
    lines.push(line.noTwin);
  }
  return lines;
}
function durationChangeText(twin) {
  return change(twin.durationChange) + (twin.ratio === null ? '' : ` (${withSign(share(twin.ratio), twin.ratio)})`);
}
function bubbleTip(line, bubble) {
  const step = line.steps.find(([, start, end]) => bubble.start >= start && bubble.end <= end);
  const lines = [element('b', {}, data.bubbleCauses[bubble.cause].name),
                 duration(bubble.end - bubble.start) + (step ? `, from ${duration(bubble.start - step[1])} of the step` : '')];
  if (bubble.root >= 0) {
    lines.push(`root cause: ${data.rootCauses[bubble.root]}`);
  }
  if (bubble.culprit >= 0) {
    lines.push(`${bubble.next >= 0 ? 'for' : 'still at work:'} ${placedName(line, bubble.culprit)}`);
  }
  return lines;
}
const placedName = (line, task) => `${nameOf(line, task)} on ${line.lanes[line.rows[line.row[task]].lane].name}`;
function laneTip(line, number) {
  const info = line.lanes[number];
  const row = line.threads && !THREADS ? null : data.lanes.rows[number];
  return [element('b', {}, laneTitle(info)),
          ...(row ? data.lanes.header.slice(1).map((title, i) => `${title}: ${row[i + 1]}`) : [])];
}

// ---- The page

const panes = [];
const parts = [];  // of the document's body
const paneOf = new Map();
let strip = null;
const tooltip = element('div', {class: 'tooltip', role: 'tooltip', hidden: ''});
const details = element('aside', {class: 'details', 'aria-live': 'polite', 'aria-label': 'Selection'});
const kindButtons = [];
const modeButtons = new Map();
const toggles = new Map();
let extraLegend = null;

function tile(canvas, color, ink, bits) {
  canvas.width = 22;
  canvas.height = 12;
  const image = new ImageData(22, 12);
  const pixels = new Uint32Array(image.data.buffer);
  for (let at = 0; at < pixels.length; ++at) {
    pixels[at] = (bits[at % 22 & 7] >> (Math.floor(at / 22) & 7)) & 1 ? ink : color;
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
}
const HATCH = [17, 34, 68, 136, 17, 34, 68, 136];
const patternCanvases = new Map();
/// Fills with the ink's pixels of a tile, and is transparent between them.
function patternOf(context, {ink, tile: bits}) {
  const key = `${ink} ${bits}`;
  if (!patternCanvases.has(key)) {
    const canvas = element('canvas');
    canvas.width = 8;
    canvas.height = 8;
    const drawing = canvas.getContext('2d');
    drawing.fillStyle = ink;
    bits.forEach((column, x) => {
      for (let y = 0; y < 8; ++y) {
        if ((column >> y) & 1) {
          drawing.fillRect(x, y, 1, 1);
        }
      }
    });
    patternCanvases.set(key, canvas);
  }
  return context.createPattern(patternCanvases.get(key), 'repeat');
}
function swatch(color, ink, bits) {
  const canvas = element('canvas', {'aria-hidden': 'true'});
  tile(canvas, color, ink, bits);
  return canvas;
}

function makeLegend() {
  const list = element('ul', {class: 'legend', 'aria-label': 'Kinds of tasks; press one to hide or show it'});
  data.kinds.forEach((kind, number) => {
    const canvas = swatch(rgba(kind.color), rgba(kind.ink), kind.tile);
    const button = element('button', {
      type: 'button', 'aria-pressed': 'true', title: 'Hide or show tasks of this kind', onclick: () => toggleKind(number),
    }, canvas, element('span', {class: 'label'}, kind.letter ? `${kind.letter} ${kind.name}` : kind.name));
    kindButtons.push(button);
    if (kind.drawn) {
      list.append(element('li', {}, button));
    }
  });
  extraLegend = element('ul', {class: 'legend', 'aria-label': 'Legend of bubbles and lateness'});
  return [list, extraLegend];
}
function refreshLegend() {
  const entries = [];
  const add = (canvas, name, about = null) =>
    entries.push(element('li', {class: 'entry', ...(about ? {title: about} : {})}, canvas, name));
  const entry = (color, ink, bits, name, about) => add(swatch(color, ink, bits), name, about);
  if (state.mode === 'difference' && data.lateness) {
    data.lateness.forEach((each, i) => {
      const paint = paints[FIRST_LATE + i];
      if (each.name) {
        entry(paint.color, paint.ink, each.tile, each.name, each.about);
      }
    });
  }
  if (state.mode !== 'difference' && data.partitionLegend) {
    const canvas = swatch(paints[0].color, paints[0].color, PLAIN);
    const context = canvas.getContext('2d');
    context.fillStyle = shadeOf(paints[0].color, 1);
    context.fillRect(0, 2, 22, 4);
    add(canvas, data.partitionLegend);
  }
  if (state.mode !== 'difference' && timelines.some((line) => line.only !== null)) {
    entry(paints[FIRST_FAINT].color, paints[FIRST_FAINT].ink, PLAIN, 'faint: other steps');
  }
  for (const tier of data.tiers || []) {
    entry(rgba(tier.color), rgba(tier.color), PLAIN, tier.name, tier.about);
  }
  const memory = panes.find((pane) => pane.stackOf);
  const stacks = memory ? memory.memory.map((lane) => memory.stackOf(lane)).filter((of) => of !== null) : [];
  if (memory) {
    memory.legend.hidden = stacks.length === 0;
    memory.legend.replaceChildren(...data.memoryCategories
      .filter((_, number) => stacks.some((of) => of.held.some(({category}) => category === number)))
      .map((each) => element('li', {class: 'entry'}, swatch(rgba(each.color), rgba(each.ink), each.tile), each.name)));
  }
  const bubble = rgba(colors.bubble);
  if (state.causes) {
    const shown = timelines.filter((line) => line === measured || measured === null || state.mode === 'side-by-side');
    const present = new Set(shown.flatMap((line) => line.bubbles.map((each) => each.cause)));
    data.bubbleCauses.forEach((cause, i) => {
      if (present.has(i)) {
        entry(bubble, groundPaints[i + 1].ink, cause.tile, cause.name);
      }
    });
  } else if (timelines.some((line) => line.steps.length > 0)) {
    entry(bubble, groundPaints[0].ink, groundPaints[0].tile, 'bubble');
  }
  extraLegend.replaceChildren(...entries);
}

function toggleKind(number) {
  if (!state.hidden.delete(number)) {
    state.hidden.add(number);
  }
  kindButtons[number].setAttribute('aria-pressed', String(!state.hidden.has(number)));
  state.hovered = null;
  schedule();
}
function setMode(mode) {
  if (!modeButtons.has(mode)) {
    return;
  }
  state.mode = kept.mode = mode;
  modeButtons.forEach((button, each) => button.setAttribute('aria-pressed', String(each === mode)));
  refreshLegend();
  layOut();
}
function toggle(name) {
  if (toggles.has(name)) {
    state[name] = kept[name] = !state[name];
    toggles.get(name).setAttribute('aria-pressed', String(state[name]));
    refreshLegend();
    layOut();
  }
}
function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  document.documentElement.style.colorScheme = theme;
  themeButton.textContent = theme === 'dark' ? 'Light theme' : 'Dark theme';
  choosePaints();
  refreshLegend();
  schedule();
}

function button(text, label, action) {
  return element('button', {type: 'button', 'aria-label': label, title: label, onclick: action}, text);
}
const themeButton = element('button', {type: 'button', onclick: () => {
  kept.theme = state.theme === 'dark' ? 'light' : 'dark';
  setTheme(kept.theme);
}});

const KEYS = [
  ['W or +, S or −', 'zoom in, out; about the pointer'],
  ['A or ←, D or →', 'move left, right; faster with Shift'],
  ['↑, ↓', 'scroll the lanes'],
  ['Home or 0', 'show all that was exported'],
  ['F', 'fit the selected task or bubble'],
  ['/', 'find tasks; Enter and Shift + Enter go from hit to hit'],
  ['Alt + Page up, Page down', 'show the previous, next step'],
  ['. and ,', 'select the next, previous task of the lane'],
  ['N and P', 'select the next, previous task of the same kind'],
  ['T', 'select the twin'],
  ['Esc', 'clear the selection'],
  ['1, 2, 3', 'side by side, overlay, difference'],
  ['B, C', 'causes of bubbles, critical path'],
  ['O', 'composition of memory'],
  ['Wheel; Shift + wheel', 'zoom about the pointer; move along the axis'],
  ['Drag', 'move'],
];
const OF_THREADS = ['T', '1, 2, 3', 'B, C', 'O', 'Alt + Page up, Page down'];  // keys that a page of threads does not have
const forThreads = (text) => (THREADS ? text.replace('task of the same kind', 'range of the same name').replace('of the lane', 'of the row')
  .replace('the lanes', 'the threads').replace('task', 'range') : text);
const shownKeys = KEYS.filter(([keys]) => !(THREADS && OF_THREADS.includes(keys)) && (keys !== 'Alt + Page up, Page down' || otherSteps.size > 0));
const help = element('dialog', {'aria-label': 'Keys'},
  element('table', {}, element('caption', {}, 'Keys and mouse'),
    element('tbody', {}, ...shownKeys.map(([keys, what]) => factRow(keys, forThreads(what))))),
  element('button', {type: 'button', onclick: () => help.close()}, 'Close'));

function makeBars() {
  const modes = element('div', {class: 'tools', role: 'group', 'aria-label': 'Comparison'});
  if (measured && simulated) {
    const names = [['side-by-side', 'Side by side'], ['overlay', 'Overlay']];
    if (data.lateness) {
      names.push(['difference', 'Difference']);
    }
    for (const [mode, name] of names) {
      const made = element('button', {type: 'button', 'aria-pressed': String(mode === state.mode), onclick: () => setMode(mode)}, name);
      modeButtons.set(mode, made);
      modes.append(made);
    }
  }
  const add = (name, text, isThere) => {
    if (isThere) {
      const made = element('button', {type: 'button', 'aria-pressed': String(state[name]), onclick: () => toggle(name)}, text);
      toggles.set(name, made);
      modes.append(made);
    }
  };
  add('causes', 'Causes of bubbles', timelines.some((line) => line.bubbles.length > 0));
  add('critical', 'Critical path', timelines.some((line) => line.critical.length > 0));
  add('composition', 'Composition of memory', panes.some((pane) => pane.stackOf && pane.composed));
  return element('div', {class: 'bars'}, modes, ...makeLegend());
}

function figureCards() {
  const {header, rows, note} = data.figures;
  const cards = rows.slice(0, 3).map((row) => element('div', {class: 'figure'},
    element('div', {class: 'name'}, row[0]),
    element('div', {class: 'values'}, ...row.slice(1).flatMap((value, i) => value === '–' ? [] : [
      i > 0 ? ' · ' : '', element('span', {class: 'faint'}, i < 2 ? `${header[i + 1].toLowerCase()} ` : ''),
      element('b', i < 2 ? {} : {title: header[i + 1]}, value)]))));
  return element('div', {class: 'figures', role: 'group', 'aria-label': data.figures.title}, ...cards,
    rows.length === 0 && note ? element('p', {class: 'faint'}, note) : null);
}

/// The first notes, which are the gravest, and the rest behind a line.
function noteLists() {
  const list = (notes, label) => element('ul', {class: 'notes', 'aria-label': label}, ...notes.map((note) => element('li', {}, note)));
  const first = data.notes.length > 3 ? 2 : data.notes.length;
  const rest = data.notes.slice(first);
  return [first > 0 ? list(data.notes.slice(0, first), 'Notes') : null,
          rest.length > 0 ? element('details', {class: 'more'}, element('summary', {}, `${rest.length} more notes`), list(rest, 'More notes')) : null]
    .filter((each) => each !== null);
}

function buildPage() {
  strip = data.steps ? new StepStrip(data.steps) : null;
  const hint = 'Wheel or W and S zoom, drag or A and D move, a click selects, ? lists the keys.';
  const tools = element('div', {class: 'tools'}, findBox,
    button('−', 'Zoom out (S)', () => zoom(0.5, 1 / 0.7)), button('+', 'Zoom in (W)', () => zoom(0.5, 0.7)),
    button('Show all', 'Show all that was exported (Home)', () => show(home.start, home.length)), themeButton,
    button('Tables', 'Go to the tables below', () => tables.scrollIntoView()), button('?', 'Keys (?)', () => help.showModal()));
  const tables = element('section', {class: 'tables', 'aria-label': 'Tables'}, ...bubbleTables(),
    ...[...(THREADS ? [] : [data.figures]), data.lanes, ...data.tables].map(tableElement));
  for (const line of timelines) {
    paneOf.set(line, new TimelinePane(line));
  }
  const ofLines = (threads) => timelines.filter((line) => line.threads === threads).map((line) => paneOf.get(line));
  panes.push(...ofLines(false));
  if (data.memory) {
    panes.push(new MemoryPane(data.memory));
  }
  panes.push(...ofLines(true));
  if (data.counters) {
    panes.push(new CounterPane(data.counters));
  }
  parts.push(
    element('header', {class: 'top'}, element('div', {class: 'heading'}, element('h1', {}, data.title)), tools),
    element('div', {class: 'lead'}, ...(data.answer ? [answerLine(tables)] : []),
      element('p', {class: 'faint'}, data.summary)),
    ...noteLists(),
    figureCards(),
    ...(strip ? [strip.section] : []),
    makeBars(),
    element('main', {class: 'body'}, element('div', {class: 'panes'}, ...panes.map((pane) => pane.section)),
      element('div', {class: 'side'}, hitList, details)),
    tables,
    element('footer', {}, element('p', {}, data.scope), ...leftOutOfStep(), element('p', {id: 'help-hint'}, hint), element('p', {}, 'Written by PipeScope.')),
    tooltip, help);
  document.body.append(...parts.filter((part) => part !== null));
}

/// The answer: how much idle, the causes of it, and what would help, apart. A part leads to what it rests on.
function answerLine(tables) {
  const titled = (start) => [...tables.children].find((each) => each.children[0].textContent.startsWith(start));
  const goTo = (place) => place && place.scrollIntoView && place.scrollIntoView({block: 'nearest'});
  const follow = ({evidence, cause, lane}) => {
    const line = measured || simulated;
    const ofCause = line && cause ? line.bubbles.filter((bubble) => data.bubbleCauses[bubble.cause].name === cause) : [];
    if (ofCause.length > 0) {
      goToBubble(line, ofCause.reduce((longest, each) => (each.end - each.start > longest.end - longest.start ? each : longest)));
      return;
    }
    const table = titled({bubbles: 'Longest bubbles', lanes: data.lanes.title, change: 'What to change'}[evidence]);
    goTo(lane === undefined ? table : table.querySelectorAll('tbody tr')[lane]);
  };
  const onEnter = (part) => (event) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      follow(part);
    }
  };
  // A button would not break into lines, and the page refers to nothing.
  const partElement = (part) => (part.role === 'words' ? part.text : element('span', {class: `part ${part.role}`,
    ...(part.evidence ? {role: 'link', tabindex: '0', onclick: () => follow(part), onkeydown: onEnter(part)} : {})}, part.text));
  return element('p', {class: 'answer'}, ...data.answer.map(partElement));
}

/// What the page has of the exported step only, as a paragraph.
function leftOutOfStep() {
  const names = ['memory', 'counters'].filter((name) => whole[name] && !data[name]);
  return names.length === 0 ? [] : [element('p', {}, `${capital(names.join(' and '))} over time: only of step ${whole.step}.`)];
}

/// Distributes the window's height over the panes, within readable limits.
function layOut() {
  chooseGutter();
  const shown = panes.filter((pane) => {
    // The other modes show simulated tasks in the measured timeline.
    const visible = pane.line !== simulated || !measured || state.mode === 'side-by-side' || pane.line === null;
    pane.section.hidden = !visible;
    return visible;
  });
  const ofTasks = shown.filter((pane) => pane.line !== null && !pane.line.threads);
  const ofThreads = shown.filter((pane) => pane.line !== null && pane.line.threads);
  const curves = shown.filter((pane) => pane.line === null);  // of memory and counters
  const headers = shown.length * 34;
  const room = Math.max(420, window.innerHeight - headers - Math.min(panes[0] ? panes[0].section.offsetTop : 0, 260) - 24);
  const wanted = (pane) => (pane.stackOf && state.composition ? STACK_LANE : MEMORY_LANE);
  const roomOf = new Map(curves.map((pane) => [pane, Math.min(pane.memory.length * (wanted(pane) + 3) + 3, room / 4)]));
  const curvesRoom = [...roomOf.values()].reduce((sum, height) => sum + height, 0);
  const each = Math.max(180, (room - curvesRoom) / Math.max(1, ofTasks.length || ofThreads.length));
  let row = TALLEST_ROW;
  while (row > LOWEST_ROW && ofTasks.some((pane) => pane.heightFor(row) + RULER > each)) {
    --row;
  }
  for (const pane of [...ofTasks, ...ofThreads]) {
    pane.tellFacts(state.critical ? pane.line.factsWithPath : pane.line.facts);
    pane.layOut(row);
  }
  for (const pane of curves) {
    pane.layOut(Math.max(MEMORY_LANE, Math.min(48, Math.floor(roomOf.get(pane) / pane.memory.length) - 3)));
  }
  for (const pane of shown) {
    // What takes half of the window is shown whole. More lanes scroll, so that both timelines are in view.
    const isCurves = roomOf.has(pane);
    const share = isCurves ? Math.max(roomOf.get(pane), 180) : Math.max(each, 0.35 * window.innerHeight);
    const whole = pane.contentHeight + pane.topHeight;
    pane.setHeight(whole <= window.innerHeight / (isCurves ? 3 : 2) ? whole : share);
  }
  // A scroll bar in only one pane would shift its axis relative to the others.
  const width = Math.min(...shown.map((pane) => pane.scroll.clientWidth));
  for (const pane of shown) {
    pane.setWidth(width);
  }
  schedule();
}

let scheduled = false;
function schedule() {
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      redraw();
    });
  }
}
let described = 0;
function redraw() {
  if (strip) {
    strip.draw();
  }
  for (const pane of panes) {
    if (!pane.section.hidden) {
      pane.draw();
    }
  }
  clearTimeout(described);
  described = setTimeout(() => {
    panes.forEach((pane) => pane.describe());
    keepInLink();
  }, 200);
}

// ---- The view in the link

/// "step=12&range=1200..3400&mode=overlay&task=measured.17&find=B3": what follows # in the page's link. Times are in ns,
/// from the ruler's zero.
function viewText() {
  const texts = [...(THREADS ? [] : [`step=${data.step}`]), `range=${Math.round(view.start)}..${Math.round(view.start + view.length)}`];
  if (state.mode !== data.mode) {
    texts.push(`mode=${state.mode}`);
  }
  if (state.selected) {
    texts.push(`task=${state.selected.line.source}.${state.selected.task}`);
  }
  if (state.chosen) {
    texts.push(`bubble=${state.chosen.line.source}.${state.chosen.number}`);
  }
  if (state.find) {
    texts.push(`find=${encodeURIComponent(state.find)}`);
  }
  return texts.join('&');
}
/// Shows the view of such a text. Leaves out what the page does not have.
function readView(text) {
  const values = valuesOf(text);
  const step = stepIn(text);
  if (step !== null && step !== data.step) {
    openPage(step, text);
    return;
  }
  const range = /^(-?\d+)\.\.(-?\d+)$/.exec(values.get('range') || '');
  if (range && Number(range[2]) > Number(range[1])) {
    show(Number(range[1]), Number(range[2]) - Number(range[1]));
  }
  setMode(values.get('mode') || data.mode);
  if (values.get('find')) {
    find(decoded(values.get('find')));
  }
  const task = /^(\w+)\.(\d+)$/.exec(values.get('task') || '');
  const line = task && timelines.find((each) => each.source === task[1]);
  if (line && Number(task[2]) < line.start.length) {
    select(line, Number(task[2]), false);
  }
  const bubble = /^(\w+)\.(\d+)$/.exec(values.get('bubble') || '');
  const own = bubble && timelines.find((each) => each.source === bubble[1]);
  if (own && Number(bubble[2]) < own.bubbles.length) {
    selectBubble(own, own.bubbles[Number(bubble[2])], false);
  }
}
/// So that the link in the browser's address bar leads to what is on screen.
function keepInLink() {
  if (window.history && window.history.replaceState && window.location && window.location.hash !== `#${viewText()}`) {
    try {
      window.history.replaceState(null, '', `#${viewText()}`);
    } catch (error) {
      // A browser may forbid it for files; the page works without.
    }
  }
}

// ---- Selection

function select(line, task, reveal) {
  state.chosen = null;
  state.selected = task >= 0 ? {line, task} : null;
  state.arrows = state.selected ? arrowsOf(line, task) : [];
  if (reveal && state.selected) {
    bringIntoView(line, task);
  }
  showDetails();
  schedule();
}
/// Selects a bubble: its causes are in the details, and an arrow leads from what it waits for.
function selectBubble(line, bubble, reveal) {
  state.selected = null;
  state.arrows = [];
  state.chosen = {...bubble, line};
  if (reveal) {
    const row = line.rows.find((each) => each.lane === bubble.lane && !each.copies && !each.kernels);
    reach(line, bubble.start, bubble.end, row);
  }
  showDetails();
  schedule();
}
function bringIntoView(line, task) {
  reach(line, line.start[task], line.end[task], line.rows[line.row[task]]);
}
/// Moves the view, if necessary, to a time and a row.
function reach(line, start, end, row) {
  const pane = paneOf.get(line);
  if (end < view.start + 0.02 * view.length || start > view.start + 0.98 * view.length) {
    show((start + end - view.length) / 2, view.length);
  }
  const space = pane.height - RULER;
  if (row.top < pane.scroll.scrollTop) {
    pane.scroll.scrollTop = row.top - LANE_GAP;
  } else if (row.top + row.height > pane.scroll.scrollTop + space) {
    pane.scroll.scrollTop = row.top + row.height - space + LANE_GAP;
  }
}
function showBubble() {
  const {line, ...bubble} = state.chosen;
  const step = line.steps.find(([, start, end]) => bubble.start >= start && bubble.end <= end);
  const length = bubble.end - bubble.start;
  const rows = [];
  if (step) {
    rows.push(factRow('Start', duration(bubble.start - step[1])), factRow('End', duration(bubble.end - step[1])));
  }
  rows.push(factRow('Length', duration(length)));
  if (step) {
    rows.push(factRow('Of the step', share(length / (step[2] - step[1]))));
  }
  rows.push(factRow('Cause', data.bubbleCauses[bubble.cause].name));
  if (bubble.root >= 0) {
    rows.push(factRow('Root cause', data.rootCauses[bubble.root]));
  }
  const taskLink = (task) => element('button', {type: 'button', class: 'link', onclick: () => select(line, task, true)}, placedName(line, task));
  if (bubble.culprit >= 0) {
    rows.push(factRow(bubble.next >= 0 ? 'Waits for' : 'Still at work', taskLink(bubble.culprit)));
  }
  if (bubble.next >= 0) {
    rows.push(factRow('Then runs', taskLink(bubble.next)));
  }
  details.replaceChildren(element('h2', {}, `Bubble of ${line.lanes[bubble.lane].name}`),
    element('p', {class: 'faint'}, `${calledOf(line.source)}${step ? ` · step ${line === simulated && measured !== null ? data.step : step[0]}` : ''}`),
    element('table', {class: 'facts'}, element('tbody', {}, ...rows)));
}

// ---- Bubbles as a table

const MOST_BUBBLES = 20;
function bubbleTables() {
  const line = measured || simulated;
  if (!line || line.bubbles.length === 0) {
    return [];
  }
  const longest = [...line.bubbles].sort((a, b) => (b.end - b.start) - (a.end - a.start) || a.start - b.start);
  const step = line.steps.find(([number]) => number === data.step) || line.steps[0];
  const stepLength = step ? step[2] - step[1] : 0;
  const rooted = line.bubbles.some((bubble) => bubble.root >= 0);
  const header = ['Lane', 'Start', 'Length', 'Of the step', 'Cause', ...(rooted ? ['Root cause'] : []), 'Waits for, or who still works'];
  const left = longest.length - MOST_BUBBLES;
  const rowOf = (bubble) => [
    element('button', {type: 'button', class: 'link', onclick: () => goToBubble(line, bubble)}, line.lanes[bubble.lane].name),
    duration(bubble.start - (step ? step[1] : 0)), duration(bubble.end - bubble.start), stepLength > 0 ? share((bubble.end - bubble.start) / stepLength) : '',
    data.bubbleCauses[bubble.cause].name, ...(rooted ? [bubble.root >= 0 ? data.rootCauses[bubble.root] : ''] : []),
    bubble.culprit >= 0 ? placedName(line, bubble.culprit) : ''];
  return [tableElement({
    title: `Longest bubbles, ${calledOf(line.source)}${step && line === measured ? `, step ${data.step}` : ''}`, header,
    rows: longest.slice(0, MOST_BUBBLES).map(rowOf),
    note: left > 0 ? `${left} shorter ${left === 1 ? 'one is' : 'ones are'} not in the table.` : ''})];
}
function goToBubble(line, bubble) {
  selectBubble(line, bubble, true);
  if (paneOf.get(line).section.scrollIntoView) {
    paneOf.get(line).section.scrollIntoView({block: 'nearest'});
  }
}

// ---- Find

const MOST_LISTED = 100;
/// True if each word of the text is in the task's name, or is one of its short forms: F3, 2F3 (on partition 2), mb3.
function matcher(text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const known = new Map();
  return (line, task) => {
    const names = line.names;
    const number = line.name[task];
    const key = `${line.threads} ${number}`;
    if (!known.has(key)) {
      const name = names.name[number].toLowerCase();
      const forms = [];
      if (!line.threads && names.microBatch[number] >= 0) {
        const short = `${data.kinds[line.kind[task]].letter || ''}${names.microBatch[number]}`.toLowerCase();
        forms.push(short, `${names.partition[number]}${short}`, `mb${names.microBatch[number]}`);
      }
      const isForm = (word) => /^\d*[a-z]{1,2}\d+$/.test(word) && !line.threads;
      known.set(key, words.length > 0 && words.every((word) => (isForm(word) ? forms.includes(word) || name.split(/[^a-z0-9]+/).includes(word)
        : name.includes(word))));
    }
    return known.get(key);
  };
}
const findField = element('input', {type: 'search', placeholder: THREADS ? 'Find ranges (/)' : 'Find tasks: F3, backward (/)', 'aria-label': 'Find'});
const found = element('span', {class: 'faint', 'aria-live': 'polite'});
const findBox = element('span', {class: 'find', role: 'search'}, findField, found);
const hitList = element('section', {class: 'hits', 'aria-label': 'What was found', hidden: ''});
hitList.hidden = true;
findField.addEventListener('input', () => find(findField.value || ''));
findField.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') {
    goToHit(event.shiftKey ? -1 : 1);
    event.preventDefault();
  } else if (event.key === 'Escape') {
    find('');
    findField.blur();
    event.preventDefault();
  }
  event.stopPropagation();
});
/// Lists what matches the text, and marks it in the timelines.
function find(text) {
  state.find = kept.find = text;
  findField.value = text;
  state.hits = [];
  state.hit = -1;
  const matches = matcher(text);
  for (const line of text.trim() === '' ? [] : timelines) {
    const ofLine = [];
    for (let i = 0; i < line.count; ++i) {
      if (matches(line, i)) {
        ofLine.push({line, task: i});
      }
    }
    state.hits.push(...ofLine.sort((a, b) => line.start[a.task] - line.start[b.task]));
  }
  showHits();
  schedule();
}
function showHits() {
  const count = state.hits.length;
  found.textContent = state.find.trim() === '' ? '' : state.hit >= 0 ? `${state.hit + 1} of ${count}` : `${count} found`;
  hitList.hidden = count === 0;
  const first = Math.max(0, Math.min(state.hit - 10, count - MOST_LISTED));
  const listed = state.hits.slice(first, first + MOST_LISTED);
  hitList.replaceChildren(...listed.map(({line, task}, k) => element('button', {
    type: 'button', class: 'link', 'aria-current': String(first + k === state.hit), onclick: () => selectHit(first + k)},
    `${placedName(line, task)}${timelines.length > 1 ? `, ${calledOf(line.source)}` : ''}, ${duration(line.end[task] - line.start[task])}`)),
  ...(count > listed.length ? [element('span', {class: 'faint'}, `${count - listed.length} more`)] : []));
}
function selectHit(number) {
  state.hit = number;
  select(state.hits[number].line, state.hits[number].task, true);
  showHits();
}
function goToHit(by) {
  const count = state.hits.length;
  if (count > 0) {
    selectHit(state.hit < 0 ? (by > 0 ? 0 : count - 1) : (state.hit + by + count) % count);
  }
}

function showDetails() {
  if (state.chosen) {
    showBubble();
    return;
  }
  if (!state.selected) {
    details.replaceChildren(element('h2', {}, 'Nothing is selected'),
      element('p', {class: 'faint'}, THREADS ? 'Click a range, or press . and , to walk through a row.'
        : 'Click a task or a bubble, or press . and , to walk through a lane.'
          + (timelines.length > 1 ? ' Its twin in the other timeline is marked too.' : '')));
    return;
  }
  const {line, task} = state.selected;
  const facts = factsOf(line, task);
  if (line.threads) {
    const same = line.name.reduce((all, name, i) => (name === line.name[task]
      ? {count: all.count + 1, time: all.time + line.end[i] - line.start[i]} : all), {count: 0, time: 0});
    const rows = [['Start', duration(facts.start)], ['End', duration(facts.start + facts.duration)],
                  ['Duration', duration(facts.duration)], ['Of this name', `${grouped(same.count, 0)}, ${duration(same.time)}`],
                  ['Mean', duration(same.time / same.count)]];
    details.replaceChildren(element('h2', {}, facts.name), element('p', {class: 'faint'}, laneTitle(facts.lane)),
      element('table', {}, element('tbody', {}, ...rows.map(([name, value]) => factRow(name, value)))));
    return;
  }
  const own = [duration(facts.start), duration(facts.start + facts.duration), duration(facts.duration)];
  const twin = facts.twin ? [duration(facts.twin.start), duration(facts.twin.start + facts.twin.duration), duration(facts.twin.duration)] : null;
  const place = (ns) => data.nothingIsLate ? '–' : change(ns);  // of clocks that do not fit
  const differences = facts.twin ? [place(facts.twin.startChange), place(facts.twin.endChange), durationChangeText(facts.twin)] : null;
  const columns = line === measured ? [own, twin] : [twin, own];
  const rows = ['Start', 'End', 'Duration'].map((name, i) => element('tr', {}, element('th', {scope: 'row'}, name),
    ...columns.map((column) => element('td', {}, column ? column[i] : '–')),
    element('td', {}, ...(differences ? differences[i].split(' (').flatMap((part, k) => (k > 0 ? [element('br'), `(${part}`] : [part])) : ['–']))));
  const more = [];
  const fact = (name, value) => more.push(element('tr', {}, element('th', {scope: 'row'}, name), element('td', {colspan: '3'}, value)));
  fact(isKernel(line, task) ? 'Launched by' : 'Kind', facts.kind);
  if (facts.partition >= 0) {
    fact('Partition', String(facts.partition));
  }
  if (facts.microBatch >= 0) {
    fact('Micro-batch', String(facts.microBatch));
  }
  if (facts.bytes > 0) {
    fact('Moves', bytesText(facts.bytes));
  }
  details.replaceChildren(
    element('h2', {}, facts.name), element('p', {class: 'faint'}, `${laneTitle(facts.lane)} · step ${facts.step} · ${calledOf(line.source)}`),
    element('table', {},
      element('thead', {}, element('tr', {}, ...['', capital(calledOf('measured')), capital(calledOf('simulated')), 'Difference'].map((title) => element('th', {scope: 'col'}, title)))),
      element('tbody', {}, ...rows, ...more)),
    element('p', {class: 'faint'}, facts.twin ? `Times are since the start of the step. The difference is ${minus}.`
      : isKernel(line, task) ? '' : line.noTwin));
}
/// Selects the next (1) or previous (-1) task that `fits`, in the same row or by time; without a selection the first one in view.
function walk(by, sameKind) {
  const line = state.selected ? state.selected.line : measured || simulated || timelines[0];
  if (!line) {
    return;
  }
  const shown = (i) => !state.hidden.has(line.kind[i]);
  let found = -1;
  if (!state.selected) {
    for (const row of line.rows) {
      const [first, end] = paneOf.get(line).visible(row);
      for (let i = first; i < end && found < 0; ++i) {
        found = shown(i) ? i : -1;
      }
    }
  } else if (!sameKind) {
    const row = line.rows[line.row[state.selected.task]];
    for (let i = state.selected.task + by; i >= row.first && i < row.end && found < 0; i += by) {
      found = shown(i) ? i : -1;
    }
  } else {
    const {task} = state.selected;
    const after = (a, b) => line.start[a] - line.start[b] || a - b;
    for (let i = 0; i < line.count; ++i) {
      const alike = line.threads ? line.name[i] === line.name[task]
        : line.kind[i] === line.kind[task] && isKernel(line, i) === isKernel(line, task);
      if (i !== task && alike && after(i, task) * by > 0 &&
          (found < 0 || after(i, found) * by < 0)) {
        found = i;
      }
    }
  }
  if (found >= 0) {
    select(line, found, true);
  }
}

// ---- Input

function placeTip(event, lines) {
  if (!lines) {
    tooltip.hidden = true;
    return;
  }
  tooltip.replaceChildren(...lines.flatMap((line, i) => (i > 0 ? [element('br'), line] : [line])));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 4))}px`;
  const below = event.clientY + 18;
  tooltip.style.top = `${below + box.height + 4 < window.innerHeight ? below : Math.max(4, event.clientY - box.height - 12)}px`;
}

const touches = new Map();  // pointers that are down, by id
let drag = null;
function positionIn(pane, event) {
  const box = pane.canvas.getBoundingClientRect();
  return {x: event.clientX - box.left, y: event.clientY - box.top};
}
function connect(pane) {
  const {canvas, scroll} = pane;
  canvas.addEventListener('wheel', (event) => {
    if (event.deltaMode === 0 && event.deltaX === 0 && event.deltaY === 0) {
      return;
    }
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 400 : 1;  // lines or pages as pixels
    const along = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan(along * unit / pane.axisWidth);
      return;
    }
    const anchor = (positionIn(pane, event).x - gutter) / pane.axisWidth;
    zoom(Math.min(Math.max(anchor, 0), 1), 1.25 ** (Math.max(-300, Math.min(300, event.deltaY * unit)) / 100));
  }, {passive: false});
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) {
      return;
    }
    touches.set(event.pointerId, {x: event.clientX, y: event.clientY});
    drag = {pane, x: event.clientX, y: event.clientY, start: view.start, scroll: scroll.scrollTop, moved: touches.size > 1,
            touch: event.pointerType === 'touch'};
    tooltip.hidden = true;
  });
  canvas.addEventListener('pointermove', (event) => {
    if (drag) {
      return;
    }
    const {x, y} = positionIn(pane, event);
    state.cursor = x >= gutter ? pane.timeAt(x) : null;
    const task = pane.taskAt(x, y);
    state.hovered = task >= 0 ? {line: pane.line, task} : null;
    const bubble = task < 0 && pane.bubbleAt ? pane.bubbleAt(x, y) : null;
    state.bubble = bubble && {...bubble, line: pane.line};
    placeTip(event, pane.tipAt(x, y));
    schedule();
  });
  canvas.addEventListener('pointerleave', () => {
    tooltip.hidden = true;
    state.hovered = null;
    state.bubble = null;
    state.cursor = null;
    schedule();
  });
  canvas.addEventListener('dblclick', (event) => {
    const {x, y} = positionIn(pane, event);
    if (pane.taskAt(x, y) >= 0) {
      fitSelection();
    }
  });
  scroll.addEventListener('scroll', () => {
    for (const other of panes) {  // both timelines scroll together
      if (other !== pane && other.line && pane.line && other.line.threads === pane.line.threads) {
        other.scroll.scrollTop = scroll.scrollTop;
      }
    }
    schedule();
  });
}
function movePointer(event) {
  const before = touches.get(event.pointerId);
  if (!drag || !before) {
    return;
  }
  if (touches.size === 2) {
    const [a, b] = [...touches.values()];
    const gap = Math.abs(a.x - b.x);
    touches.set(event.pointerId, {x: event.clientX, y: event.clientY});
    const [c, d] = [...touches.values()];
    const middle = (c.x + d.x) / 2 - drag.pane.canvas.getBoundingClientRect().left - gutter;
    zoom(Math.min(Math.max(middle / drag.pane.axisWidth, 0), 1), Math.max(gap, 20) / Math.max(Math.abs(c.x - d.x), 20));
    return;
  }
  touches.set(event.pointerId, {x: event.clientX, y: event.clientY});
  if (!drag.moved && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 4) {
    return;
  }
  if (!drag.moved) {
    drag.moved = true;
    drag.pane.canvas.classList.add('dragging');
  }
  show(drag.start - (event.clientX - drag.x) / drag.pane.axisWidth * view.length, view.length);
  if (!drag.touch) {
    drag.pane.scroll.scrollTop = drag.scroll - (event.clientY - drag.y);
  }
}
function endPointer(event) {
  if (!touches.delete(event.pointerId) || !drag) {
    return;
  }
  const {pane, moved} = drag;
  pane.canvas.classList.remove('dragging');
  if (!moved && event.type === 'pointerup' && pane.line) {
    const {x, y} = positionIn(pane, event);
    const task = pane.taskAt(x, y);
    const bubble = task < 0 && pane.bubbleAt ? pane.bubbleAt(x, y) : null;
    if (bubble) {
      selectBubble(pane.line, bubble, false);
    } else {
      select(pane.line, task, false);
    }
  }
  drag = touches.size > 0 ? {...drag, moved: true, x: [...touches.values()][0].x, start: view.start} : null;
}
function fitSelection() {
  if (state.chosen) {
    const length = Math.max(SHORTEST, (state.chosen.end - state.chosen.start) * 1.5);
    show((state.chosen.start + state.chosen.end - length) / 2, length);
  } else if (state.selected) {
    const {line, task} = state.selected;
    const length = Math.max(SHORTEST, (line.end[task] - line.start[task]) * 1.5);
    show((line.start[task] + line.end[task] - length) / 2, length);
  } else {
    show(home.start, home.length);
  }
}
function anchorAtCursor() {
  return state.cursor === null ? 0.5 : Math.min(Math.max((state.cursor - view.start) / view.length, 0), 1);
}
function scrollLanes(by) {
  const pane = panes.find((each) => each.line && !each.section.hidden && each.scroll.scrollHeight > each.scroll.clientHeight);
  if (!pane) {
    return false;
  }
  pane.scroll.scrollTop += by;
  return true;
}
const ACTIONS = {
  w: () => zoom(anchorAtCursor(), 0.7), '+': () => zoom(anchorAtCursor(), 0.7), '=': () => zoom(anchorAtCursor(), 0.7),
  s: () => zoom(anchorAtCursor(), 1 / 0.7), '-': () => zoom(anchorAtCursor(), 1 / 0.7),
  a: (event) => pan(event.shiftKey ? -0.5 : -0.1), arrowleft: (event) => pan(event.shiftKey ? -0.5 : -0.1),
  d: (event) => pan(event.shiftKey ? 0.5 : 0.1), arrowright: (event) => pan(event.shiftKey ? 0.5 : 0.1),
  arrowup: () => scrollLanes(-40), arrowdown: () => scrollLanes(40),
  home: () => show(home.start, home.length), 0: () => show(home.start, home.length), f: fitSelection,
  '.': () => walk(1, false), ',': () => walk(-1, false), n: () => walk(1, true), p: () => walk(-1, true),
  t: () => {
    if (state.selected && state.selected.line.twin[state.selected.task] >= 0) {
      select(otherOf(state.selected.line), state.selected.line.twin[state.selected.task], true);
    }
  },
  escape: () => select(null, -1, false), b: () => toggle('causes'), c: () => toggle('critical'), o: () => toggle('composition'),
  1: () => setMode('side-by-side'), 2: () => setMode('overlay'), 3: () => setMode('difference'),
  '?': () => help.showModal(), '/': () => findField.focus(),
};
/// Shows another step that is on the page. What is selected, and the zoom, do not fit it.
function goToStep(step) {
  if (step !== data.step && isHeld(step)) {
    openPage(step, '');
    return true;
  }
  return false;
}
function stepBy(by) {
  const steps = [whole.step, ...otherSteps.keys()].sort((a, b) => a - b);
  const next = steps[steps.indexOf(data.step) + by];
  return next === undefined ? false : goToStep(next);
}
function onKey(event) {
  const isTyped = event.target && event.target.tagName === 'INPUT';
  if (event.altKey && /^Page(Up|Down)$/.test(event.key) && !help.open) {
    event.preventDefault();
    stepBy(event.key === 'PageUp' ? -1 : 1);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || isTyped) {
    return;
  }
  const action = ACTIONS[event.key.toLowerCase()];
  if (action && action(event) !== false) {
    event.preventDefault();
  }
}

choosePaints();
buildPage();
setTheme(kept.theme || (systemTheme.matches ? 'dark' : 'light'));
panes.forEach(connect);
if (data.selected) {
  const line = timelines.find((each) => each.source === data.selected[0]);
  state.selected = {line, task: data.selected[1]};
  state.arrows = arrowsOf(line, data.selected[1]);
}
if (kept.find) {
  find(kept.find);
}
showDetails();
layOut();

const paneNamed = (source) => panes.find((each) => each.line && each.line.source === source);
const placed = (pane, rect) => {
  const box = pane.canvas.getBoundingClientRect();
  return {x: box.left + rect.x, y: box.top + rect.y, width: rect.width, height: rect.height};
};
/// For tests and scripts: what is on screen. Places are in pixels of the browser's window. Another step has its own.
window.pipescopePage = Object.freeze({
  state: () => ({
    start: view.start, length: view.length, mode: state.mode, theme: state.theme, causes: state.causes, step: data.step,
    hidden: [...state.hidden].map((kind) => data.kinds[kind].name),
    hovered: state.hovered && [state.hovered.line.source, state.hovered.task],
    selected: state.selected && [state.selected.line.source, state.selected.task],
    bubble: state.chosen && [state.chosen.line.source, state.chosen.number],
    hits: state.hits.map(({line, task}) => [line.source, task]),
    arrows: state.arrows.map(({from, to}) => [from, to]),
  }),
  gutter: () => gutter,
  link: viewText, show: readView,
  plates: (source) => {
    const pane = paneNamed(source);
    const bound = pane.boundPlate();
    return {bound, cursor: pane.cursorPlate(bound)};
  },
  labels: (source) => paneNamed(source).labels.map(({i, text, rect}) => ({task: i, text, room: rect.width})),
  place: (source, task) => placed(paneNamed(source), paneNamed(source).rectOf(task)),
  bubbles: (source) => paneNamed(source).line.bubbles.map((bubble) => ({...bubble, ...placed(paneNamed(source), paneNamed(source).rectOfBubble(bubble))})),
  start: (source, task) => paneNamed(source).line.start[task],
});
shownPage = {
  pointermove: movePointer, pointerup: endPointer, pointercancel: endPointer, keydown: onKey, resize: layOut,
  hashchange: () => readView(window.location.hash),
  themechange: () => {
    if (!kept.theme) {
      setTheme(systemTheme.matches ? 'dark' : 'light');
    }
  },
  close: () => {
    clearTimeout(described);
    parts.filter((part) => part !== null).forEach((part) => part.remove());
  },
};
if (link) {
  readView(link);
}
}

// ---- The view in the link

function valuesOf(text) {
  return new Map(text.replace(/^#/, '').split('&').map((part) => part.split('=')));
}
/// Empty for a text that is none.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    return '';
  }
}
/// The step that such a text names, if it is on the page; else null.
function stepIn(text) {
  const named = /^-?\d+$/.exec(valuesOf(text).get('step') || '');
  return named && isHeld(Number(named[0])) ? Number(named[0]) : null;
}

for (const type of ['pointermove', 'pointerup', 'pointercancel', 'keydown', 'resize', 'hashchange']) {
  window.addEventListener(type, (event) => shownPage[type](event));
}
systemTheme.addEventListener('change', () => shownPage.themechange());
const linked = (window.location && window.location.hash) || '';
const linkedStep = stepIn(linked);
openPage(linkedStep === null ? whole.step : linkedStep, linked);
})();
