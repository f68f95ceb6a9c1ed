// Markdown as elements: marked says what is what, and every text of it is put there as text. HTML in it stays text, an
// image is its name, and a link is its words with the address beside them: nobody is led anywhere by what a model wrote.

import { marked } from './marked.js';
import { h, pre } from './text.js';

const PLAIN = { strong: 'strong', em: 'em', del: 'del', blockquote: 'blockquote', paragraph: 'p' };

const KINDS = {
  space: () => null,
  def: () => null,
  br: () => h('br'),
  hr: () => h('hr'),
  code: ({ text }) => pre(text),
  codespan: ({ text }) => h('code', {}, text),
  heading: ({ tokens, depth }) => h('p', { class: `heading level-${depth}` }, elements(tokens)),
  list: ({ ordered, start, items }) => h(ordered ? 'ol' : 'ul', { start: ordered && start !== 1 && start }, items.map(item)),
  table: ({ header, rows }) => h('table', {}, h('thead', {}, row('th', header)), h('tbody', {}, rows.map((cells) => row('td', cells)))),
  link: ({ tokens, href, text }) => [elements(tokens), href !== text && [' ', h('code', {}, href)]],
  image: ({ href, text }) => [text, ' ', h('code', {}, href)],
};

const item = ({ tokens, task, checked }) => h('li', {}, task && (checked ? '☑ ' : '☐ '), elements(tokens.filter(({ type }) => type !== 'checkbox')));

const row = (name, cells) => h('tr', {}, cells.map(({ tokens }) => h(name, {}, elements(tokens))));

const elements = (tokens) => tokens.map((token) => {
  if (Object.hasOwn(KINDS, token.type)) return KINDS[token.type](token);
  if (Object.hasOwn(PLAIN, token.type)) return h(PLAIN[token.type], {}, elements(token.tokens));
  return token.tokens ? elements(token.tokens) : token.text;
});

export function markdown(text) {
  try {
    return h('div', { class: 'markdown' }, elements(marked.lexer(text)));
  } catch {
    return h('div', { class: 'text' }, text);
  }
}
