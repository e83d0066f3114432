// Drives a timeline page with DOM events and notes what happened, as JSON in the element #results. The test that appends
// this script puts `expected` before it; `troubles` collects errors and refused requests since before the page's script.
'use strict';
(async () => {
const results = [];
const check = (name, holds, detail = '') => results.push({name, holds: Boolean(holds), detail: String(detail)});
let page = window.pipescopePage;
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const canvasOf = (source) => document.querySelector(`.pane.${source} canvas`);
const tooltip = document.querySelector('[role=tooltip]');
const centre = (source, task) => {
  const place = page.place(source, task);
  return {x: place.x + place.width / 2, y: place.y + place.height / 2};
};
function send(target, type, Kind, at, more = {}) {
  const event = new Kind(type, {
    clientX: at.x, clientY: at.y, bubbles: true, cancelable: true, button: 0, pointerId: 1, isPrimary: true,
    pointerType: 'mouse', ...more});
  target.dispatchEvent(event);
  return event;
}
const move = (source, at) => send(canvasOf(source), 'pointermove', PointerEvent, at);
function click(source, at) {
  send(canvasOf(source), 'pointerdown', PointerEvent, at);
  send(canvasOf(source), 'pointerup', PointerEvent, at);
}
async function press(key, more = {}) {
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true, ...more}));
  await frame();
}
/// Colours of the pixels around a place, most frequent first.
function coloursAt(source, at, reach = 4) {
  const canvas = canvasOf(source);
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const pixels = canvas.getContext('2d').getImageData(
    (at.x - box.left) * scale - reach, (at.y - box.top) * scale - reach, 2 * reach, 2 * reach).data;
  const counts = new Map();
  for (let i = 0; i < pixels.length; i += 4) {
    const hex = '#' + [0, 1, 2].map((k) => pixels[i + k].toString(16).padStart(2, '0')).join('');
    counts.set(hex, (counts.get(hex) || 0) + 1);
  }
  return [...counts.entries()].sort((a, b) => b[1] - a[1]).map(([hex]) => hex);
}
const buttonNamed = (text) => [...document.querySelectorAll('button')].find((each) => each.textContent.includes(text));
const near = (a, b, by) => Math.abs(a - b) <= by;

