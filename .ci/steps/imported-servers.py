"""What .ci/steps/imported-servers shows: `imported-servers.py HAFT`, in the home of a person. The client is the official SDK."""

import asyncio
import contextlib
import http.server
import json
import os
import pathlib
import pty
import re
import sqlite3
import subprocess
import sys
import threading
import time

from mcp import ClientSession, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client

HAFT = sys.argv[1]
HOME = pathlib.Path(os.environ["HOME"])
PROJECT, NOTES, SERVERS = HOME / "project", HOME / "notes", HOME / "servers"
CONFIG = PROJECT / ".mcp.json"
WARM = 60  # seconds for import and the first list of all of them, with warm caches
PATIENCE = 600  # seconds for one server, on a busy machine, that is fetched

# The client's configuration, each with the call that shows that the server works and what its answer holds.
NPX, SCOPE = "npx", "@modelcontextprotocol/server-"
CONFIGURED = {
    "filesystem": [NPX, "-y", SCOPE + "filesystem@2026.8.31", str(NOTES)],
    "memory": [NPX, "-y", SCOPE + "memory@2026.8.31"],
    "everything": [NPX, "-y", SCOPE + "everything@2026.8.31"],
    "sequential-thinking": [NPX, "-y", SCOPE + "sequential-thinking@2026.8.31"],
    "playwright": [NPX, "-y", "@playwright/mcp@0.0.83"],
    "desktop-commander": [NPX, "-y", "@wonderwhy-er/desktop-commander@0.2.52"],
    "budget-allocator": [NPX, "-y", SCOPE + "budget-allocator@2.0.3", "--stdio"],
    "git": ["uvx", "mcp-server-git@2026.10.19", "--repository", str(PROJECT)],
    "time": ["uvx", "mcp-server-time@2026.10.19", "--local-timezone", "UTC"],
    "fetch": ["uvx", "mcp-server-fetch@2026.10.24", "--ignore-robots-txt", "--allow-private-ips"],
    "sqlite": ["uvx", "--with", "mcp<2", "mcp-server-sqlite@2025.4.25", "--db-path", str(SERVERS / "shop.db")],
    "weather": ["uv", "run", "--with", "fastmcp==4.2.3", "fastmcp", "run", str(SERVERS / "weather.py")],
}
THOUGHT = {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
CALLS = {
    "filesystem": ("read_text_file", {"path": str(NOTES / "list.txt")}, "buy tea"),
    "memory": ("create_entities", {"entities": [{"name": "tea", "entityType": "ware", "observations": ["green"]}]}, "green"),
    "everything": ("echo", {"message": "4711"}, "4711"),
    "sequential-thinking": ("sequentialthinking", THOUGHT, "thoughtHistoryLength"),
    "desktop-commander": ("start_process", {"command": "echo 47$((10 + 1))", "timeout_ms": 20000}, "4711"),
    "budget-allocator": ("get-budget-data", {}, "categories"),
    "git": ("git_log", {"repo_path": str(PROJECT)}, "first commit"),
    "time": ("get_current_time", {"timezone": "UTC"}, "UTC"),
    "sqlite": ("read_query", {"query": "SELECT name FROM wares"}, "tea"),
    "weather": ("report", {"town": "Kiel"}, "21.5"),
}
# What each asks for but the network for its fetch. A server that goes on without the network is not given it.
PROPOSED = {
    "filesystem": {f"read={NOTES}"},
    "git": {f"read={PROJECT}"},
    "sqlite": {f"write={SERVERS}"},
    "weather": {f"read={SERVERS}"},
}
# Its descriptions name the folders of the machine that it sees, which are others in the sandbox.
DESCRIBING = {"desktop-commander"}
WEATHER = '''"""A server with all that FastMCP says of a tool."""
from fastmcp import FastMCP
from mcp.types import Icon, ToolAnnotations
from pydantic import BaseModel

mcp = FastMCP("weather", instructions="Ask for a town.")
icon = Icon(src="data:image/png;base64,AAAA", mimeType="image/png", sizes=["48x48"])


class Report(BaseModel):
    town: str
    degrees: float


@mcp.tool(title="Weather of a town", icons=[icon], annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False),
          meta={"example.org/unit": "celsius", "nested": {"a": [1, 2.5, None]}})
def report(town: str, days: int = 1) -> Report:
    """What the weather is like."""
    return Report(town=town, degrees=21.5)
'''

problems = []


def problem(text):
    problems.append(text)
    print(f"  FAILED: {text}", flush=True)


def furnish():
    """The files of the person, and the client's configuration."""
    for folder in (PROJECT, NOTES, SERVERS):
        folder.mkdir(parents=True)
    (NOTES / "list.txt").write_text("buy tea\n")
    (SERVERS / "weather.py").write_text(WEATHER)
    with contextlib.closing(sqlite3.connect(SERVERS / "shop.db")) as shop:
        shop.executescript("CREATE TABLE wares (name TEXT); INSERT INTO wares VALUES ('tea');")
    author = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "init", "--quiet", PROJECT], check=True)
    subprocess.run(["git", "-C", PROJECT, *author, "commit", "--quiet", "--allow-empty", "-m", "first commit"], check=True)
    servers = {name: {"command": words[0], "args": words[1:]} for name, words in CONFIGURED.items()}
    CONFIG.write_text(json.dumps({"mcpServers": servers}, indent=2) + "\n")


