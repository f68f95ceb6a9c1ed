// Calls as they begin and end. Of many calls the server sends a part; this keeps and shows no more than a bounded number.

import { $, clock, get, h, hint, message, number, outcome, took, visible } from './text.js';
import { waits } from './waiting.js';

// Rows on the page: some screens. Earlier calls are found by the filter.
const MAX_ROWS = 300;

// Seconds over which the rate of calls is counted.
const WINDOW = 3;

const rows = new Map();
const batches = [];
let paused = false;
let filter = {};
let asked = 0;

// The newest rows, by the time at which their calls began.
export function add({ rows: fresh, ended, shown }) {
  batches.push({ at: performance.now(), ended, shown });
  if (!paused && !document.hidden) put(fresh.filter(matches));
}

export async function load() {
  const own = ++asked;
  try {
    const { rows: found, is_cut } = await get('/api/calls', filter);
    if (own !== asked) return;
    for (const [, { element }] of rows) element.remove();
    rows.clear();
    put(found.slice(0, MAX_ROWS).reverse());
    const more = found.length > MAX_ROWS || is_cut ? 'Earlier calls: use a filter or haft log.' : '';
    $('calls-end').textContent = rows.size ? more : 'No such calls in the journal.';
  } catch (error) {
    $('calls-end').textContent = visible(error.message);
  }
}

function put(fresh) {
  const body = $('calls');
  for (const row of fresh) {
    const known = rows.get(row.id);
    if (known) {
      // The line of the beginning may be read after that of the end.
      if (row.outcome === 'running') continue;
      const element = line(row);
      known.element.replaceWith(element);
      rows.set(row.id, { row, element });
      continue;
    }
    const element = line(row);
    let next = body.firstElementChild;
    while (next && Number(next.dataset.time) > row.time) next = next.nextElementSibling;
    body.insertBefore(element, next);
    rows.set(row.id, { row, element });
  }
  while (rows.size > MAX_ROWS) {
    const last = body.lastElementChild;
    rows.delete(last.dataset.id);
    last.remove();
  }
}

// Calls that run may wait for a person from now on, or no more.
export function renew() {
  for (const [id, { row, element }] of rows) {
    if (row.outcome !== 'running') continue;
    const renewed = line(row);
    element.replaceWith(renewed);
    rows.set(id, { row, element: renewed });
  }
}

function line(row) {
  const refused = row.error && h('div', { class: 'error' }, message(row.error));
  const answer = row.answer && h('div', { class: 'answer' }, row.answer);
  return h('tr', { 'data-id': row.id, 'data-time': row.time, class: row.outcome === 'running' ? 'running' : undefined, onclick: follow },
    h('td', { class: 'time' }, clock(row.time)),
    h('th', { scope: 'row' }, h('a', { href: `#live/${row.id}` }, row.tool)),
    h('td', {}, outcome(waits(row) ? 'waiting' : row.outcome)),
    h('td', { class: 'number' }, took(row.ms), row.waited && h('div', { class: 'waited' }, `waited ${took(row.waited)}`)),
    h('td', { class: 'caller' }, row.caller, h('div', { class: 'program' }, row.program)),
    h('td', { class: 'call' }, h('div', { class: 'arguments' }, row.arguments), answer, refused, row.hint && hint(row.hint)));
}

// A click anywhere in a row is one on its link, unless a text is being marked.
function follow(event) {
  if (event.target.closest('a, button, code') || String(getSelection())) return;
  location.hash = `#live/${this.dataset.id}`;
}

function matches(row) {
  const has = (text, part) => !part || String(text ?? '').toLowerCase().includes(part.toLowerCase());
  const kinds = {
    ok: (o) => o === 'ok', refused: (o) => o === 'refused', running: (o) => o === 'running',
    failed: (o) => o !== 'ok' && o !== 'running',
  };
  const known = rows.has(row.id);
  return known || has(row.tool, filter.tool) && (has(row.caller, filter.caller) || has(row.program, filter.caller))
    && (!filter.outcome || kinds[filter.outcome](row.outcome))
    && (!filter.text || [row.id, row.arguments, row.answer, row.error, row.hint?.text].some((text) => has(text, filter.text)));
}

// How many calls end in a second, and how many of them are shown.
export function rate() {
  const since = performance.now() - WINDOW * 1000;
  while (batches.length && batches[0].at < since) batches.shift();
  const sum = (name) => batches.reduce((total, batch) => total + batch[name], 0);
  const [ended, shown] = [sum('ended'), sum('shown')];
  const sampled = ended > shown;
  $('sampled').hidden = !sampled;
  if (sampled) {
    $('sampled').textContent = `Sampled: about ${number(Math.round(ended / WINDOW))} calls end per second; ` +
      `${shown} of the last ${number(ended)} are shown, failures and refusals first. The journal has all calls.`;
  }
  return ended ? `${number(Math.ceil(ended / WINDOW))} calls/s${sampled ? ', sampled' : ''}` : 'live';
}

let timer;
$('filter').addEventListener('input', (event) => {
  filter = Object.fromEntries([...new FormData($('filter'))].filter(([, value]) => value));
  clearTimeout(timer);
  timer = setTimeout(load, event.target.tagName === 'SELECT' ? 0 : 250);
});
$('filter').addEventListener('submit', (event) => event.preventDefault());
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  $('pause').textContent = paused ? 'Go on' : 'Pause';
  if (!paused) load();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !paused) load();
});
