// As timeline_page_driver.js, for a page of threads and counters.
'use strict';
(async () => {
const results = [];
const check = (name, holds, detail = '') => results.push({name, holds: Boolean(holds), detail: String(detail)});
const page = window.pipescopePage;
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const canvas = document.querySelector('.pane.threads canvas');
const tooltip = document.querySelector('[role=tooltip]');
const details = document.querySelector('aside');
const centre = (task) => {
  const place = page.place('threads', task);
  return {x: place.x + place.width / 2, y: place.y + place.height / 2};
};
const send = (target, type, Kind, at, more = {}) => target.dispatchEvent(new Kind(type, {
  clientX: at.x, clientY: at.y, bubbles: true, cancelable: true, button: 0, pointerId: 1, isPrimary: true,
  pointerType: 'mouse', ...more}));
async function press(key) {
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
  await frame();
}
try {
  await frame();
  const whole = page.state();
  check('title is text', document.querySelector('h1').textContent.includes(expected.title), document.querySelector('h1').textContent);
  check('no element of the trace', document.images.length === 0 && window.hacked === undefined);
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const at = centre(expected.range);
  const pixel = canvas.getContext('2d').getImageData((at.x - box.left) * scale, (at.y - box.top + 7) * scale, 1, 1).data;
  const color = '#' + [0, 1, 2].map((k) => pixel[k].toString(16).padStart(2, '0')).join('');
  check('the range has its colour', color === expected.color, color);
  send(canvas, 'pointermove', PointerEvent, at);
  await frame();
  for (const text of expected.tip) {
    check(`tooltip says ${text}`, !tooltip.hidden && tooltip.textContent.includes(text), tooltip.textContent);
  }
  send(canvas, 'wheel', WheelEvent, at, {deltaY: -300});
  await frame();
  check('wheel zooms in', page.state().length < 0.7 * whole.length);
  await press('Home');
  const now = centre(expected.range);
  send(canvas, 'pointerdown', PointerEvent, now);
  send(canvas, 'pointerup', PointerEvent, now);
  await frame();
  check('a click selects', JSON.stringify(page.state().selected) === JSON.stringify(['threads', expected.range]));
  for (const text of expected.details) {
    check(`details say ${text}`, details.textContent.includes(text), details.textContent);
  }
  check('details know no pipeline', !/twin|step|partition/i.test(details.textContent), details.textContent);
  await press('n');
  check('N goes to the next of the name', page.state().selected[1] === expected.next, page.state().selected);
  await press('t');
  await press('f');
  check('F fits', page.state().length < whole.length);
  await press('0');
  await press('Escape');
  check('Esc clears', page.state().selected === null);
  const counters = document.querySelector('.pane.memory canvas');
  check('counters are there', Boolean(counters));
  const row = counters.getBoundingClientRect();
  send(counters, 'pointermove', PointerEvent, {x: row.right - 4, y: row.top + 8});
  await frame();
  for (const text of expected.counter) {
    check(`the counter says ${text}`, tooltip.textContent.includes(text), tooltip.textContent);
  }
  check('the table lists the threads', document.querySelectorAll('[aria-label="Threads and streams"] tbody tr').length === expected.threads);
  await new Promise((done) => setTimeout(done, 400));
  check('every pane has a name', [...document.querySelectorAll('.scroll canvas')].every((each) =>
    each.getAttribute('aria-label').length > 10));
  check('nothing was loaded', performance.getEntriesByType('resource').length === 0);
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