class Tap:
    """The stream from a server, which keeps what each answer says before the SDK reads it."""

    def __init__(self, stream):
        self.stream, self.results = stream, []

    def keep(self, item):
        result = getattr(getattr(item, "message", None), "result", None)
        if result is not None:
            self.results.append(result)
        return item

    async def receive(self):
        return self.keep(await self.stream.receive())

    def __aiter__(self):
        return self

    async def __anext__(self):
        return self.keep(await self.stream.__anext__())

    async def __aenter__(self):
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *why):
        return await self.stream.__aexit__(*why)

    def __getattr__(self, name):
        return getattr(self.stream, name)


class Person:
    """Answers haft's questions as somebody does who gives what a server needs, and no network to one that starts without."""

    def __init__(self):
        self.asked = []

    async def __call__(self, _context, parameters):
        text = parameters.message
        self.asked += [line.strip() for line in text.splitlines() if line.startswith("  ")]
        approves = "\n  network\n" not in text
        return types.ElicitResult(action="accept", content={"approve": approves})


@contextlib.asynccontextmanager
async def session(entry, log, person=None):
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=dict(os.environ), cwd=str(PROJECT))
    async with asyncio.timeout(PATIENCE), stdio_client(server, errlog=log) as (read, write):
        tap = Tap(read)
        async with ClientSession(tap, write, elicitation_callback=person) as client:
            await client.initialize()
            yield client, tap


async def everything_listed(entry, log, person=None):
    """What a server says of itself, as it is on the wire."""
    async with session(entry, log, person) as (client, tap):
        begun = tap.results[-1]
        lists = {"initialize": begun}
        wanted = {"tools": [client.list_tools], "prompts": [client.list_prompts],
            "resources": [client.list_resources, client.list_resource_templates]}
        for kind, asks in wanted.items():
            for ask in asks if kind in (begun.get("capabilities") or {}) or kind == "tools" else []:
                count = len(tap.results)
                with contextlib.suppress(MCPError):  # announced, and not there
                    await ask()
                lists[ask.__name__] = tap.results[count] if len(tap.results) > count else None
        return lists


async def each(entries, what):
    """Does `what` with all of them at once, as clients do. Gives what came of each, and how long all took."""
    begun = time.monotonic()
    done = await asyncio.gather(*(what(name, entry) for name, entry in entries.items()), return_exceptions=True)
    for name, one in zip(entries, done):
        if isinstance(one, BaseException):
            problem(f"{name}: {one!r}{getattr(one, 'exceptions', '')}")
    return {name: one for name, one in zip(entries, done) if not isinstance(one, BaseException)}, time.monotonic() - begun


def entries():
    return json.loads(CONFIG.read_text())["mcpServers"]


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
    elif native != other:
        one, two = json.dumps(native), json.dumps(other)
        same = len(os.path.commonprefix([one, two]))
        yield f"{place}: {one[same:][:100]} became {two[same:][:100]}"


def imported():
    subprocess.run([HAFT, "import", CONFIG, "--yes"], check=True, cwd=PROJECT, stderr=subprocess.DEVNULL)
    now = entries()
    if list(now) != list(CONFIGURED) or any(entry["args"][:2] != ["wrap", name] for name, entry in now.items()):
        problem(f"import wrote {now}")
    return now


def records():
    """What was agreed to, by the server's name."""
    found = {}
    for path in (HOME / ".config/haft/wrap").glob("*.toml"):
        text = path.read_text()
        name = re.search(r'^name = "(.*)"$', text, re.MULTILINE)[1]
        lists = re.findall(r"^(read|write|hosts|env|credentials) = (.*)$", text.partition("[grant]")[2], re.MULTILINE)
        found[name] = {f"{key}={value}" for key, values in lists for value in json.loads(values)}
    return found


