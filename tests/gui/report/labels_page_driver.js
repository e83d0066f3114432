// Drives a page with page_without_browser.js: the plates on the ruler, and the labels of bars, as they are drawn.
'use strict';
const hover = (source, x, y = 60) => {
  canvasOf(source).dispatchEvent({type: 'pointermove', clientX: x, clientY: y});
  drawFrames();
};
const press = (key) => {
  window.dispatchEvent({type: 'keydown', key, preventDefault() {}});
  drawFrames();
};
const state = () => window.pipescopePage.state();
const plates = (source) => window.pipescopePage.plates(source);
const apart = (a, b) => a.left + a.width <= b.left || b.left + b.width <= a.left;
const rulerTexts = (source) => canvasOf(source).texts.filter(({y}) => y < 20);

// The lower bound, without and with a cursor
const {bound} = plates('simulated');
check('the bound has a plate', bound && bound.text === expected.bound, JSON.stringify(bound));
check('what was measured has no bound', plates('measured').bound === null);
check('without a pointer there is no cursor', plates('simulated').cursor === null);
const width = canvasOf('simulated').clientWidth;
let beside = 0;
for (let x = window.pipescopePage.gutter() + 1; x < width; x += 9) {
  hover('simulated', x);
  const both = plates('simulated');
  beside += both.cursor && Math.abs(both.cursor.left + both.cursor.width / 2 - x) > 1 ? 1 : 0;
  if (!both.cursor || !apart(both.cursor, both.bound) || both.cursor.left < 0 || both.cursor.left + both.cursor.width > width) {
    check(`the cursor's plate is beside that of the bound at ${x}`, false, JSON.stringify(both));
  }
  const texts = rulerTexts('simulated');
  if (!texts.some(({text}) => text === both.bound.text) || !texts.some(({text}) => text === both.cursor.text)) {
    check(`both plates have their texts at ${x}`, false, JSON.stringify(texts));
  }
  for (const {text, x: left} of texts.filter(({text: each}) => each !== both.bound.text && each !== both.cursor.text)) {
    const place = {left, width: 7 * text.length};
    if (!apart(place, both.cursor) || !apart(place, both.bound)) {
      check(`the plates cover no number of the ruler at ${x}`, false, `${text} ${JSON.stringify(both)}`);
    }
  }
}
check('the cursor was moved aside somewhere', beside > 3, beside);
check('the cursor is in every timeline', plates('measured').cursor !== null);
canvasOf('simulated').dispatchEvent({type: 'pointerleave'});
drawFrames();
check('the cursor leaves', plates('simulated').cursor === null);

// Each bar with room for twice its label has all of it, whatever its kind's other bars have room for.
let whole = 0;
let none = 0;
let named = 0;
const first = window.pipescopePage.place('measured', expected.kernel);
hover('measured', first.x + first.width / 2);  // zooming is about the pointer
for (let step = 0; step < 12; ++step) {
  for (const source of ['measured', 'simulated']) {
    for (const {task, text, room} of window.pipescopePage.labels(source)) {
      const full = expected.labels[source][task];
      if (full === undefined) {
        continue;
      }
      whole += text === full ? 1 : 0;
      none += text === '' ? 1 : 0;
      if (room >= 2 * 7 * full.length + 6 && text !== full) {
        check(`a wide bar has its label at zoom ${step}`, false, `${source} ${task}: '${text}' instead of '${full}', ${room} pixels`);
      }
      if (text !== '' && text !== full && text !== full.slice(1)) {
        check(`a label is whole or short`, false, text);
      }
    }
  }
  for (const name of expected.kernels) {
    named += canvasOf('measured').texts.some(({text}) => text === name) ? 1 : 0;
  }
  window.dispatchEvent({type: 'keydown', key: 'w', preventDefault() {}});
  drawFrames();
}
check('bars have labels', whole > 20, whole);
check('narrow bars have none', none > 0, none);
window.dispatchEvent({type: 'keydown', key: '0', preventDefault() {}});
drawFrames();

