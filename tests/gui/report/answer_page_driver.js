// Drives a page with page_without_browser.js: the parts of the answer differ, and lead to what they rest on.
'use strict';
const click = (text) => {
  linkOf(text).dispatchEvent({type: 'click', preventDefault() {}});
  drawFrames();
};
check('how much idle has its own look', linkOf(expected.idle).className === 'part idle', linkOf(expected.idle).className);
check('a cause too', linkOf(expected.cause).className === 'part cause', linkOf(expected.cause).className);
check('the change too', linkOf(expected.change).className === 'part change', linkOf(expected.change).className);
check('an aside leads nowhere', linkOf(expected.aside) === null && textOfPage().includes(expected.aside));
check('nothing is selected yet', !textOfPage().includes('Bubble of '));
click(expected.cause);
check('a cause selects a bubble', textOfPage().includes('Bubble of ') && textOfPage().includes(expected.name), expected.name);
click(expected.change);
