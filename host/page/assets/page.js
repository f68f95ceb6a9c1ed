// The page: which view is shown, and the stream of what happens.

import * as detail from './detail.js';
import * as live from './live.js';
import * as sessions from './sessions.js';
import { $ } from './text.js';
import * as tools from './tools.js';
import * as waiting from './waiting.js';

const VIEWS = ['waiting', 'live', 'tools', 'sessions'];

// How often the figures of tools are asked for while they are looked at.
const FIGURES = 10000;

let current;

function show() {
  const [view, one] = location.hash.slice(1).split('/');
  const name = VIEWS.includes(view) ? view : 'waiting';
  const is_other = name !== current;
  current = name;
  for (const view of VIEWS) $(view).hidden = view !== name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!one || name === 'sessions') detail.close();
  if (name === 'live' && one) detail.call(one);
  if (name === 'tools') is_other && tools.load();
  if (name === 'tools' && one) tools.one(decodeURIComponent(one));
  if (name === 'sessions') one ? sessions.one(one) : sessions.load();
}

function listen() {
  const events = new EventSource('/events');
  events.addEventListener('open', () => {
    $('status').dataset.state = 'open';
    live.load();
  });
  events.addEventListener('error', () => {
    $('status').dataset.state = 'lost';
    tell();
  });
  events.addEventListener('waiting', (event) => waiting.show(JSON.parse(event.data)));
  events.addEventListener('rows', (event) => live.add(JSON.parse(event.data)));
}

function tell() {
  const rate = live.rate();
  const words = { open: rate, lost: 'not connected' }[$('status').dataset.state] ?? 'connecting';
  if ($('status').textContent !== words) $('status').textContent = words;
}

document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  $('main').focus();
});
addEventListener('hashchange', show);
setInterval(tell, 1000);
setInterval(() => current === 'tools' && !document.hidden && tools.load(), FIGURES);
show();
listen();