// Differences are in words
press('3');
let late = 0;
for (let step = 0; step < 12; ++step) {
  for (const {task, text} of window.pipescopePage.labels('measured').filter((each) => / (late|early)$/.test(each.text))) {
    check(`task ${task} is as late as the window says`, text === `${expected.labels.measured[task]} ${expected.late[task]}`, `${text}, not ${expected.late[task]}`);
    late += 1;
  }
  press('w');
}
check('wide bars say how late they are', late > 3, late);
press('1');
press('0');

// Memory: a row for each lane, with the peak as in the window
for (const name of expected.memory) {
  check(`memory says ${name}`, canvasOf('memory').texts.some(({text}) => text === name), JSON.stringify(canvasOf('memory').texts));
}
// The composition of memory, stacked as in the window
const stackAt = (x) => canvasOf('memory').fills.filter((each) =>
  typeof each.style === 'string' && expected.stack.some(({color}) => color === each.style) && each.x <= x && x < each.x + each.width);
const {start: from, length: span} = state();
const stackX = window.pipescopePage.gutter() + (expected.stackTime - from) / span * (width - window.pipescopePage.gutter());
check('no stack at first', stackAt(stackX).length === 0, JSON.stringify(stackAt(stackX)));
check('no legend of categories', !expected.stack.some(({name}) => textOfPage().includes(name)));
buttonOf('Composition of memory').dispatchEvent({type: 'click'});
drawFrames();
const lanes = canvasOf('memory').texts.filter(({text}) => /^lane \d/.test(text)).map(({y}) => y).sort((a, b) => a - b);
const ofFirst = stackAt(stackX).filter(({y}) => y < lanes[1] - lanes[0]);  // above the second lane
check('the stack has the categories', JSON.stringify(ofFirst.map(({style}) => style)) === JSON.stringify(expected.stack.map(({color}) => color)), JSON.stringify(ofFirst));
const perByte = ofFirst.reduce((sum, each) => sum + each.height, 0) / expected.stack.reduce((sum, each) => sum + each.bytes, 0);
expected.stack.forEach(({name, bytes}, i) => {
  check(`${name} has its height`, ofFirst[i] && Math.abs(ofFirst[i].height - perByte * bytes) < 0.01, JSON.stringify(ofFirst[i]));
  check(`${name} is on the one before`, i === 0 || Math.abs(ofFirst[i].y + ofFirst[i].height - ofFirst[i - 1].y) < 0.01);
  check(`the legend has ${name}`, textOfPage().includes(name));
});
hover('memory', stackX, lanes[0]);
for (const {name, text} of expected.stack) {
  check(`the tooltip says ${name} ${text}`, textOfPage().includes(`${name} ${text}`), textOfPage());
}
press('o');
check('O takes the stack away', stackAt(stackX).length === 0);

// The figures of the critical path are shown with it
const saysPath = () => expected.paths.map((each) => textOfPage().includes(each));
check('without the path there are no figures of it', !saysPath().includes(true), textOfPage());
press('c');
check('C tells its length and shares', !saysPath().includes(false), textOfPage());
press('c');
check('C takes them away', !saysPath().includes(true));

