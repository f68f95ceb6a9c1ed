// .ci/steps/page.mjs HAFT CHROMIUM NPM SHOTS: opens the page of `haft serve --page` in a browser and does what a person would,
// in the folder that .ci/steps/page made. Ends with 1 at the first thing that is not as it must be.

import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [haft, executablePath, npm, shots] = process.argv.slice(2);
const require = createRequire(`${npm}/node_modules/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// Milliseconds for anything that takes a moment: a hang, on a busy machine too.
const LONG = 30000;

// Calls a second while the page looks on, and for how many seconds.
const RATE = 1000;
const SECONDS = 8;

// A file that no grant names.
const SECRET = `${process.env.HOME}/tmp/private/a`;

const HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe\u001b[2J</td></script>';

function fail(why) {
  console.error(`.ci/steps/page: ${why}`);
  process.exit(1);
}

function check(is, why) {
  if (!is) fail(why);
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(is, what) {
  const begun = Date.now();
  while (!(await is())) {
    if (Date.now() - begun > LONG) fail(`it never came: ${what}`);
    await sleep(20);
  }
}

// haft with these arguments; what it printed, once it has ended.
function run(...args) {
  const child = spawn(haft, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, said] = ['', ''];
  child.stdout.on('data', (data) => { out += data; });
  child.stderr.on('data', (data) => { said += data; });
  return new Promise((done) => child.on('close', (code) => done({ code, out, said })));
}

// An MCP client on the standard streams of haft.
class Client {
  constructor(...args) {
    this.child = spawn(haft, ['serve', ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.next = 0;
    this.waiting = new Map();
    this.said = '';
    this.child.stderr.on('data', (data) => { this.said += data; });
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      this.waiting.get(message.id)?.(message);
      this.waiting.delete(message.id);
    });
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  ask(method, params) {
    const id = ++this.next;
    this.send({ id, method, params });
    return new Promise((done) => this.waiting.set(id, done));
  }

  call(name, args) {
    return this.ask('tools/call', { name, arguments: args });
  }

  async open() {
    await this.ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'ci', version: '0' } });
    this.send({ method: 'notifications/initialized' });
    await this.call('time', {});
  }
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const percentile = (values, share) => values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))];

const client = new Client('--page');
await client.open();
// What takes longer than it may is told by where it was.
setTimeout(() => fail('it took too long'), 400000).unref();

await until(() => /http:\S+\/open\/\S+/.test(client.said), 'the link');
const link = client.said.match(/http:\S+\/open\/\S+/)[0];
const origin = new URL(link).origin;

// Of root no browser makes a sandbox.
const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
const browser = await chromium.launch({ executablePath, args });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light' });
const page = await context.newPage();
page.setDefaultTimeout(LONG);
const foreign = [];
const complaints = [];
page.on('request', (request) => { if (new URL(request.url()).origin !== origin) foreign.push(request.url()); });
page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
page.on('pageerror', (error) => complaints.push(String(error)));
page.on('dialog', () => complaints.push('a dialog'));
await page.addInitScript(() => {
  window.violations = [];
  document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
});

async function judged(what) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run());
    const said = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join('\n  ')}`);
    check(!said.length, `axe-core, ${what}, ${colorScheme}:\n${said.join('\n')}`);
    await page.screenshot({ path: `${shots}/${what}-${colorScheme}.png` });
  }
  await page.emulateMedia({ colorScheme: 'light' });
}

async function view(name) {
  await page.click(`nav a[href="#${name}"]`);
  await page.waitForSelector(`#${name}:not([hidden])`);
}

// The link lets this browser in, and no other one.
await page.goto(link);
await page.waitForURL(`${origin}/`);
await page.waitForSelector('#status[data-state=open]');
const other = await browser.newContext();
const answer = await (await other.newPage()).goto(link);
check(answer.status() === 403, `a second browser was let in: ${answer.status()}`);
await other.close();
await page.waitForSelector('#figures a');
await judged('overview-empty');
await view('waiting');
await judged('waiting-empty');

