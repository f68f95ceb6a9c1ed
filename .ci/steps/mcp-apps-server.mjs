// `mcp-apps-server.mjs ORIGIN NAME`: an MCP server with an App that has what the examples do not: every field of `_meta.ui`, and an App that
// calls another tool and reads resources by the names that its server gives them. It may connect to ORIGIN, and tries another address too.
// NAME is in all names. The server `gated` has its App for clients that support Apps, and `unlisted` lists no resource, as servers may.

import { readFileSync } from 'node:fs';
import { RESOURCE_MIME_TYPE, getUiCapability, registerAppResource, registerAppTool } from '@modelcontextprotocol/ext-apps/server';
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const [origin, name] = process.argv.slice(2);
const uri = `ui://${name}/app.html`;
const order = `${name}://7`;
const ui = {
  csp: {
    connectDomains: [origin], resourceDomains: ['https://cdn.example'], frameDomains: ['https://frame.example'],
    baseUriDomains: ['https://base.example'],
  },
  permissions: { clipboardWrite: {} }, prefersBorder: true, domain: 'orders.example',
};

// What runs in the App.
function app(App, origin, name) {
  const show = (what, text) => { document.body.append(Object.assign(document.createElement('p'), { textContent: `${what}: ${text}` })); };
  const tried = (what, promise) => promise.then((text) => show(what, text), (error) => show(what, `FAILED ${error.message}`));
  const view = new App({ name, version: '1' });
  const read = (uri) => view.readServerResource({ uri }).then(({ contents: [content] }) => content);
  view.addEventListener('toolinput', ({ arguments: given }) => show('input', JSON.stringify(given)));
  view.addEventListener('toolresult', async ({ structuredContent }) => {
    show('result', JSON.stringify(structuredContent));
    await tried('another tool', view.callServerTool({ name: `cancel-${name}`, arguments: { id: 7 } }).then(({ content }) => content[0].text));
    // Beside other servers it is not known whose an unlisted resource is.
    if (name !== 'unlisted') await tried('resource', read(`${name}://7`).then(({ text }) => text));
    await tried('interface', read(`ui://${name}/app.html`).then(({ mimeType }) => mimeType));
    await tried('its address', fetch(origin).then((answer) => answer.text()));
    await tried('other address', fetch('https://other.example').then(() => 'reached'));
    show('end', 'of the App');
  });
  view.connect();
}

// The library is a module with `export{a as B,…}` at its end; here it is a part of the page.
const library = readFileSync(new URL(import.meta.resolve('@modelcontextprotocol/ext-apps/app-with-deps')), 'utf8');
const [, exported] = library.match(/export\s*\{[^}]*?([\w$]+) as App[,}]/);
const script = `${library}\n(${app})(${exported}, ${JSON.stringify(origin)}, ${JSON.stringify(name)});`;
const html = `<!doctype html><body><script type="module">${script.replaceAll('</script', '<\\/script')}</script>`;

const server = new McpServer({ name, version: '1' });
function offer() {
  const inputSchema = z.object({ customer: z.string() });
  const outputSchema = z.object({ orders: z.array(z.number()) });
  const _meta = { ui: { resourceUri: uri, visibility: ['model', 'app'] } };
  registerAppTool(server, `show-${name}`, { inputSchema, outputSchema, _meta }, ({ customer }) => ({
    content: [{ type: 'text', text: `orders of ${customer}` }], structuredContent: { orders: [7, 8] }, _meta: { 'example.org/x': 1 },
  }));
  registerAppTool(server, `cancel-${name}`, { inputSchema: z.object({ id: z.number() }), _meta: { ui: { visibility: ['app'] } } },
    ({ id }) => ({ content: [{ type: 'text', text: `cancelled ${id}` }] }));
  const contents = [{ uri, mimeType: RESOURCE_MIME_TYPE, text: html, _meta: { ui } }];
  registerAppResource(server, 'app', uri, { _meta: { ui } }, () => ({ contents }));
}
server.registerTool(`list-${name}`, {}, () => ({ content: [{ type: 'text', text: '7, 8' }] }));
server.registerResource('order', order, {}, () => ({ contents: [{ uri: order, text: 'order 7' }] }));
if (name === 'unlisted') server.server.setRequestHandler('resources/list', () => ({ resources: [] }));
if (name !== 'gated') offer();
server.server.oninitialized = () => {
  const isShown = getUiCapability(server.server.getClientCapabilities())?.mimeTypes?.includes(RESOURCE_MIME_TYPE);
  if (name === 'gated' && isShown) offer();
};
await server.connect(new StdioServerTransport());