// Arrows of the selected task
const arrowed = window.pipescopePage.place('measured', expected.arrowed);
for (const type of ['pointerdown', 'pointerup']) {
  const at = {type, button: 0, pointerId: 1, clientX: arrowed.x + arrowed.width / 2, clientY: arrowed.y + arrowed.height / 2};
  (type === 'pointerup' ? window : canvasOf('measured')).dispatchEvent(at);
}
drawFrames();
check('a click selects', JSON.stringify(state().selected) === JSON.stringify(['measured', expected.arrowed]), JSON.stringify(state().selected));
const inOrder = (pairs) => JSON.stringify([...pairs].sort((a, b) => a[0] - b[0] || a[1] - b[1]));
check('it has its arrows', inOrder(state().arrows) === inOrder(expected.arrows), `${inOrder(state().arrows)} ${inOrder(expected.arrows)}`);
const {curves} = canvasOf('measured');
check('each arrow is drawn', curves.length === 2 * expected.arrows.length, curves.length);
for (const [source, target] of expected.arrows) {
  const [left, right] = [source, target].map((task) => window.pipescopePage.place('measured', task));
  const drawn = curves.some((each) => Math.abs(each.from.x - left.x - left.width) < 0.01 && Math.abs(each.to.x - right.x) < 0.01
    && each.from.y > left.y && each.from.y < left.y + left.height && each.to.y > right.y && each.to.y < right.y + right.height);
  check(`an arrow leads from ${source} to ${target}`, drawn, JSON.stringify(curves));
}
press('Escape');
check('without a selection there is none', canvasOf('measured').curves.length === 0);
const bubble = expected.bubble;
const laneOf = (task) => window.pipescopePage.place('measured', task);
const bubbleX = window.pipescopePage.gutter() + (bubble.time - from) / span * (width - window.pipescopePage.gutter());
hover('measured', bubbleX, laneOf(bubble.next).y + laneOf(bubble.next).height / 2);
const way = canvasOf('measured').curves[0];
check('a bubble has an arrow from its culprit to the task that waits', way && Math.abs(way.to.x - laneOf(bubble.next).x) < 0.01
  && Math.abs(way.from.x - laneOf(bubble.culprit).x - laneOf(bubble.culprit).width) < 0.01, JSON.stringify(way));

// Tables align figures to the right, and texts to the left
for (const [text, side] of [['Measured', 'number'], ['Figure', 'text'], ['Setting', 'text'], ['except_last', 'text'], ...expected.figures.map((each) => [each, 'number'])]) {
  check(`a cell says ${text}`, cellOf(text) && cellOf(text).className === side, cellOf(text) && cellOf(text).className);
}

// The strip of steps says what its marks mean
for (const text of expected.steps) {
  check(`the strip says ${text}`, textOfPage().includes(text));
}
// Names of threads and what they belong to, and whole figures
for (const text of expected.rows) {
  check(`a row says ${text}`, ['threads', 'memory counters'].some((kind) => canvasOf(kind).texts.some((each) => each.text.includes(text))),
    JSON.stringify(canvasOf('threads').texts));
}

// Threads and kernels beside the tasks
for (const name of expected.threads) {
  check(`threads say ${name}`, canvasOf('threads').texts.some(({text}) => text === name), JSON.stringify(canvasOf('threads').texts));
}
check('kernels have their names where these fit', named > 0);
const kernel = window.pipescopePage.place('measured', expected.kernel);
hover('measured', kernel.x + kernel.width / 2, kernel.y + kernel.height / 2);
check('a kernel can be pointed at', JSON.stringify(state().hovered) === JSON.stringify(['measured', expected.kernel]), JSON.stringify(state().hovered));
check('its tooltip says what launched it', textOfPage().includes('launched by: '));

// The view in the link
{
  const {link, show: showLink} = window.pipescopePage;
  const shown = state();
  const [from, to] = [Math.round(shown.start + shown.length / 4), Math.round(shown.start + shown.length / 2)];
  showLink(`#range=${from}..${to}&mode=overlay&task=measured.1`);
  drawFrames();
  check('a link shows its range', state().start === from && state().length === to - from, JSON.stringify(state()));
  check('a link shows its mode and task', state().mode === 'overlay' && String(state().selected) === 'measured,1', JSON.stringify(state()));
  check('the view is in the link', link().replace(/^step=\d+&/, '') === `range=${from}..${to}&mode=overlay&task=measured.1`, link());
  showLink(`range=${to}..${from}&mode=nothing&task=measured.99999999`);
  drawFrames();
  check('what a page does not have is left out', state().start === from && String(state().selected) === 'measured,1', JSON.stringify(state()));
}
