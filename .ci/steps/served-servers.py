"""What .ci/steps/served-servers shows: `served-servers.py HAFT NODE EVERYTHING`, in an empty home."""

import base64
import contextlib
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading

HAFT, NODE, EVERYTHING = sys.argv[1:]
HOME = pathlib.Path(os.environ["HOME"])
PATIENCE = 120  # seconds for one answer, on a busy machine
RICH = '''"""A server with all that FastMCP has."""
from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Audio, File, Image
from mcp.types import Icon, ToolAnnotations
from pydantic import BaseModel

mcp = FastMCP("rich", instructions="Ask for a town.")
ICON = Icon(src="data:image/png;base64,AAAA", mimeType="image/png", sizes=["48x48"])


class Report(BaseModel):
    town: str
    degrees: float


@mcp.tool(title="Weather of a town", icons=[ICON], annotations=ToolAnnotations(title="W", readOnlyHint=True, openWorldHint=False),
          meta={"example.org/unit": "celsius", "ui": {"resourceUri": "ui://rich/app.html"}, "nested": {"a": [1, 2.5, None]}})
def report(town: str, days: int = 1) -> Report:
    """What the weather is like."""
    return Report(town=town, degrees=21.5)


@mcp.tool
def several() -> list:
    """Several kinds of content."""
    return ["one", "two", Image(data=b"png", format="png"), Audio(data=b"wav", format="wav"), File(data=b"abc", format="txt", name="n")]


@mcp.tool
def wrapped() -> list[str]:
    """Data that is no object."""
    return ["a", "b"]


@mcp.tool
def fails() -> str:
    """Fails."""
    raise ValueError("boom")


@mcp.tool
async def asks(ctx: Context) -> str:
    """Asks the person."""
    return repr(await ctx.elicit("name?", response_type=str))


@mcp.resource("data://one", title="One", icons=[ICON], meta={"example.org/r": 1}, annotations={"priority": 0.7})
def one() -> str:
    """One."""
    return "1"


@mcp.resource("data://bytes", mime_type="application/octet-stream")
def bytes_() -> bytes:
    return b"\\x00\\xff"


@mcp.resource("data://{name}/text")
def named(name: str) -> str:
    return name


@mcp.resource("ui://rich/app.html", mime_type="text/html;profile=mcp-app")
def app() -> str:
    return "<html></html>"


@mcp.prompt(title="Prompt", icons=[ICON], meta={"example.org/p": 1})
def greet(name: str) -> str:
    """Greets."""
    return "Hello " + name


mcp.run(show_banner=False)
'''
# What an answer has of the moment in it.
MOMENT = re.compile(r"\d?\d:\d\d:\d\d [AP]M|\d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.]+Z?|0\.\d{6,}")

problems = []


def problem(text):
    problems.append(text)
    print(f"  FAILED: {text}", flush=True)


