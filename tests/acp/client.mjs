// The client library of the protocol's makers drives `haft acp` through a whole task: LIBRARY COMMAND CWD. Every message
// of haft's goes through the library's own checks. It allows the first call, stops the second while it runs, asks for
// another turn, and loads the session again; what came is printed as a line of JSON. It gives up after a minute.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [library, command, cwd] = process.argv.slice(2);
const acp = await import(pathToFileURL(library).href);
const haft = spawn(command, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
setTimeout(() => {
  console.error("the task has not ended within a minute");
  haft.kill("SIGKILL");
  process.exit(1);
}, 60_000).unref();
const stream = acp.ndJsonStream(Writable.toWeb(haft.stdin), Readable.toWeb(haft.stdout));

const updates = [];
const asked = [];
let stop = () => {};
const app = acp
  .client({ name: "a client" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    const allow = params.options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: allow.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    updates.push(params.update);
    if (JSON.stringify(params.update.content ?? "").includes("begun")) stop();
  });

const text = (words) => [{ type: "text", text: words }];
const report = await app.connectWith(stream, async (agent) => {
  const methods = acp.methods.agent;
  const initialized = await agent.request(methods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  const { sessionId } = await agent.request(methods.session.new, { cwd, mcpServers: [] });
  const whole = await agent.request(methods.session.prompt, { sessionId, prompt: text("write it") });
  stop = () => {
    stop = () => {};
    void agent.notify(methods.session.cancel, { sessionId });
  };
  const stopped = await agent.request(methods.session.prompt, { sessionId, prompt: text("wait") });
  const live = updates.splice(0);
  await agent.request(methods.session.load, { sessionId, cwd, mcpServers: [] });
  const { sessions } = await agent.request(methods.session.list, { cwd });
  return {
    version: initialized.protocolVersion,
    stops: [whole.stopReason, stopped.stopReason],
    asked,
    kinds: [...new Set(live.map((update) => update.sessionUpdate))].sort(),
    said: live.filter((update) => update.sessionUpdate === "agent_message_chunk").map((update) => update.content.text).join(""),
    replayed: updates.filter((update) => update.sessionUpdate === "user_message_chunk").map((update) => update.content.text),
    listed: sessions.map((session) => session.sessionId === sessionId),
  };
});
haft.stdin.end();
report.code = await new Promise((resolve) => (haft.exitCode === null ? haft.on("exit", resolve) : resolve(haft.exitCode)));
console.log(JSON.stringify(report));
