// Drives a page with page_without_browser.js: the tops of bars on lanes that run several partitions.
'use strict';
const rows = () => window.pipescopePage.labels('simulated').map(({task, text}) => ({task, text, ...window.pipescopePage.place('simulated', task)}));
const press = (key) => {
  window.dispatchEvent({type: 'keydown', key, preventDefault() {}});
  drawFrames();
};
check('the legend explains the labels', textOfPage().includes(expected.legend), textOfPage());
/// The top of the bar: its colour, or none.
const topOf = (bar) => canvasOf('simulated').fills.find((each) => typeof each.style === 'string' && Math.abs(each.x - bar.x - 1) < 0.01
  && each.y > bar.y && each.y < bar.y + 3 && Math.abs(each.width - bar.width + 1) < 0.01 && each.height < bar.height / 2);
let named = 0;
let shaded = 0;
for (const bar of rows()) {
  const {partition, shade, label} = expected.tasks[bar.task];
  const top = topOf(bar);
  if (bar.x <= window.pipescopePage.gutter()) {
    continue;
  }
  check(`task ${bar.task} has its shade`, top && top.style === shade, JSON.stringify([top, shade]));
  shaded += top ? 1 : 0;
  if (top.height > 8) {
    const number = canvasOf('simulated').texts.find((each) => Math.abs(each.x - bar.x - bar.width / 2) < 0.01 && each.y > top.y && each.y < top.y + top.height);
    check(`task ${bar.task} names its partition if there is room`, top.width < 7 ? !number : number && number.text === String(partition), JSON.stringify(number));
    check('the label below need not', bar.text === '' || bar.text === label || bar.text === label.slice(1), bar.text);
    named += 1;
  } else {
    check('a low bar names it in its label', bar.text === '' || bar.text === partition + label || bar.text === label.slice(1), bar.text);
  }
}
check('bars were shaded', shaded > 8, shaded);
check('some have numbers', named > 0, named);
press('3');
check('no shades over lateness', rows().length === 0 || textOfPage().includes(expected.legend) === false, textOfPage());
