// A server with the official TypeScript SDK, as it would be written for a worker: a new server for every request.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { z } from "zod";
import { getEnvironment } from "wasi:cli/environment@0.2.10";

function made() {
  const server = new McpServer({ name: "tables", version: "1.0.0" });
  server.registerTool("add", {
    title: "Add", description: "Adds two numbers.",
    inputSchema: { a: z.number(), b: z.number() },
    outputSchema: { sum: z.number() },
    annotations: { readOnlyHint: true },
  }, async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }], structuredContent: { sum: a + b } }));
  server.registerTool("count", { description: "Counts, and tells how far it is.", inputSchema: { to: z.number() } },
    async ({ to }, extra) => {
      const progressToken = extra._meta?.progressToken;
      for (let i = 1; i <= to; i++) {
        await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress: i, total: to, message: `step ${i}` } });
        await new Promise((done) => setTimeout(done, 5));
      }
      return { content: [{ type: "text", text: `counted to ${to}` }] };
    });
  server.registerTool("env", { description: "One variable.", inputSchema: { name: z.string() } },
    async ({ name }) => ({ content: [{ type: "text", text: Object.fromEntries(getEnvironment())[name] ?? "unset" }] }));
  server.registerTool("get", { description: "Gets a URL.", inputSchema: { url: z.string() } },
    async ({ url }) => ({ content: [{ type: "text", text: await (await fetch(url)).text() }] }));
  server.registerTool("fail", { description: "Fails.", inputSchema: {} }, async () => { throw new Error("it broke"); });
  return server;
}

async function answer(request) {
  if (new URL(request.url).pathname !== "/mcp") return new Response("no", { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: ANSWERS_AS_JSON });
  await made().connect(transport);
  return transport.handleRequest(request);
}
addEventListener("fetch", (event) => event.respondWith(answer(event.request)));
