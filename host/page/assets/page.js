// The page: which view is shown, and the stream of what happens.

import * as detail from './detail.js';
import * as live from './live.js';
import * as sessions from './sessions.js';
import * as overview from './overview.js';
import { $ } from './text.js';
import * as tools from './tools.js';
import * as waiting from './waiting.js';

const VIEWS = ['overview', 'waiting', 'live', 'tools', 'sessions'];

// How often figures are asked for while they are looked at.
const FIGURES = 10000;

let current;

function show() {
  const [view, one] = location.hash.slice(1).split('/');
  const name = VIEWS.includes(view) ? view : 'overview';
  const is_other = name !== current;
  current = name;
  for (const view of VIEWS) $(view).hidden = view !== name;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!one || name === 'sessions') detail.close();
  if (name === 'overview') is_other && overview.load();
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
  events.addEventListener('waiting', (event) => {
    waiting.show(JSON.parse(event.data));
    live.renew();
    overview.show();
  });
  events.addEventListener('rows', (event) => {
    live.add(JSON.parse(event.data));
    if (current === 'overview' && !document.hidden) overview.soon();
  });
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
setInterval(() => { tell(); overview.tick(); }, 1000);
setInterval(() => {
  if (document.hidden) return;
  if (current === 'tools') tools.load();
  if (current === 'overview') overview.soon();
}, FIGURES);
show();
listen();
