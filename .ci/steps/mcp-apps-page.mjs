// The page of the host in .ci/steps/mcp-apps.mjs: the official client and AppBridge. Its messages go to the server by `toServer`.

import { Client } from '@modelcontextprotocol/client';
import {
  AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, buildAllowAttribute, getToolUiResourceUri,
} from '@modelcontextprotocol/ext-apps/app-bridge';

const HOST = { name: 'host', version: '1' };

// The messages between the host and the App.
const said = [];
window.said = said;

// The transport of the client.
const server = {
  start: async () => { window.fromServer = (message) => server.onmessage(message); },
  send: (message) => window.toServer(message),
  close: async () => {},
};

// Opens the App of the tool that its server calls `own`, and gives it a call. Gives what the server said of it.
window.openApp = async (sandbox, own, args) => {
  const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } };
  const client = new Client(HOST, { capabilities: { extensions } });
  await client.connect(server);
  const tools = (await client.request({ method: 'tools/list' })).tools;
  const resources = (await client.request({ method: 'resources/list' })).resources;
  const tool = tools.find(({ name }) => name === own || name.endsWith(`__${own}`));
  if (!tool) throw new Error(`there is no tool ${own}, but ${tools.map(({ name }) => name)}`);
  const uri = getToolUiResourceUri(tool);
  if (!uri) throw new Error(`the tool ${own} has no user interface: ${JSON.stringify(tool._meta)}`);
  const read = await client.request({ method: 'resources/read', params: { uri } });
  const [content] = read.contents;
  if (content.mimeType !== RESOURCE_MIME_TYPE) throw new Error(`a resource of the type ${content.mimeType}`);
  const listed = resources.find((resource) => resource.uri === uri);
  const { csp, permissions } = content._meta?.ui ?? listed?._meta?.ui ?? {};

  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.sandbox = 'allow-scripts allow-same-origin allow-forms';
  frame.allow = buildAllowAttribute(permissions);
  frame.src = `${sandbox}/?csp=${encodeURIComponent(JSON.stringify(csp ?? {}))}`;
  await new Promise((done) => addEventListener('message', ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data.method === 'ui/notifications/sandbox-proxy-ready') done();
    else said.push({ by: 'app', ...data });
  }));

  const { tools: serverTools, resources: serverResources } = client.getServerCapabilities();
  const bridge = new AppBridge(client, HOST, { serverTools, serverResources }, { hostContext: { toolInfo: { tool }, theme: 'light' } });
  const begun = new Promise((done) => bridge.addEventListener('initialized', done));
  const transport = new PostMessageTransport(frame.contentWindow, frame.contentWindow);
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => { said.push({ by: 'host', ...message }); return send(message, ...rest); };
  await bridge.connect(transport);
  await bridge.sendSandboxResourceReady({ html: content.text, csp, permissions });
  await begun;
  await bridge.sendToolInput({ arguments: args });
  const result = await client.request({ method: 'tools/call', params: { name: tool.name, arguments: args } });
  await bridge.sendToolResult(result);
  return { tools, resources, read, result };
};
