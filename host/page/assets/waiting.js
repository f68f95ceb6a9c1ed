// Calls that wait for a person. An answer names the digest of what was shown; another call cannot be answered with it.

import { $, day, facts, h, json, pre, say } from './text.js';

// How long the buttons of a new card do nothing: what is clicked then was meant for something else.
const SETTLING = 600;

const cards = new Map();
let calls = new Set();

// How many calls wait, and whether a call that is under way does.
export const count = () => cards.size;
export const waits = (row) => row.outcome === 'running' && calls.has(`${row.pid} ${row.call}`);

export function show(questions) {
  const now = new Set(questions.map((question) => question.digest));
  calls = new Set(questions.map(({ pid, call }) => `${pid} ${call}`));
  for (const [digest, card] of cards) {
    if (!now.has(digest)) {
      card.remove();
      cards.delete(digest);
    }
  }
  const fresh = questions.filter((question) => !cards.has(question.digest));
  for (const question of fresh) {
    const shown = card(question);
    cards.set(question.digest, shown);
    // At the end: nothing moves under a finger.
    $('questions').append(shown);
  }
  $('nothing-waits').hidden = cards.size > 0;
  $('count').hidden = cards.size === 0;
  $('count').textContent = String(cards.size);
  document.title = cards.size ? `(${cards.size}) haft` : 'haft';
  if (fresh.length) say(`${fresh[0].tool} waits for your answer. ${cards.size} waiting.`);
}

function card(question) {
  const { tool, origin } = question;
  const title = `question-${question.id}`;
  const program = origin.program ?? 'no program.toml';
  const result = h('p', { class: 'result', role: 'alert' });
  const actions = [
    ['once', 'Allow once'],
    question.for_session && ['session', question.verb === 'Allow' ? 'Allow for this session' : `Allow ${tool} for this session`],
    question.written_by && ['write', 'Write to program.toml'],
    ['refuse', 'Refuse'],
  ].filter(Boolean).map(([answer, label]) => {
    const button = h('button', { type: 'button', class: answer, disabled: true }, label);
    button.addEventListener('click', () => give(question, answer, buttons, result));
    return button;
  });
  const buttons = actions;
  setTimeout(() => buttons.forEach((button) => { button.disabled = false; }), SETTLING);
  return h('article', { class: 'question', 'aria-labelledby': title },
    h('h3', { id: title }, tool, h('span', { class: 'asks' }, question.agent ? `asked by the agent ${question.agent}` : 'asks to run')),
    content(question),
    question.written_by && h('p', { class: 'note' }, h('code', {}, question.written_by), ' writes it to program.toml'),
    question.is_cut && h('p', { class: 'warning' }, 'Long texts are cut: only their starts and ends are shown.'),
    facts([
      ['Program', program],
      ['Asked by', `haft ${origin.verb}, process ${question.pid}${origin.folder ? `, in ${origin.folder}` : ''}`],
      ['Waits', `since ${day(question.time)}, until ${day(question.until)}`],
      ['Digest', h('code', { class: 'digest' }, question.digest)],
    ]),
    h('div', { class: 'actions' }, buttons), result);
}

function content(question) {
  const { what, arguments: given, difference } = question;
  const names = Object.keys(given ?? {});
  return [pre(what, { class: 'what' }), difference && diff(difference),
    names.length > 1 && h('details', {}, h('summary', {}, 'All arguments'), json(given))];
}

function diff({ lines, is_cut }) {
  const kinds = { '+': 'added', '-': 'removed', ' ': 'same' };
  const shown = lines.map(([mark, line]) => h('span', { class: kinds[mark] ?? 'place' }, `${mark} ${line}\n`));
  return [h('pre', { class: 'diff', tabindex: '0', 'aria-label': 'Difference' }, shown),
    is_cut && h('p', { class: 'warning' }, 'The diff is truncated.')];
}

async function give({ id, digest, tool }, answer, buttons, result) {
  buttons.forEach((button) => { button.disabled = true; });
  try {
    const body = JSON.stringify({ id, digest, answer });
    const given = await fetch('/api/answer', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    if (!given.ok) throw new Error((await given.text()).trim());
    const words = { once: 'Allowed once', session: 'Allowed for this session', write: 'Written to program.toml', refuse: 'Refused' }[answer];
    result.textContent = words;
    say(`${words}: ${tool}`);
    $('waiting-title').tabIndex = -1;
    $('waiting-title').focus();
  } catch (error) {
    result.textContent = error.message;
    buttons.forEach((button) => { button.disabled = false; });
  }
}