try {
  await frame();
  const whole = page.state();

  // What the trace says is text, whatever it says.
  check('title is text', document.querySelector('h1').textContent.includes(expected.hostile), document.querySelector('h1').textContent);
  check('no element of the trace', document.images.length === 0 && window.hacked === undefined);

  // The steps of the run
  const strip = document.querySelector('.steps canvas');
  send(strip, 'pointermove', PointerEvent, {x: strip.getBoundingClientRect().left + 3, y: strip.getBoundingClientRect().top + 5});
  check('a step tells its time', !tooltip.hidden && tooltip.textContent.startsWith('step 0: '), tooltip.textContent);
  send(strip, 'pointerleave', PointerEvent, {x: 0, y: 0});
  check('the tooltip goes', tooltip.hidden);

  // Zoom and pan
  const task = expected.task;
  const before = page.place('measured', task);
  const at = {x: before.x + 1, y: before.y + before.height / 2};
  const wheel = send(canvasOf('measured'), 'wheel', WheelEvent, at, {deltaY: -300});
  await frame();
  check('wheel zooms in', page.state().length < 0.7 * whole.length, page.state().length / whole.length);
  check('wheel keeps the time below the pointer', near(page.place('measured', task).x, before.x, 1.5),
    `${page.place('measured', task).x} ${before.x}`);
  check('wheel does not scroll the page', wheel.defaultPrevented);
  let earlier = page.state();
  send(canvasOf('measured'), 'wheel', WheelEvent, at, {deltaY: 100, shiftKey: true});
  await frame();
  check('shift and wheel move', page.state().start > earlier.start && page.state().length === earlier.length);
  await press('Home');
  check('Home shows all', page.state().start === whole.start && page.state().length === whole.length);
  await press('w');
  check('W zooms in', near(page.state().length, 0.7 * whole.length, 1), page.state().length);
  await press('+');
  check('+ zooms in', near(page.state().length, 0.49 * whole.length, 1));
  earlier = page.state();
  await press('d');
  check('D moves right', page.state().start > earlier.start);
  await press('ArrowLeft');
  check('left moves left', near(page.state().start, earlier.start, 2));
  await press('a', {shiftKey: true});
  check('shift and A move far', page.state().start < earlier.start - 0.2 * earlier.length);
  await press('s');
  await press('-');
  check('S and - zoom out', near(page.state().length, whole.length, 2));
  await press('w', {ctrlKey: true});
  check('the browser keeps its own keys', near(page.state().length, whole.length, 2));
  await press('0');
  await press('w');
  earlier = page.state();
  const box = canvasOf('measured').getBoundingClientRect();
  const from = {x: box.left + box.width / 2, y: box.top + 60};
  send(canvasOf('measured'), 'pointerdown', PointerEvent, from);
  send(canvasOf('measured'), 'pointermove', PointerEvent, {x: from.x - 50, y: from.y});
  send(canvasOf('measured'), 'pointermove', PointerEvent, {x: from.x - 100, y: from.y});
  send(canvasOf('measured'), 'pointerup', PointerEvent, {x: from.x - 100, y: from.y});
  await frame();
  check('drag moves', page.state().start > earlier.start && page.state().length === earlier.length);
  check('drag selects nothing', page.state().selected === null);
  await press('Home');

  // Hover
  move('measured', centre('measured', task));
  await frame();
  check('hover finds the task', JSON.stringify(page.state().hovered) === JSON.stringify(['measured', task]));
  check('tooltip is there', !tooltip.hidden);
  for (const text of expected.tip) {
    check(`tooltip says ${text}`, tooltip.textContent.includes(text), tooltip.textContent);
  }
  send(canvasOf('measured'), 'pointerleave', PointerEvent, {x: 0, y: 0});
  await frame();
  check('tooltip goes', tooltip.hidden && page.state().hovered === null);

  // Every task is drawn where it ran.
  check('bar has its colour', coloursAt('measured', centre('measured', task), 10).includes(expected.color),
    coloursAt('measured', centre('measured', task), 10).slice(0, 4));

  // Legend
  const kind = buttonNamed(expected.kind);
  check('kind is shown', kind.getAttribute('aria-pressed') === 'true');
  kind.click();
  await frame();
  check('a click hides the kind', kind.getAttribute('aria-pressed') === 'false' &&
    page.state().hidden.length === 1);
  check('bars of the kind are gone', !coloursAt('measured', centre('measured', task), 10).includes(expected.color));
  move('measured', centre('measured', task));
  await frame();
  check('hidden tasks have no tooltip', page.state().hovered === null);
  kind.click();
  await frame();
  check('a click shows the kind again', coloursAt('measured', centre('measured', task), 10).includes(expected.color));

  // Selection
  const twinEdge = () => {
    const place = page.place('simulated', expected.twin);
    return coloursAt('simulated', {x: place.x - 1, y: place.y + place.height / 2}, 3).join();
  };
  const plain = twinEdge();
  click('measured', centre('measured', task));
  await frame();
  check('a click selects', JSON.stringify(page.state().selected) === JSON.stringify(['measured', task]));
  const details = document.querySelector('aside');
  for (const text of expected.details) {
    check(`details say ${text}`, details.textContent.includes(text), details.textContent);
  }
  check('the twin is framed', twinEdge() !== plain);
  await press('t');
  check('T goes to the twin', JSON.stringify(page.state().selected) === JSON.stringify(['simulated', expected.twin]));
  await press('t');
  await press('.');
  check('. goes to the next task', JSON.stringify(page.state().selected) === JSON.stringify(['measured', task + 1]));
  await press(',');
  check(', goes back', JSON.stringify(page.state().selected) === JSON.stringify(['measured', task]));
  await press('f');
  check('F fits the task', page.state().length < 0.5 * whole.length);
  await press('Escape');
  await press('Home');
  check('Escape clears', page.state().selected === null && twinEdge() === plain);
  await press('.');
  check('. without a selection takes a visible task', page.state().selected !== null);
  await press('Escape');

  // Modes
  buttonNamed('Difference').click();
  await frame();
  check('difference hides the simulated timeline', document.querySelector('.pane.simulated').hidden);
  check('difference has its legend', document.body.textContent.includes(expected.lateness));
  check('difference has its colours', coloursAt('measured', centre('measured', task), 10).includes(expected.lateColor),
    coloursAt('measured', centre('measured', task), 10).slice(0, 4));
  await press('2');
  check('2 overlays', page.state().mode === 'overlay');
  await press('1');
  check('1 shows both', page.state().mode === 'side-by-side' && !document.querySelector('.pane.simulated').hidden);
  await press('b');
  check('B hides causes', page.state().causes === false);
  await press('b');

  // Bubbles
  const bubble = page.bubbles('measured').find((each) => each.width > 8);
  click('measured', {x: bubble.x + bubble.width / 2, y: bubble.y + bubble.height / 2});
  await frame();
  check('a click selects a bubble', JSON.stringify(page.state().bubble) === JSON.stringify(['measured', bubble.number]) &&
    page.state().selected === null, JSON.stringify(page.state()));
  check('details say its cause', details.textContent.includes('Bubble of lane') && details.textContent.includes('Cause'), details.textContent);
  check('the link holds step and bubble', page.link().startsWith(`step=${expected.step}&range=`) &&
    page.link().includes(`bubble=measured.${bubble.number}`), page.link());
  await press('Escape');
  check('Escape clears the bubble', page.state().bubble === null);
  document.querySelector('.tables tbody button').click();
  await frame();
  const lengths = page.bubbles('measured').map((each) => each.end - each.start);
  check('the first row of the table is the longest bubble', lengths[page.state().bubble[1]] === Math.max(...lengths));
  const link = page.link();
  await press('Escape');
  page.show(link);
  await frame();
  check('a link selects its bubble', page.link() === link, page.link());
  await press('Escape');
  await press('Home');

  // Find
  const field = document.querySelector('input[type=search]');
  await press('/');
  check('/ goes to the field', document.activeElement === field);
  field.value = expected.find;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  await frame();
  check('finds tasks by their short form', page.state().hits.length === expected.hits, page.state().hits.length);
  check('lists what was found', document.querySelectorAll('.hits button').length === expected.hits);
  earlier = page.state();
  await press('w');
  check('letters in the field are no commands', page.state().length === earlier.length);
  await press('Enter');
  check('Enter selects the first hit', JSON.stringify(page.state().selected) === JSON.stringify(page.state().hits[0]));
  await press('Enter', {shiftKey: true});
  check('Shift and Enter go back', JSON.stringify(page.state().selected) === JSON.stringify(page.state().hits[expected.hits - 1]));
  check('the link holds the search', page.link().includes(`find=${expected.find}`), page.link());
  await press('Escape');
  page.show(page.link().replace(/find=.*/, 'find=%'));
  check('a broken link finds nothing', page.state().hits.length === 0);
  await press('Escape');
  check('Escape ends the search', page.state().hits.length === 0 && document.querySelector('.hits').hidden);
  await press('Escape');
  await press('Home');

  // Another step
  const stripBox = document.querySelector('.steps canvas').getBoundingClientRect();
  const bars = expected.steps;
  document.querySelector('.steps canvas').dispatchEvent(new MouseEvent('click', {bubbles: true,
    clientX: stripBox.left + stripBox.width * (bars.indexOf(expected.otherStep) + 0.5) / bars.length, clientY: stripBox.top + 5}));
  await frame();
  const other = window.pipescopePage;
  check('a click shows another step', other.state().step === expected.otherStep, other.state().step);
  check('one page is shown', document.querySelectorAll('main').length === 1);
  check('it has its own figures', document.body.textContent.includes(`Lanes in step ${expected.otherStep}`));
  check('its link names it', other.link().startsWith(`step=${expected.otherStep}&`), other.link());
  check('it has its own memory', document.querySelector('.pane.memory') !== null);
  check('it begins at its start', near(other.start('measured', 0), 0, other.state().length), other.start('measured', 0));
  await press('w');
  check('keys work on it', other.state().length < whole.length);
  other.show(`step=${expected.step}`);
  await frame();
  check('a link leads back', window.pipescopePage.state().step === expected.step);
  check('its times are as before', window.pipescopePage.start('measured', task) === page.start('measured', task));
  page = window.pipescopePage;

  // Theme
  const theme = page.state().theme;
  const ground = coloursAt('measured', {x: box.left + 4, y: box.top + 4}, 3)[0];
  buttonNamed('theme').click();
  await frame();
  check('the button changes the theme', page.state().theme !== theme && document.documentElement.dataset.theme !== theme);
  check('the canvas follows the theme', coloursAt('measured', {x: box.left + 4, y: box.top + 4}, 3)[0] !== ground);
  buttonNamed('theme').click();
  await frame();

  // People without a pointer, or without sight
  await new Promise((done) => setTimeout(done, 400));
  check('every button has a name', [...document.querySelectorAll('button')].every((each) =>
    each.textContent.trim() !== '' || each.getAttribute('aria-label')));
  check('every timeline has a name and the focus', [...document.querySelectorAll('.scroll canvas')].every((each) =>
    each.getAttribute('aria-label').length > 10 && each.tabIndex === 0));
  await press('?');
  check('? lists the keys', document.querySelector('dialog').open);
  document.querySelector('dialog').close();

  check('nothing was loaded', performance.getEntriesByType('resource').length === 0,
    performance.getEntriesByType('resource').map((each) => each.name).join(' '));
} catch (error) {
  check('the driver reached its end', false, error.stack);
}
check('no error', window.troubles.length === 0, window.troubles.join('; '));
const output = document.createElement('pre');
output.id = 'results';
output.textContent = encodeURIComponent(JSON.stringify(results));
if (window.dump) {  // to stdout, of a Firefox whose profile permits that
  window.dump(`\nresults ${output.textContent} end\n`);
}
document.body.append(output);
})();
