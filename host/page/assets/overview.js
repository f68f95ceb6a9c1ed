// What runs and for whom, what today came to, what was refused, and what it cost.

import { $, clock, cost, day, fill, get, h, hint, message, number, outcome, spark, took, visible } from './text.js';
import * as waiting from './waiting.js';

// Milliseconds between two looks at what changes all the time, and the share of the time that looking may take.
const PAUSE = 1000;
const SHARE = 10;

let current;
let cost_of_looking = 0;
let timer;

export async function load() {
  clearTimeout(timer);
  timer = undefined;
  const begun = performance.now();
  try {
    const [today, { sessions }] = await Promise.all([get('/api/overview'), get('/api/sessions')]);
    current = { today, sessions };
    show();
  } catch (error) {
    $('overview-end').textContent = visible(error.message);
  }
  cost_of_looking = performance.now() - begun;
}

// Something happened: it is looked at soon, and not all the time.
export function soon() {
  timer ??= setTimeout(load, Math.max(PAUSE, SHARE * cost_of_looking));
}

// What waits is known at once.
export function show() {
  if (!current) return;
  const { today, sessions } = current;
  const used = sessions.filter((session) => session.today);
  const sum = (name) => used.reduce((total, { today }) => total + (today[name] ?? 0), 0);
  const [waits, tokens] = [waiting.count(), sum('input') + sum('output')];
  const running = today.running.map((row) => ({ ...row, outcome: waiting.waits(row) ? 'waiting' : row.outcome }));
  const runs = running.filter((row) => row.outcome === 'running').length;
  fill($('figures'),
    figure('Running', number(runs), runs ? 'now' : 'no tool runs', '#live'),
    figure('Waiting', number(waits), waits ? 'for your answer' : 'no call waits for you', '#waiting', waits ? 'warn' : undefined),
    figure('Calls', number(today.calls), today.calls ? spark(today.hours) : 'none today', '#live'),
    figure('Failed', number(today.failed), `${number(today.refused)} refused`, '#live', today.failed ? 'bad' : undefined),
    figure('Models', sum('cost') ? cost(sum('cost')) : number(tokens), `${number(tokens)} tokens in ${number(used.length)} ${used.length === 1 ? 'session' : 'sessions'}`, '#sessions'));
  table('running', running, (row) => [
    h('th', { scope: 'row' }, h('a', { href: `#live/${row.id}` }, row.tool)),
    h('td', {}, outcome(row.outcome)),
    h('td', { class: 'time', 'data-since': row.time }, since(row.time)),
    h('td', {}, row.caller), h('td', { class: 'wide' }, row.program),
    h('td', { class: 'call' }, h('div', { class: 'arguments' }, row.arguments))]);
  table('refusals', today.refusals, (row) => [
    h('td', { class: 'number' }, `${number(row.count)} ×`),
    h('th', { scope: 'row' }, h('a', { href: `#live/${row.id}` }, row.tool)),
    h('td', { class: 'time' }, clock(row.time)),
    h('td', { class: 'call' }, h('div', { class: 'error' }, message(row.why)), row.hint && hint(row.hint))]);
  table('callers', today.callers, (row) => [
    h('th', { scope: 'row' }, row.name), h('td', { class: 'wide' }, row.program),
    h('td', { class: 'number' }, number(row.calls)),
    h('td', { class: `number ${row.failed ? 'bad' : ''}` }, number(row.failed)),
    h('td', { class: 'time' }, clock(row.last))]);
  table('used', used.slice(0, 10), (row) => [
    h('td', { class: 'time' }, day(row.changed)),
    h('th', { scope: 'row' }, h('a', { href: `#sessions/${row.id}` }, row.title || row.id)),
    h('td', { class: row.state === 'in use' ? 'good' : '' }, row.state),
    h('td', { class: 'number' }, number(row.today.input + row.today.output)),
    h('td', { class: 'number' }, cost(row.today.cost))]);
  $('overview-end').textContent = today.is_cut
    ? `Calls since ${day(today.since)}: only a part of today is shown. haft log has all calls.`
    : today.calls || today.running.length ? '' : 'No calls today. haft call, haft run, haft chat and clients of haft serve make calls.';
}

function figure(name, value, note, href, kind) {
  return h('a', { class: 'figure', href }, h('span', { class: 'name' }, name), h('span', { class: `value ${kind ?? ''}` }, value),
    h('span', { class: 'said' }, note));
}

const since = (time) => took(Math.max(0, Date.now() - time));

export function tick() {
  for (const cell of document.querySelectorAll('[data-since]')) cell.textContent = since(Number(cell.dataset.since));
}

const shown = new Map();

// A table is there where there is something in it. One that did not change stays: somebody may be at one of its buttons.
function table(name, rows, cells) {
  const text = JSON.stringify(rows);
  if (shown.get(name) === text) return;
  shown.set(name, text);
  $(name).hidden = !rows.length;
  fill($(`${name}-rows`), rows.map((row) => h('tr', {}, cells(row))));
}
