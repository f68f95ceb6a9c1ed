// Puts things on the page. What tools, models and callers wrote becomes text and never anything else; characters that
// cannot be seen, or that change how others are seen, stand there as what they are: `\u{202e}`.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|\p{Surrogate}/gu;

// Characters of one text that are put there; the server sends no longer one.
const MAX_TEXT = 300000;

export function visible(text) {
  const shown = String(text ?? '').slice(0, MAX_TEXT);
  return shown.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// An element with attributes and children; texts among them are put there as text.
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false)
    .map((child) => child instanceof Node ? child : visible(child)));
  return element;
}

export const $ = (id) => document.getElementById(id);

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

export function say(text) {
  $('said').textContent = visible(text);
}

export async function get(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// A text to be copied, and the button that does.
export function copied(text, what) {
  const button = h('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${what}` }, 'Copy');
  button.addEventListener('click', async (event) => {
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      say(`${what} copied`);
    } catch {
      button.textContent = 'Not copied';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  return h('span', { class: 'copied' }, h('code', {}, text), button);
}

export const MARKS = { ok: '✓', running: '●', waiting: '◐', refused: '⊘', unfinished: '○' };

export function outcome(name) {
  const kind = ['ok', 'running', 'waiting', 'refused'].includes(name) ? name : 'failed';
  return h('span', { class: `outcome ${kind}` }, h('span', { 'aria-hidden': 'true' }, `${MARKS[name] ?? '✗'} `), name);
}

const two = (n) => String(n).padStart(2, '0');

export function clock(time) {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function day(time) {
  const date = new Date(time);
  const today = date.toDateString() === new Date().toDateString();
  return today ? clock(time) : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(time).slice(0, 5)}`;
}

export function took(ms) {
  if (ms == null) return '';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60000)} min`;
}

export const number = (n) => n == null ? '' : n.toLocaleString('en');

export const cost = (dollars) => dollars == null ? '' : `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;

// What a grant lets a tool do, a line each.
export function grant(granted) {
  if (!granted) return h('span', {}, 'nothing');
  const list = (name, entries) => entries?.length ? `${name} ${entries.map((e) => e === '*' ? 'everything' : e).join(', ')}` : null;
  const lines = [
    list('read', granted.read), list('write', granted.write), list('reach', granted.hosts), list('see', granted.env),
    list('use services', granted.services),
    granted.network && 'network for processes', granted.unix_sockets && 'unix sockets for processes',
    granted.workspace && `workspace ${granted.workspace}`,
  ].filter(Boolean);
  return lines.length ? h('ul', { class: 'grant' }, lines.map((line) => h('li', {}, line))) : h('span', {}, 'nothing');
}

// Names and what belongs to them; those without anything are left out.
export function facts(pairs) {
  const there = pairs.filter(([, value]) => value != null && value !== '' && value !== false);
  return h('dl', { class: 'facts' }, there.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

export const pre = (text, attributes = {}) => h('pre', { tabindex: '0', ...attributes }, text);

export function json(value) {
  return pre(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
}

// A message in which literals stand between backticks.
export const message = (text) => String(text).split('`').map((part, index) => index % 2 ? h('code', {}, part) : part);

// How to allow what was refused.
export function hint({ text, line }) {
  const rest = line ? text.replace(`\`${line}\` `, '') : text;
  return h('div', { class: 'hint' }, h('p', {}, message(rest), line && ':'), line && copied(line, 'line of program.toml'));
}

// Bars of the calls in each part of the time; the same figures stand beside it.
export function spark(curve) {
  const svg = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const most = Math.max(1, ...curve.map((part) => part.calls));
  const image = svg('svg', { viewBox: `0 0 ${curve.length * 3} 18`, class: 'spark', 'aria-hidden': 'true' });
  curve.forEach((part, index) => {
    const height = part.calls ? Math.max(1, Math.round(part.calls / most * 18)) : 0;
    const bad = part.failed ? Math.max(1, Math.round(part.failed / most * 18)) : 0;
    if (height) image.append(svg('rect', { x: index * 3, y: 18 - height, width: 2, height }));
    if (bad) image.append(svg('rect', { x: index * 3, y: 18 - bad, width: 2, height: bad, class: 'bad' }));
  });
  return image;
}