// A call waits, and is answered by the keyboard alone.
const echo = run('call', 'bash', JSON.stringify({ command: `printf 'ran\\n' >>ran\ngit log --oneline -5 | sed 's/^/  /'\necho 47''11` }));
const refused = client.call('bash', { command: 'rm -rf build && make -j2 all' });
const edit = client.call('edit', { file_path: 'text', old_string: 'one two three\n', new_string: 'one two\nthree and more\n' });
await page.waitForFunction(() => document.querySelectorAll('.question').length === 3);
check(await page.title() === '(3) haft', `the title is ${await page.title()}`);
await page.waitForSelector('.question button.once:not([disabled])');
await judged('waiting');
await page.setViewportSize({ width: 390, height: 844 });
await judged('waiting-phone');
await page.setViewportSize({ width: 1280, height: 800 });
await view('overview');
await page.waitForFunction(() => document.querySelectorAll('#running-rows .outcome.waiting').length === 3);
check((await page.textContent('#figures a[href="#waiting"] .value')) === '3', 'the overview does not count what waits');
await judged('overview-waiting');
await view('waiting');
check(!existsSync('ran'), 'the call ran before it was allowed');
const first = page.locator('.question', { hasText: '4711' }).or(page.locator('.question', { hasText: "47''11" })).first();
for (let presses = 0; presses < 40; presses++) {
  await page.keyboard.press('Tab');
  const is = await first.locator('button.once').evaluate((button) => button === document.activeElement);
  if (is) break;
}
await page.keyboard.press('Enter');
const { out } = await echo;
check(out.endsWith('4711\n'), `the allowed call said: ${out}`);
check(readFileSync('ran', 'utf8') === 'ran\n', 'the allowed call did not run once');
await page.waitForFunction(() => document.querySelectorAll('.question').length === 2);
await page.locator('.question', { hasText: 'make' }).locator('button.refuse').click();
check((await refused).result.content[0].text === 'Command execution denied by user.', 'the refused call ran');
await page.locator('.question', { hasText: 'three and more' }).locator('button.session').click();
check((await edit).result.isError === false && readFileSync('text', 'utf8') === 'one two\nthree and more\n', 'the edit was not made');
const again = await client.call('edit', { file_path: 'text', old_string: ' and more', new_string: '' });
check(again.result.isError === false, 'the answer for the session does not hold');
await page.waitForSelector('#nothing-waits:not([hidden])');
console.log('  waiting: one call allowed by the keyboard and run once, one refused, one allowed for the session');