def descendants(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield child
            yield from descendants(child)


def open_networks():
    """The processes below this one but haft's own that are in the network of this one."""
    own = os.readlink("/proc/self/ns/net")
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(HAFT) and os.readlink(f"/proc/{pid}/ns/net") == own:
                yield os.readlink(f"/proc/{pid}/exe")


async def called(name, entry, log):
    tool, arguments, holds = CALLS[name]
    async with session(entry, log) as (client, tap):
        count = len(tap.results)
        answer = await client.call_tool(tool, arguments)
        text = json.dumps(tap.results[count])
        if answer.is_error or holds not in text:
            problem(f"{name}: `{tool}` answered {text[:300]}")
        outside = [*open_networks()]
        if outside:
            problem(f"{name}: in the network of this machine: {outside}")


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><p>granted 4711</p></body></html>")

    def log_message(self, *_):
        pass


def at_a_terminal(words):
    """A person runs a command, and says yes."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        os.execv(words[0], words)
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            said += chunk
            if said.endswith(b"[y/N] "):
                os.write(terminal, b"y\r")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return code, said.decode(errors="replace")


async def fetches(entry, log):
    """The one that needs the network: refused, told of, given at a terminal."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments = {"url": f"http://127.0.0.1:{server.server_port}/"}

    async def fetch():
        async with session(entry, log) as (client, tap):
            count = len(tap.results)
            await client.call_tool("fetch", arguments)
            return json.dumps(tap.results[count])

    without = await fetch()
    log.flush()
    # A port of this machine is a right of its own. The server also runs `npm install` in its first call.
    line = f"haft wrap --grant service={server.server_port} fetch"
    if "granted 4711" in without or line not in pathlib.Path(log.name).read_text():
        problem(f"fetch: without the network it answered {without[:200]}")
    code, said = await asyncio.to_thread(at_a_terminal, [HAFT, "wrap", "--grant", "network", "fetch"])
    with_network = await fetch()
    if code != 0 or "granted 4711" not in with_network:
        problem(f"fetch: with the network, {code}, {said!r}, {with_network[:200]}")
    server.shutdown()


async def main():
    furnish()
    logs = SERVERS / "logs"
    logs.mkdir()
    log = {name: open(logs / name, "a", encoding="utf-8") for name in CONFIGURED}
    native_entries, before = entries(), CONFIG.read_bytes()
    # With the same capabilities: servers list others for clients that ask their person.
    await each(native_entries, lambda name, entry: everything_listed(entry, log[name], Person()))
    native, seconds = await each(native_entries, lambda name, entry: everything_listed(entry, log[name], Person()))
    print(f"native, all at once, warm: {seconds:.1f} s", flush=True)

    persons = {name: Person() for name in CONFIGURED}
    wrapped = imported()
    listed, seconds = await each(wrapped, lambda name, entry: everything_listed(entry, log[name], persons[name]))
    print(f"behind haft wrap, asked and fetched for the first time: {seconds:.1f} s", flush=True)
    given = records()
    for name in CONFIGURED:
        if not given.get(name, {"nothing noted"}) <= PROPOSED.get(name, set()):
            problem(f"{name}: was given {given.get(name)}, asked {persons[name].asked}")
    subprocess.run([HAFT, "import", "--undo", CONFIG], check=True, cwd=PROJECT, stderr=subprocess.DEVNULL)
    if CONFIG.read_bytes() != before:
        problem("--undo left another file")

    begun = time.monotonic()
    wrapped = imported()
    listed, _ = await each(wrapped, lambda name, entry: everything_listed(entry, log[name], persons[name]))
    seconds = time.monotonic() - begun
    print(f"import and list of all, warm: {seconds:.1f} s", flush=True)
    if seconds > WARM:
        problem(f"import and list took {seconds:.1f} s, more than {WARM}")

    await each({name: wrapped[name] for name in CALLS}, lambda name, entry: called(name, entry, log[name]))
    await fetches(wrapped["fetch"], log["fetch"])
    for name in CONFIGURED:
        found = [*differences(native.get(name), listed.get(name))]
        if name in DESCRIBING:
            found = [one for one in found if not re.search(r"\.description: ", one)]
        for one in found:
            problem(f"{name}{one}")
        asked = ", ".join(persons[name].asked) or "nothing"
        tools = len(native[name]["list_tools"]["tools"]) if name in native else 0
        print(f"  {name}: {tools} tools, {'equal' if not found else 'different'}; asked for {asked}", flush=True)
    print("all twelve are as without haft, and work" if not problems else f"{len(problems)} problems")
    sys.exit(bool(problems))


asyncio.run(main())
