// .ci/steps/mcp-apps.mjs HAFT CHROMIUM MODULES: what .ci/steps/mcp-apps shows, in an empty home.

import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [haft, executablePath, modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const home = process.env.HOME;
const PATIENCE = 30000; // milliseconds for one thing, on a busy machine

// Frame within a frame: this page is of another origin than the host's, has the CSP of the App, and relays.
const SANDBOX = `<!doctype html><body><script>
const host = new URL(document.referrer).origin;
const inner = document.body.appendChild(document.createElement('iframe'));
inner.sandbox = 'allow-scripts allow-same-origin allow-forms';
addEventListener('message', ({ source, origin, data }) => {
  if (source === inner.contentWindow) parent.postMessage(data, host);
  else if (source !== parent || origin !== host) throw new Error('a message of ' + origin);
  else if (data.method === 'ui/notifications/sandbox-resource-ready') inner.srcdoc = data.params.html;
  else inner.contentWindow.postMessage(data, '*');
});
parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, host);
</script>`;

// The policy that the specification makes of `_meta.ui.csp`.
function policy({ connectDomains = [], resourceDomains = [], frameDomains = [], baseUriDomains = [] }) {
  const from = (directive, own, domains) => [directive, ...own, ...domains].join(' ') + (own.length + domains.length ? '' : " 'none'");
  const inline = ["'self'", "'unsafe-inline'"];
  return ["default-src 'none'", from('script-src', inline, resourceDomains), from('style-src', inline, resourceDomains),
    ...['img-src', 'font-src', 'media-src'].map((kind) => from(kind, ["'self'", 'data:'], resourceDomains)),
    from('connect-src', [], connectDomains), from('frame-src', [], frameDomains), from('base-uri', [], baseUriDomains),
    "object-src 'none'"].join('; ');
}

// A server on loopback; gives its origin.
async function listen(answer) {
  const server = createServer((request, response) => {
    const [headers, body] = answer(new URL(request.url, 'http://host'));
    response.writeHead(200, headers).end(body);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return `http://127.0.0.1:${server.address().port}`;
}

copyFileSync('.ci/steps/mcp-apps-page.mjs', `${home}/page.mjs`);
copyFileSync('.ci/steps/mcp-apps-server.mjs', `${modules}/mcp-apps-server.mjs`); // modules are looked for beside it
const entryPoints = [`${home}/page.mjs`];
const [bundle] = require('esbuild').buildSync({ entryPoints, bundle: true, write: false, format: 'esm', nodePaths: [modules] }).outputFiles;
const html = { 'content-type': 'text/html' };
const host = await listen(({ pathname }) => (pathname === '/page.js' ? [{ 'content-type': 'text/javascript' }, bundle.text]
  : [html, '<!doctype html><body><script type="module" src="page.js"></script>']));
const sandbox = await listen(({ searchParams }) => {
  const own = policy(JSON.parse(searchParams.get('csp')));
  return [{ ...html, 'content-security-policy': own }, SANDBOX];
});
const allowed = await listen(() => [{ 'access-control-allow-origin': '*' }, 'reached']);

const example = (name) => [`${modules}/@modelcontextprotocol/server-${name}/dist/index.js`, '--stdio'];
const until = (is, ...given) => (frame) => frame.waitForFunction(is, ...given, { timeout: PATIENCE });
const shows = (text) => until((part) => document.body?.innerText.includes(part), text);
// Of each server: how it starts, its tool and the arguments of a call, what the App shows of the call, what a person does then, what
// differs from moment to moment, how many messages are compared, and the whole text.
const APPS = {
  clock: {
    command: example('basic-vanillajs'), tool: 'get-time', args: {}, moment: /\d{4}-\d\d-\d\dT[\d:.]+Z/g, then: shows('Z\n'),
    act: async (frame) => {
      const before = await frame.textContent('#server-time');
      await frame.click('#get-time-btn');
      await until((old) => document.querySelector('#server-time').textContent !== old, before)(frame);
    },
  },
  music: {
    command: example('sheet-music'), tool: 'play-sheet-music', then: shows('A tune of four notes'),
    args: { abcNotation: 'X:1\nT:A tune of four notes\nM:4/4\nL:1/4\nK:C\nCDEF|\n' },
  },
  // It asks a tool that is for Apps alone again and again.
  monitor: {
    command: example('system-monitor'), tool: 'get-system-info', args: {}, moment: /\d[\d:.,]*[dhm]?( \d+[hm])*( [AP]M)?/g, messages: 8,
    then: until(() => !document.querySelector('#memory-percent').textContent.startsWith('--')),
  },
  ...Object.fromEntries(['orders', 'gated', 'unlisted'].map((name) => [name, {
    command: [`${modules}/mcp-apps-server.mjs`, allowed, name], tool: `show-${name}`, args: { customer: 'Bo' }, then: shows('end: of the App'),
    text: ['input: {"customer":"Bo"}', 'result: {"orders":[7,8]}', 'another tool: cancelled 7', ...(name === 'unlisted' ? [] : ['resource: order 7']),
      'interface: text/html;profile=mcp-app', 'its address: reached', 'other address: FAILED Failed to fetch', 'end: of the App'].join('\n\n'),
  }])),
};

const problems = [];
function problem(text) {
  problems.push(text);
  console.log(`  FAILED: ${text}`);
}

// Shows the App of a server that `command` starts. Gives all that was seen of it.
async function shown(browser, app, command) {
  const child = spawn(command[0], command.slice(1), { cwd: home, stdio: ['pipe', 'pipe', 'ignore'] });
  const page = await browser.newPage();
  const seen = { complaints: new Set() };
  page.on('console', (message) => { if (message.type() === 'error') seen.complaints.add(message.text().split('\n')[0]); });
  page.on('pageerror', (error) => seen.complaints.add(error.message));
  try {
    await page.exposeFunction('toServer', (message) => { child.stdin.write(`${JSON.stringify(message)}\n`); });
    createInterface({ input: child.stdout }).on('line', (line) => {
      page.evaluate((message) => window.fromServer(message), JSON.parse(line)).catch(() => {}); // it may be closed by now
    });
    await page.goto(host);
    const opened = page.evaluate((given) => window.openApp(...given), [sandbox, app.tool, app.args]);
    const late = new Promise((_, no) => { setTimeout(no, PATIENCE, new Error('the App does not open')).unref(); });
    Object.assign(seen, await Promise.race([opened, late]));
    const frame = page.frames().find((one) => one.parentFrame()?.parentFrame());
    seen.policy = (await page.request.get(page.frames()[1].url())).headers()['content-security-policy'];
    try {
      await app.then(frame);
      await app.act?.(frame);
    } finally {
      seen.text = await frame.evaluate(() => document.body.innerText);
      seen.pictures = await frame.evaluate(() => document.querySelectorAll('svg path').length);
      const said = (await page.evaluate(() => window.said)).filter(({ method }) => method !== 'ui/notifications/size-changed');
      seen.said = said.slice(0, app.messages);
    }
  } catch (error) {
    seen.failure = error.message.split('\n')[0];
  }
  await page.close();
  child.stdin.end();
  child.kill();
  return JSON.parse(JSON.stringify({ ...seen, complaints: [...seen.complaints] }));
}

// What was seen through haft beside other servers, of this one and by its own names.
function own(seen, server) {
  for (const list of ['tools', 'resources']) {
    if (seen[list]) seen[list] = seen[list].filter((one) => JSON.stringify(one).includes(`mcp__${server}`));
  }
  const text = JSON.stringify(seen).replaceAll(`haft://mcp__${server}/`, '').replaceAll(`ui://mcp__${server}/`, 'ui://');
  return JSON.parse(text.replaceAll(`mcp__${server}__`, ''));
}

// The places at which two values differ, except for what matches `moment`.
function* differences(moment, native, other, place = '') {
  const same = (value) => (moment && typeof value !== 'object' ? String(value).replace(moment, '_') : value);
  if (native && other && typeof native === 'object' && typeof other === 'object') {
    for (const key of new Set([...Object.keys(native), ...Object.keys(other)])) {
      if (!(key in native)) yield `${place}.${key}: only through haft: ${JSON.stringify(other[key]).slice(0, 150)}`;
      else if (!(key in other)) yield `${place}.${key}: missing`;
      else yield* differences(moment, native[key], other[key], `${place}.${key}`);
    }
  } else if (same(native) !== same(other)) {
    yield `${place}: ${JSON.stringify(native).slice(0, 150)} became ${JSON.stringify(other).slice(0, 300)}`;
  }
}

const configs = Object.entries(APPS).map(([name, { command }]) => [name, { command: process.execPath, args: command }]);
writeFileSync(`${home}/mcp.json`, JSON.stringify({ mcpServers: Object.fromEntries(configs) }));
writeFileSync(`${home}/program.toml`, '[program]\nname = "p"\nversion = "0.1.0"\n[sandbox]\nworkspace = "."\n');
const imported = spawnSync(haft, ['import', `${home}/mcp.json`, '--yes', '--to', `${home}/program.toml`], { cwd: home, encoding: 'utf8' });
if (imported.status) throw new Error(imported.stderr);

// Of root no browser makes a sandbox.
const browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
for (const [server, app] of Object.entries(APPS)) {
  const native = await shown(browser, app, [process.execPath, ...app.command]);
  const { text = '', read, failure = app.text && app.text !== text ? `it shows ${text}` : '' } = native;
  if (failure) problem(`${server} without haft: ${failure}`);
  const kinds = new Set(native.said?.filter(({ method }) => method).map(({ by, method }) => `${by}: ${method}`));
  const [content] = read?.contents ?? [{}];
  console.log(`${server}: ${content.text?.length} characters of HTML, ${text.length} shown, CSP ${JSON.stringify(content._meta?.ui?.csp)}`);
  console.log(`  messages: ${[...kinds].join(', ')}`);
  const serve = [haft, '-p', `${home}/program.toml`, 'serve'];
  for (const [way, command] of [['beside others', serve], ['alone', [...serve, '--server', server]]]) {
    const seen = await shown(browser, app, command);
    const found = [...differences(app.moment, native, way === 'alone' ? seen : own(seen, server))];
    // Of an App that did not open, or did not come to its end, the rest is missing.
    for (const one of found.filter((text) => !seen.failure || !text.endsWith(': missing'))) problem(`${server} ${way}${one}`);
    console.log(`  ${way}: ${found.length ? 'different' : 'equal'}`);
  }
}
await browser.close();
console.log(problems.length ? `${problems.length} problems` : 'all is as without haft');
process.exit(problems.length ? 1 : 0);