class Client:
    """Speaks with a server on standard streams, and keeps every field of what it says."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=HOME)
        self.answers, self.heard, self.asked, self.count = queue.Queue(), [], [], 0
        threading.Thread(target=self.read, daemon=True).start()
        capabilities = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
        known = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}
        self.begun = self.ask("initialize", known)["result"]
        self.send({"method": "notifications/initialized"})

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.answers.put(message)
            elif "id" not in message:
                self.heard.append(message)
            elif message["method"] == "elicitation/create":
                self.asked.append(message["params"])
                content = {name: field.get("default", "Bo") for name, field in message["params"]["requestedSchema"]["properties"].items()}
                self.send({"id": message["id"], "result": {"action": "accept", "content": content}})
            else:
                self.send({"id": message["id"], "result": {"roots": []} if message["method"] == "roots/list" else {}})

    def send(self, message):
        # A server may ask for something after its client has hung up.
        with contextlib.suppress(ValueError, BrokenPipeError):
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()

    def ask(self, method, params=None):
        self.count += 1
        self.send({"id": self.count, "method": method, "params": params or {}})
        answer = self.answers.get(timeout=PATIENCE)
        while answer.get("id") != self.count:
            answer = self.answers.get(timeout=PATIENCE)
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def listed(self, method, key):
        items, cursor = [], None
        while True:
            result = self.ask(method, {"cursor": cursor} if cursor else {}).get("result") or {}
            items += result.get(key, [])
            cursor = result.get("nextCursor")
            if not cursor:
                return items

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            # server-everything goes on without a client.
            self.process.kill()
            self.process.wait()


class Through(Client):
    """The same through haft, where names of the server `server` have it in them, or `alone` as they are."""

    def __init__(self, server, alone):
        self.server, self.alone = server, alone
        super().__init__([HAFT, "-p", str(HOME / "program.toml"), "serve", *(["--server", server] if alone else [])])

    def name(self, own):
        return own if self.alone else f"mcp__{self.server}__{own}"

    def uri(self, own):
        if self.alone:
            return own
        return f"ui://mcp__{self.server}/{own[5:]}" if own.startswith("ui://") else f"haft://mcp__{self.server}/{own}"


class Native(Client):
    def name(self, own):
        return own

    def uri(self, own):
        return own


def own(value, server):
    """What came through haft, by the names of the server."""
    text = json.dumps(value)
    for shown, native in ((f"haft://mcp__{server}/", ""), (f"ui://mcp__{server}/", "ui://"), (f'"name": "mcp__{server}__', '"name": "')):
        text = text.replace(shown, native)
    return json.loads(text)


def read(value):
    """A value as text; of base64 what it says."""
    with contextlib.suppress(ValueError, TypeError):
        return base64.b64decode(value, validate=True).decode()
    return json.dumps(value)


def differences(native, other, place=""):
    """The places at which two values differ."""
    if isinstance(native, dict) and isinstance(other, dict):
        for key in native.keys() | other.keys():
            if key not in native or key not in other:
                yield f"{place}.{key}: {'only through haft' if key in other else 'missing'}"
            else:
                yield from differences(native[key], other[key], f"{place}.{key}")
    elif isinstance(native, list) and isinstance(other, list) and len(native) == len(other):
        for at, (one, two) in enumerate(zip(native, other)):
            yield from differences(one, two, f"{place}[{at}]")
    elif json.dumps(native) != json.dumps(other) and MOMENT.sub("", read(native)) != MOMENT.sub("", read(other)):
        yield f"{place}: {json.dumps(native)[:120]} became {json.dumps(other)[:120]}"


# What is another answer through haft, and why.
OTHERWISE = {
    "rich": {
        "call asks": "haft speaks 2026-07-28 with a server that does, where FastMCP's `elicit` fails for every client",
        "asked": "the same",
    },
}
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}
CALLS = {
    "rich": [("report", {"town": "Kiel"}), ("several", {}), ("wrapped", {}), ("fails", {}), ("asks", {})],
    "everything": [
        ("echo", {"message": "4711"}), ("get-sum", {"a": 1, "b": 2}), ("get-tiny-image", {}),
        ("get-structured-content", {"location": "New York"}), ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}), ("get-resource-links", {"count": 3}),
    ],
}
PROMPTS = {"rich": [("greet", {"name": "Bo"})], "everything": [("simple-prompt", {}), ("args-prompt", {"city": "Kiel", "state": "SH"}),
    ("resource-prompt", {"resourceType": "Text", "resourceId": "1"})]}
READ = {"rich": ["data://one", "data://bytes", "data://x/text", "ui://rich/app.html", "data://none/at/all"],
    "everything": ["demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/1"]}
COMPLETED = {"rich": [], "everything": [("completable-prompt", {"name": "department", "value": "E"})]}


def everything(client, server):
    """All that a server says, each by what it was asked."""
    said = {method: client.listed(method, key) for method, key in LISTS.items()}
    for name, arguments in CALLS[server]:
        said[f"call {name}"] = client.ask("tools/call", {"name": client.name(name), "arguments": arguments, "_meta": {"example.org/x": 1}})
    for name, arguments in PROMPTS[server]:
        said[f"prompt {name}"] = client.ask("prompts/get", {"name": client.name(name), "arguments": arguments})
    for uri in READ[server]:
        said[f"read {uri}"] = client.ask("resources/read", {"uri": client.uri(uri)})
    for name, argument in COMPLETED[server]:
        said[f"complete {name}"] = client.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": client.name(name)}, "argument": argument})
    said["asked"] = client.asked
    client.end()
    return said


def main():
    (HOME / "weather_server.py").write_text(RICH)
    servers = {"rich": [sys.executable, str(HOME / "weather_server.py")], "everything": [NODE, EVERYTHING]}
    config = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
    (HOME / "mcp.json").write_text(json.dumps({"mcpServers": config}))
    (HOME / "program.toml").write_text('[program]\nname = "p"\nversion = "0.1.0"\n[sandbox]\nworkspace = "."\n')
    subprocess.run([HAFT, "import", HOME / "mcp.json", "--yes", "--to", HOME / "program.toml"], check=True, cwd=HOME)
    for server, command in servers.items():
        client = Native(command)
        words, native = client.begun.get("instructions", ""), everything(client, server)
        for alone in (False, True):
            client = Through(server, alone)
            if words and words[:40] not in client.begun.get("instructions", ""):
                problem(f"{server}: its words to models are missing")
            through = everything(client, server)
            if not alone:
                for method in LISTS:
                    theirs = [one for other in servers if other != server for one in through[method] if f"mcp__{other}" in json.dumps(one)]
                    through[method] = [one for one in through[method] if one not in theirs and f"mcp__{server}" in json.dumps(one)]
                through = own(through, server)
                through["asked"] = json.loads(json.dumps(through["asked"]).replace(f"MCP server `{server}` asks: ", ""))
            for what, reason in OTHERWISE.get(server, {}).items():
                if through.pop(what) == native[what]:
                    problem(f"{server}: `{what}` is equal by now: it is no exception any more")
                print(f"  not compared: {server} {what}: {reason}", flush=True)
            compared = {what: said for what, said in native.items() if what not in OTHERWISE.get(server, {})}
            found = [*differences(compared, through)]
            for one in found:
                problem(f"{server}{' alone' if alone else ''}{one}")
            count = sum(len(native[method]) for method in LISTS)
            print(f"{server}{' alone' if alone else ''}: {count} listed, {len(compared)} answers: {'equal' if not found else 'different'}", flush=True)
    print("all is as without haft" if not problems else f"{len(problems)} problems")
    sys.exit(bool(problems))


main()
