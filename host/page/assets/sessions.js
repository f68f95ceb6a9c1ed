// Sessions of agents: a list, and one as the conversation that it was.

import { $, copied, cost, day, facts, fill, get, h, number, pre, took, visible } from './text.js';
import { markdown } from './markdown.js';

export async function load() {
  $('session-list').hidden = false;
  $('session').hidden = true;
  try {
    const { sessions, is_cut } = await get('/api/sessions');
    fill($('session-rows'), sessions.map(line));
    const none = 'No sessions yet. haft run and haft chat start sessions.';
    $('sessions-end').textContent = sessions.length ? (is_cut ? 'The last 100; haft session list lists all.' : '') : none;
  } catch (error) {
    $('sessions-end').textContent = visible(error.message);
  }
}

function line(session) {
  const tokens = session.input == null ? '' : number(session.input + session.output);
  return h('tr', {},
    h('td', { class: 'time' }, day(session.changed)),
    h('th', { scope: 'row' }, h('a', { href: `#sessions/${session.id}` }, session.title || session.id)),
    h('td', { class: session.state === 'in use' ? 'good' : '' }, session.state),
    h('td', { class: 'number' }, number(session.turns)),
    h('td', { class: 'number' }, tokens),
    h('td', { class: 'number' }, cost(session.cost)),
    h('td', { class: 'wide' }, session.program ?? session.folder ?? ''));
}

export async function one(id) {
  const place = $('session');
  $('session-list').hidden = true;
  place.hidden = false;
  const back = h('p', {}, h('a', { href: '#sessions' }, '← All sessions'));
  try {
    const { session, entries } = await get('/api/session', { id });
    fill(place, back,
      h('h3', {}, session.title || session.id),
      facts([['Program', session.program], ['Folder', session.folder], ['Agent', session.agent],
        ['Resume', copied(`haft chat --resume ${session.id}`, 'command')]]),
      entries.earlier > 0 && h('p', { class: 'note' }, `${entries.earlier} earlier entries are left out; haft session show ${session.id} shows all.`),
      h('ol', { class: 'conversation' }, entries.shown.map(entry)));
  } catch (error) {
    fill(place, back, h('p', {}, error.message));
  }
}

const NAMES = { you: 'You', model: 'Model', tool: 'Tool', summary: 'Summary of the earlier messages', end: 'End' };

function entry(said) {
  const { who, text, time } = said;
  const head = (...more) => h('div', { class: 'who' }, h('strong', {}, NAMES[who]), ...more, h('span', { class: 'time' }, day(time)));
  if (who === 'tool') {
    const { tool, about, arguments: given, ms, is_error } = said.call;
    const mark = is_error ? 'failed' : 'ok';
    return h('li', { class: 'tool' }, h('details', {},
      h('summary', {}, h('strong', {}, tool), ' ', h('span', { class: 'arguments' }, about), ' ',
        h('span', { class: `outcome ${mark}` }, is_error ? '✗ failed' : '✓ ok'), ' ', took(ms)),
      given && pre(given), pre(text)));
  }
  if (who === 'end') return h('li', { class: 'end' }, text, ' ', h('span', { class: 'time' }, day(time)));
  const model = said.model;
  const figures = model && ` ${model.name}, ${number(model.input)} + ${number(model.output)} tokens ${cost(model.cost)}`;
  return h('li', { class: who }, head(figures && h('span', { class: 'figures' }, figures)),
    text && (who === 'you' ? h('div', { class: 'text' }, text) : markdown(text)),
    said.files?.map((file) => h('p', { class: 'note' }, file)),
    model && !text && model.calls > 0 && h('p', { class: 'note' }, `asked for ${model.calls} ${model.calls === 1 ? 'call' : 'calls'}`));
}