// Refusals with the line that would allow them, and texts that are no HTML.
// Where a line of program.toml would allow a call, the person is asked for it, and does not want it.
async function unwanted(path) {
  const call = client.call('words__count', { path });
  let isOver = false;
  call.finally(() => { isOver = true; });
  while (!isOver) {
    const refuse = page.locator('.question button.refuse:not([disabled])').first();
    if (await refuse.isVisible()) await refuse.click();
    await sleep(50);
  }
  return call;
}
await unwanted(SECRET);
await unwanted(`${process.cwd()}/text`);
await view('live');
await client.call(HOSTILE, { [HOSTILE]: HOSTILE });
await run('call', HOSTILE, JSON.stringify({ [HOSTILE]: HOSTILE.repeat(100000).slice(0, 100000) }));
await page.waitForFunction(() => document.querySelectorAll('#calls tr').length >= 5);
const hint = await page.textContent('.hint .copied code');
check(/^read = \[/.test(hint), `the line is ${hint}`);
const text = await page.textContent('#calls');
check(text.includes('<script>alert(1)</script>') && text.includes('\\u{202e}') && !text.includes('\u202e'), 'a hostile text is not shown as it is');
check(await page.evaluate(() => document.querySelectorAll('main script, main img').length === 0), 'a text became HTML');
await judged('live');
await page.locator('#calls th a', { hasText: 'words__count' }).last().click();
await page.waitForSelector('dialog[open] .facts');
await judged('call');
await page.keyboard.press('Escape');
await page.waitForSelector('dialog[open]', { state: 'detached' });
await page.fill('#filter [name=text]', 'private/a');
await page.waitForFunction(() => document.querySelectorAll('#calls tr').length === 1);
await page.fill('#filter [name=text]', '');
await page.waitForFunction(() => document.querySelectorAll('#calls tr').length >= 5);
await page.setViewportSize({ width: 390, height: 844 });
const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
check(wide <= 0, `the page is ${wide} px wider than a phone`);
await judged('live-phone');
await page.setViewportSize({ width: 1280, height: 800 });
console.log('  live: a refusal with its line, hostile texts as text');

// How long after its end a call is on the page, while many are made.
await page.evaluate(() => {
  window.late = { all: [], failed: [] };
  const end = (row) => Number(row.dataset.time) + (/ms$/.test(row.cells[3].textContent) ? parseFloat(row.cells[3].textContent) : 0);
  new MutationObserver((changes) => {
    const now = Date.now();
    for (const row of changes.flatMap((change) => [...change.addedNodes])) {
      const outcome = row.cells[2].textContent;
      if (outcome.includes('running')) continue;
      late[outcome.includes('ok') ? 'all' : 'failed'].push(now - end(row));
    }
  }).observe(document.getElementById('calls'), { childList: true });
});
// A tenth are haft's own; the rest are lines as another haft writes them, 5 ms together.
const journal = `${process.env.HOME}/.local/state/haft/journal/journal.jsonl`;
const line = (n) => JSON.stringify({
  v: 1, id: n.toString(16).padStart(12, '0'), time: new Date().toISOString(), outcome: 'ok', merged: true, tool: 'busy',
  arguments: { n, text: 'x'.repeat(100) }, duration_ms: 0.5, program: { name: 'another' }, call: String(n), pid: process.pid, haft: '0',
});
let [written, own, failures] = [0, 0, 0];
const begun = Date.now();
const writer = setInterval(() => {
  const due = Math.floor((Date.now() - begun) * RATE / 1000);
  const lines = [];
  for (; written + own < due; written++) lines.push(`${line(written)}\n`);
  if (lines.length) appendFileSync(journal, lines.join(''));
}, 5);
while (Date.now() - begun < SECONDS * 1000) {
  await client.call('time', {});
  own++;
  await sleep(10);
  if (failures < (Date.now() - begun) / 500) {
    await client.call('read', { file_path: 'no-such-file' });
    failures++;
  }
}
clearInterval(writer);
const seconds = (Date.now() - begun) / 1000;
const sampled = await page.textContent('#sampled');
const status = await page.textContent('#status');
await sleep(500);
const late = await page.evaluate(() => window.late);
check(/^Sampled: about [\d,]+ calls end per second/.test(sampled), `it does not say that it samples: ${sampled}`);
check(late.failed.length === failures, `${late.failed.length} of ${failures} failures were shown`);
for (const [name, values] of Object.entries(late)) {
  console.log(`  ${name === 'all' ? 'calls' : 'failures'}, ms from end to page at ${Math.round((written + own + failures) / seconds)} calls/s: ` +
    `p50 ${percentile(values, 0.5).toFixed(0)}, p99 ${percentile(values, 0.99).toFixed(0)}, most ${Math.max(...values).toFixed(0)} (${values.length} shown; ${status})`);
  // Beyond what any busy machine needs: the figure above is what counts.
  check(percentile(values, 0.5) <= 2000, `${name} appear late`);
}
await judged('live-busy');

// What 100,000 rows leave in the browser.
const session = await context.newCDPSession(page);
const heap = async () => {
  await session.send('HeapProfiler.collectGarbage');
  return (await session.send('Runtime.getHeapUsage')).usedSize;
};
const before = await heap();
await page.evaluate(async () => {
  const live = await import('/live.js');
  for (let n = 0; n < 1000; n++) {
    const rows = Array.from({ length: 100 }, (_, m) => ({ id: `made-${n}-${m}`, time: Date.now(), tool: 'made', outcome: 'ok', ms: 1, caller: 'made', arguments: 'x'.repeat(200) }));
    live.add({ rows, ended: 100, shown: 100 });
    if (n % 20 === 0) await new Promise((done) => setTimeout(done));
  }
});
const grown = await heap() - before;
const rows = await page.evaluate(() => document.querySelectorAll('#calls tr').length);
check(rows <= 300 && grown < 8e6, `100,000 rows: ${rows} on the page, ${grown} bytes more`);
console.log(`  100,000 rows: ${rows} on the page, ${(grown / 1e6).toFixed(1)} MB more in the browser`);

// Tools and sessions.
await view('tools');
await page.waitForFunction(() => document.querySelectorAll('#tool-rows tr').length > 3);
await judged('tools');
await page.click('#tool-rows a[href="#tools/time"]');
await page.waitForSelector('dialog[open] canvas');
await judged('tool');
await page.keyboard.press('Escape');
await page.setViewportSize({ width: 390, height: 844 });
await judged('tools-phone');
await page.setViewportSize({ width: 1280, height: 800 });
const model = spawn(process.execPath, ['-e', MODEL()], { stdio: ['ignore', 'pipe', 'inherit'] });
const port = await new Promise((done) => model.stdout.once('data', (data) => done(String(data).trim())));
const asked = run('run', '--base-url', `http://127.0.0.1:${port}/v1`, '--model', 'fake', 'Count the words of text.');
const { code, said } = await asked;
check(code === 0, `haft run: ${said}`);
model.kill();
await view('sessions');
await page.waitForSelector('#session-rows a');
await judged('sessions');
await page.click('#session-rows a');
await page.waitForSelector('.conversation');
await page.click('.conversation summary');
const said_last = await page.innerHTML('.conversation .model:nth-last-child(2) .markdown');
check(/<strong>three<\/strong>/.test(said_last) && /<table>/.test(said_last) && /&lt;img/.test(said_last) && !/<(a|img)\b/.test(said_last),
  `Markdown is shown as ${said_last}`);
await judged('session');
await view('overview');
await page.waitForSelector('#used-rows a');
await page.waitForSelector('#refusals-rows .hint code');
check((await page.textContent('#callers-rows')).includes('ci 0'), 'the overview does not name the client');
await judged('overview');
await page.setViewportSize({ width: 390, height: 844 });
check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the overview is wider than a phone');
await judged('overview-phone');
await page.setViewportSize({ width: 1280, height: 800 });

const violations = await page.evaluate(() => window.violations);
check(!violations.length, `violations of the policy: ${violations}`);
check(!foreign.length, `requests to others: ${foreign}`);
check(!complaints.length, `the browser complains: ${complaints.join('\n')}`);
console.log('  0 requests to others, 0 violations of the policy, 0 findings of axe-core in both themes');

// What a call costs a client while the page looks on.
await view('live');
const plain = new Client();
await plain.open();
// One call of each in turn: what else this machine does falls on both.
const rounds = { without: [], with: [] };
for (const until = performance.now() + 10000; performance.now() < until;) {
  for (const [name, own] of [['without', plain], ['with', client]]) {
    const sent = performance.now();
    await own.call('time', {});
    rounds[name].push(performance.now() - sent);
  }
}
const [without, beside] = [median(rounds.without), median(rounds.with)];
console.log(`  p50 of a call: ${(without * 1000).toFixed(0)} us without the page, ${(beside * 1000).toFixed(0)} us with it open (${(beside / without).toFixed(3)} times); run, not judged`);

await browser.close();
client.child.stdin.end();
plain.child.stdin.end();
process.exit(0);

// A model of the OpenAI kind that makes one call and then answers.
function MODEL() {
  return `
    const http = require('node:http');
    let turn = 0;
    http.createServer((request, response) => {
      request.resume().on('end', () => {
        const message = turn++ === 0
          ? { role: 'assistant', content: 'Let me count them.', tool_calls: [{ id: 'a', type: 'function', function: { name: 'words__count', arguments: JSON.stringify({ path: 'text' }) } }] }
          : { role: 'assistant', content: ${JSON.stringify('# Words\n\nThe file has **three** words, <img src=x> as [it says](https://example.com/a):\n\n| word | times |\n|---|---|\n| one | 1 |\n\n```\none two three\n```\n')} };
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'fake',
          choices: [{ index: 0, message, finish_reason: message.tool_calls ? 'tool_calls' : 'stop' }],
          usage: { prompt_tokens: 1234, completion_tokens: 56, total_tokens: 1290 } }));
      });
    }).listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;
}
