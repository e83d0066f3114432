// Runs a timeline page in Node, without a browser: node page_without_browser.js PAGE.html DRIVER.js EXPECTED.json
// It stands in for the few parts of the DOM that the page uses. Letters are 7 pixels wide, and canvases keep what was
// drawn on them: `texts`, filled rectangles in `fills`, curves in `curves`. Prints the results of the driver.
'use strict';
const fs = require('fs');
const vm = require('vm');
const [pageName, driverName, expectedName] = process.argv.slice(2);
const html = fs.readFileSync(pageName, 'utf8');
const between = (from, to) => html.slice(html.indexOf(from) + from.length, html.indexOf(to, html.indexOf(from)));
const WIDTH = 1400;
const HEIGHT = 1000;

class FakeContext {
  constructor(canvas) {
    this.canvas = canvas;
    return new Proxy(this, {get: (own, name) => (name in own ? own[name] : () => {}), set: (own, name, value) => {
      own[name] = value;
      return true;
    }});
  }
  measureText(text) { return {width: 7 * text.length}; }
  fillRect(x, y, width, height) {
    if (x === 0 && y === 0 && height === this.canvas.clientHeight) {
      Object.assign(this.canvas, {texts: [], fills: [], curves: []});  // a new drawing begins
    }
    this.canvas.fills.push({x, y, width, height, style: this.fillStyle});
  }
  moveTo(x, y) { this.from = {x, y}; }
  bezierCurveTo(a, b, c, d, x, y) { this.canvas.curves.push({from: this.from, to: {x, y}, style: this.strokeStyle}); }
  fillText(text, x, y) { this.canvas.texts.push({text, x, y}); }
}
class FakeElement {
  constructor(tag) {
    Object.assign(this, {tag, children: [], attributes: {}, handlers: {}, style: {}, dataset: {}, texts: [], fills: [], curves: [], hidden: false,
                         offsetTop: 0, scrollTop: 0, width: 0, height: 0});
    this.classList = {add() {}, remove() {}};
  }
  append(...children) {
    this.children.push(...children);
    children.filter((child) => child instanceof FakeElement).forEach((child) => { child.parent = this; });
  }
  remove() { this.parent.children = this.parent.children.filter((child) => child !== this); }
  blur() {}
  focus() {}
  before(...others) { this.parent.children.splice(this.parent.children.indexOf(this), 0, ...others); }
  replaceChildren(...children) { this.children = children; }
  setAttribute(name, value) { this.attributes[name] = value; }
  getAttribute(name) { return this.attributes[name]; }
  addEventListener(type, handler) { (this.handlers[type] = this.handlers[type] || []).push(handler); }
  dispatchEvent(event) {
    (this.handlers[event.type] || []).forEach((handler) => handler(event));
    return true;
  }
  getContext() { return (this.context = this.context || new FakeContext(this)); }
  get clientWidth() { return WIDTH - 340; }
  get clientHeight() { return parseFloat(this.style.height) || 36; }
  getBoundingClientRect() { return {left: 0, top: 0, width: this.clientWidth, height: this.clientHeight}; }
  get textContent() { return this.children.map((child) => (child.textContent === undefined ? String(child) : child.textContent)).join(''); }
  set textContent(text) { this.children = [text]; }
  showModal() {}
  close() {}
}
const data = new FakeElement('script');
data.textContent = between('<script type="application/json" id="data">', '</script>');
const body = new FakeElement('body');
const root = new FakeElement('html');
const frames = [];
const page = Object.assign(new FakeElement('window'), {innerWidth: WIDTH, innerHeight: HEIGHT, devicePixelRatio: 1,
  matchMedia: () => new FakeElement('media')});
const context = vm.createContext(Object.assign(page, {
  window: page, console, Intl,
  document: {createElement: (tag) => new FakeElement(tag), getElementById: () => data, body, documentElement: root},
  ImageData: class { constructor(width, height) { Object.assign(this, {width, height, data: new Uint8ClampedArray(4 * width * height)}); } },
  requestAnimationFrame: (callback) => frames.push(callback), setTimeout: () => 0, clearTimeout() {},
}));
const drawFrames = () => { while (frames.length > 0) { frames.shift()(0); } };
const script = html.slice(html.lastIndexOf('<script>') + 8, html.lastIndexOf('</script>'));
vm.runInContext(script, context, {filename: 'timeline_page.js'});
drawFrames();

const results = [];
const find = (element, fits) => {
  for (const child of element.children || []) {
    const found = fits(child) ? child : find(child, fits);
    if (found) {
      return found;
    }
  }
  return null;
};
Object.assign(context, {
  expected: JSON.parse(fs.readFileSync(expectedName, 'utf8')), drawFrames,
  check: (name, holds, detail = '') => results.push({name, holds: Boolean(holds), detail: String(detail)}),
  canvasOf: (source) => find(find(body, (each) => String(each.className).includes(`pane ${source}`)), (each) => each.tag === 'canvas' && each.attributes.role === 'application'),  // not a swatch
  textOfPage: () => body.textContent,
  cellOf: (text) => find(body, (each) => /^t[hd]$/.test(each.tag) && each.textContent === text),
  linkOf: (text) => find(body, (each) => each.attributes && each.attributes.role === 'link' && each.textContent === text),
  buttonOf: (text) => find(body, (each) => each.tag === 'button' && each.textContent === text),
});
vm.runInContext(fs.readFileSync(driverName, 'utf8'), context, {filename: driverName});
process.stdout.write(JSON.stringify(results));
