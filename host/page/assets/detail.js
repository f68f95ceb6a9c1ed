// The dialog with everything that is known of one thing. It has a place in the address, so that it can be gone back from.

import { $, copied, day, facts, fill, get, grant, h, hint, outcome, pre, took, visible } from './text.js';

const dialog = $('detail');

export function open(title, ...content) {
  $('detail-title').textContent = visible(title);
  fill($('detail-body'), content);
  if (!dialog.open) dialog.showModal();
  $('detail-body').scrollTop = 0;
}

export function close() {
  if (dialog.open) dialog.close();
}

$('close').addEventListener('click', close);
dialog.addEventListener('close', () => {
  const [view, one] = location.hash.split('/');
  if (one && view !== '#sessions') location.hash = view;
});
dialog.addEventListener('click', (event) => {
  if (event.target === dialog) close();
});

export async function call(id) {
  try {
    const { record, row, arguments: given, calls } = await get('/api/call', { id });
    open(record.tool,
      facts([
        ['Outcome', outcome(row.outcome)],
        ['Began', day(row.time)],
        ['Took', took(row.ms)],
        ['Waited', row.waited && `${took(row.waited)} for a person's answer`],
        ['Memory', record.peak_memory && `${(record.peak_memory / 1048576).toFixed(1)} MiB`],
        ['Caller', row.caller],
        ['Program', record.program?.path ?? row.program],
        ['Granted', grant(record.grant)],
        ['Decided', record.decisions && h('ul', {}, record.decisions.map((line) => h('li', {}, line)))],
        ['From', record.origin],
        ['Component', record.digest && `sha256:${record.digest}`],
        ['haft', `${record.haft}, process ${record.pid}`],
        ['Call', h('span', {}, `${record.id}, named ${record.call} by its caller`)],
      ]),
      row.hint && [h('h3', {}, 'Line that would allow it'), hint(row.hint)],
      record.error && [h('h3', {}, 'Error'), pre(record.error)],
      record.answer && [h('h3', {}, 'Answer'), pre(record.answer)],
      h('h3', {}, 'Arguments'), pre(given || 'none'),
      record.digested && h('p', { class: 'note' }, `The journal has only the SHA-256 of: ${record.digested.join(', ')}`),
      calls.length > 0 && [h('h3', {}, 'Calls of the agent'), h('ul', {}, calls.map((child) =>
        h('li', {}, h('a', { href: `#live/${child.id}` }, child.tool), ' ', outcome(child.outcome))))],
      h('h3', {}, 'At a terminal'), copied(`haft log ${record.id}`, 'command'));
  } catch (error) {
    open('Call', h('p', {}, error.message));
  }
}
