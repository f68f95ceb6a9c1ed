// Tools: how often they were called, how long it took, what they cost in a prompt, and what they may do.

import { open } from './detail.js';
import { $, clock, day, facts, fill, get, grant, h, number, spark, took, visible } from './text.js';

let known = new Map();
let range;
let redraw = () => {};

export async function load() {
  try {
    const { figures, offered } = await get('/api/tools', { hours: $('hours').value });
    range = figures;
    known = new Map(offered.tools.map((offer) => [offer.name, { offer }]));
    for (const figure of figures.tools) known.set(figure.name, { ...known.get(figure.name), figure });
    const tools = [...known].sort(([, one], [, two]) => (two.figure?.calls ?? 0) - (one.figure?.calls ?? 0));
    fill($('tool-rows'), tools.map(([name, tool]) => line(name, tool)));
    fill($('changes'), changes(offered));
    const unknown = Object.entries(figures.unknown);
    $('tools-unknown').hidden = !unknown.length;
    $('tools-unknown').textContent = visible(`Calls of names without a tool: ${unknown.slice(0, 20).map(([name, calls]) => `${name} (${number(calls)})`).join(', ')}`);
    const tokens = offered.tools.reduce((sum, offer) => sum + offer.tokens, 0);
    const program = offered.tools.length ? `${offered.tools.length} tools of ${offered.program ?? 'no program.toml'} use about ${number(tokens)} tokens of a prompt. ` : '';
    $('tools-end').textContent = visible(`${program}Calls since ${day(figures.since)}${figures.is_cut ? ': the last 100,000' : ''}.`);
  } catch (error) {
    $('tools-end').textContent = visible(error.message);
  }
}

function changes({ changes, problem }) {
  const items = [...changes, ...(problem ? [problem] : [])];
  if (!items.length) return [];
  return [h('div', { class: 'warning' }, h('h3', {}, 'Changed since program.lock'),
    h('ul', {}, items.map((item) => h('li', {}, item))),
    h('p', {}, h('code', {}, 'haft verify'), ' compares again; ', h('code', {}, 'haft update NAME'), ' shows the changes and asks.'))];
}

function line(name, { offer, figure }) {
  return h('tr', {},
    h('th', { scope: 'row' }, h('a', { href: `#tools/${encodeURIComponent(name)}` }, name)),
    h('td', { class: 'number' }, number(figure?.calls) || '–'),
    h('td', { class: `number ${figure?.failed ? 'bad' : ''}` }, figure ? number(figure.failed) : '–'),
    h('td', { class: 'number' }, took(figure?.p50) || '–'),
    h('td', { class: 'number' }, took(figure?.p99) || '–'),
    h('td', { class: 'wide' }, figure && spark(figure.curve)),
    h('td', { class: 'number' }, offer ? `~${number(offer.tokens)}` : '–'),
    h('td', { class: 'wide from' }, offer?.origin ?? figure?.origin ?? ''));
}

export async function one(name) {
  if (!known.has(name)) await load();
  const tool = known.get(name);
  if (!tool) return open(name, h('p', {}, 'Unknown tool.'));
  const { offer, figure } = tool;
  const chart = h('div', { class: 'chart' });
  open(name,
    offer && h('p', { class: 'description' }, offer.description),
    facts([
      ['Calls', figure && `${number(figure.calls)}, of which ${number(figure.failed)} failed (${number(figure.refused)} refused)`],
      ['p50', took(figure?.p50)], ['p99', took(figure?.p99)],
      ['Prompt', offer && `about ${number(offer.tokens)} tokens`],
      ['Asks', offer && (offer.asks ? 'a person may be asked before a call' : 'no approval before a call')],
      ['Granted', grant(offer?.grant ?? figure?.grant)],
      ['From', offer?.origin ?? figure?.origin],
      ['Component', (offer?.digest ?? figure?.digest) && `sha256:${offer?.digest ?? figure?.digest}`],
    ]),
    figure && [h('h3', {}, 'Duration over time'), chart]);
  redraw = () => figure && draw(chart, figure, range);
  redraw();
}

function draw(place, { curve }, { since, until }) {
  // A canvas knows no custom properties: what one comes to is the colour of an element that has it.
  const colour = (name) => {
    place.style.color = `var(${name})`;
    return getComputedStyle(place).color;
  };
  const at = curve.map((_, index) => (since + (until - since) * (index + 0.5) / curve.length) / 1000);
  const is_whole = (tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-6;
  const axis = { stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 }, font: '11px system-ui' };
  const some = curve.filter((part) => part.calls);
  place.setAttribute('role', 'img');
  place.setAttribute('aria-label', `p50 and p99 of ${some.length} parts of the time since ${day(since)}, the last at ${clock(until)}`);
  const options = {
    width: Math.max(280, place.clientWidth), height: 200,
    scales: { x: { time: true }, y: { distr: 3 } },
    legend: { show: true, live: false },
    cursor: { drag: { x: false, y: false } },
    series: [{}, { label: 'p50 ms', stroke: colour('--accent'), width: 1.5, spanGaps: true, points: { show: true, size: 5 } },
      { label: 'p99 ms', stroke: colour('--bad'), width: 1.5, spanGaps: true, points: { show: true, size: 5 } }],
    axes: [axis, { ...axis, size: 56, grid: { ...axis.grid, filter: (_, ticks) => ticks.map((tick) => is_whole(tick) ? tick : null) }, values: (_, ticks) => ticks.map((tick) => tick == null ? '' : String(tick)) }],
  };
  // A logarithm has no zero.
  const values = (name) => curve.map((part) => part[name] == null ? null : Math.max(0.001, part[name]));
  const drawn = h('div', {});
  place.replaceChildren(drawn);
  new uPlot(options, [at, values('p50'), values('p99')], drawn);
  place.style.color = '';
}

$('hours').addEventListener('change', load);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => redraw());
