// Two MCP servers that want logins, and oidc-provider as the authorization server of both. A person agrees to everything.
// Prints its addresses as JSON; `GET /end` at the provider ends every login.

import http from 'node:http';
import Provider from 'oidc-provider';

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`)));
const document = 'https://haft.example/client.json';
const redirect_uris = ['http://127.0.0.1/callback'];
const client = {
  client_name: 'haft', redirect_uris, application_type: 'native', token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
};

const authorization = http.createServer();
const issuer = await listen(authorization);
const resources = new Set();
const grants = [];
const provider = new Provider(issuer, {
  clients: [{ client_id: 'by-hand', ...client }],
  scopes: ['openid', 'offline_access'],
  cookies: { keys: ['test'] },
  findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  fetch: async (url, options) => (String(url) === document
    ? new Response(JSON.stringify({ client_id: document, ...client }), { headers: { 'content-type': 'application/json' } })
    : fetch(url, options)),
  features: {
    devInteractions: { enabled: false },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => {
        if (!resources.has(resource)) throw new Error(`asked for ${resource}`);
        return { scope: 'read write', audience: resource, accessTokenFormat: 'opaque', accessTokenTTL: 40 };
      },
    },
  },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  pkce: { required: () => true },
  rotateRefreshToken: true,
});
const own = provider.callback();
authorization.on('request', async (request, response) => {
  if (request.url === '/end') {
    for (const grant of grants) await provider.Grant.find(grant).then((found) => found?.destroy());
    response.end('ended');
  } else if (request.url.startsWith('/interaction/')) {
    const { params } = await provider.interactionDetails(request, response);
    const grant = new provider.Grant({ accountId: 'ada', clientId: params.client_id });
    grant.addOIDCScope('openid offline_access');
    grant.addResourceScope(params.resource, 'read write');
    grants.push(await grant.save());
    const result = { login: { accountId: 'ada' }, consent: { grantId: grants.at(-1) } };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  } else {
    own(request, response);
  }
});

// An MCP server whose tools are called as the scopes that they need; `wrong` says that it is another resource.
async function mcp(wrong) {
  const server = http.createServer();
  const url = `${await listen(server)}/mcp`;
  const resource = wrong ?? url;
  resources.add(resource);
  const challenge = (response, status, more) => {
    const metadata = url.replace('/mcp', '/.well-known/oauth-protected-resource/mcp');
    response.writeHead(status, { 'www-authenticate': `Bearer resource_metadata="${metadata}", ${more}` }).end();
  };
  server.on('request', async (request, response) => {
    const json = (value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (request.url.startsWith('/.well-known/oauth-protected-resource')) {
      return json({ resource, authorization_servers: [issuer], scopes_supported: ['read'] });
    }
    const bearer = request.headers.authorization?.replace('Bearer ', '');
    const token = bearer && await provider.AccessToken.find(bearer);
    const grant = token && await provider.Grant.find(token.grantId);
    if (!grant || token.aud !== resource) return challenge(response, 401, 'error="invalid_token"');
    let body = '';
    for await (const piece of request) body += piece;
    if (request.method !== 'POST') return response.writeHead(405).end();
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const answer = (result) => json({ jsonrpc: '2.0', id, result });
    if (method === 'initialize') {
      return answer({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'guarded', version: '1' } });
    }
    if (method === 'tools/list') {
      return answer({ tools: ['read', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })) });
    }
    if (method === 'tools/call') {
      if (!token.scopes.has(params.name)) {
        return challenge(response, 403, `error="insufficient_scope", scope="${params.name}"`);
      }
      return answer({ content: [{ type: 'text', text: `done: ${params.name}` }] });
    }
    return json({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } });
  });
  return url;
}

const one = await mcp();
const two = await mcp();
const wrong = await mcp(one);
console.log(JSON.stringify({ issuer, document, one, two, wrong }));
