// A registry of npm for one release, in memory: what npm publishes to it, and asks and installs of it.
'use strict';

const { createServer } = require('node:http');

const packages = {};
const files = {};

function publish(said) {
  const known = (packages[said.name] ??= { name: said.name, 'dist-tags': {}, versions: {} });
  for (const [version, manifest] of Object.entries(said.versions)) {
    if (known.versions[version]) return 403;
    known.versions[version] = manifest;
  }
  Object.assign(known['dist-tags'], said['dist-tags']);
  for (const [name, file] of Object.entries(said._attachments)) files[name] = Buffer.from(file.data, 'base64');
  return 201;
}

const server = createServer(async (request, response) => {
  const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname.slice(1));
  const [scope, last] = name.split('/-/');
  if (request.method === 'PUT') {
    const parts = [];
    for await (const part of request) parts.push(part);
    response.writeHead(publish(JSON.parse(Buffer.concat(parts)))).end('{}');
  } else if (last !== undefined) {
    // The name of a file in a scope has the scope in it.
    response.end(files[last] ?? files[`${scope.split('/')[0]}/${last}`]);
  } else {
    response.writeHead(packages[name] ? 200 : 404).end(JSON.stringify(packages[name] ?? {}));
  }
});
server.listen(0, '127.0.0.1', () => console.log(`listening on 127.0.0.1:${server.address().port}`));
