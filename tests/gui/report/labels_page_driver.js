// Drives a page with page_without_browser.js: the plates on the ruler, and the labels of bars, as they are drawn.
'use strict';
const hover = (source, x, y = 60) => {
  canvasOf(source).dispatchEvent({type: 'pointermove', clientX: x, clientY: y});
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

// Memory: a row for each lane, with the peak as in the window
for (const name of expected.memory) {
  check(`memory says ${name}`, canvasOf('memory').texts.some(({text}) => text === name), JSON.stringify(canvasOf('memory').texts));
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
