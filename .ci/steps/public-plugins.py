"""What .ci/steps/public-plugins shows: `public-plugins.py HAFT PROBE CLAUDE FOLDER`."""

import collections
import contextlib
import json
import os
import pathlib
import queue
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HAFT, PROBE, CLAUDE, FOLDER = sys.argv[1:]
SERVER = (pathlib.Path(__file__).parents[2] / "tests/packages/plugins/server.py").read_text()
PATIENCE = 300  # seconds for one command: a server of npm or PyPI is fetched meanwhile
LEAST = 30  # plugins
PLANTED = 12  # of each form
SAME = 0.95  # of the plugins
RUNNERS = {"npx", "uvx", "bunx"}

ROOT = pathlib.Path(tempfile.mkdtemp(prefix="haft-plugins-"))
HOME = ROOT / "home"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": str(HOME), "LANG": "C.UTF-8", "HAFT_TRUST": "1", "TOKEN": "planted"}
CLAUDE_ENVIRONMENT = ENVIRONMENT | {
    "HOME": str(ROOT / "claude"), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ANTHROPIC_API_KEY": "none"}

Plugin = collections.namedtuple("Plugin", "name form folder")
Parts = collections.namedtuple("Parts", "skills servers")


def run(words, folder, environment=ENVIRONMENT, **more):
    return subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, check=False, **more)


def plugins():
    """The plugins of all repositories, but those that their own tests have."""
    for manifest in sorted(pathlib.Path(FOLDER).resolve().rglob("plugin.json")):
        inside = manifest.relative_to(FOLDER).parts
        if "tests" in inside or "bridges" in inside:
            continue
        if manifest.parent.name == ".claude-plugin":
            folder = manifest.parents[1]
            if not (folder / "plugin.json").exists():
                yield Plugin(folder.name, "Claude", folder)
        elif "agent-plugins.org" in manifest.read_text(errors="replace"):
            yield Plugin(manifest.parent.name, "Agent Plugin", manifest.parent)


def reference(plugin):
    """What the reference loader makes of it; `None` where it rejects the plugin."""
    if plugin.form == "Agent Plugin":
        words = run([PROBE, str(plugin.folder)], ROOT).stdout.rstrip("\n").split("\t")
        return Parts(*(set(filter(None, text.split(","))) for text in words[1:])) if words[0] == "loaded" else None
    name = json.loads((plugin.folder / ".claude-plugin/plugin.json").read_text())["name"]
    said = run([CLAUDE, "--plugin-dir", str(plugin.folder), "plugin", "details", name], ROOT, CLAUDE_ENVIRONMENT).stdout
    found = {what: names for what, _, names in re.findall(r"^  (Skills|MCP servers) \((\d+)\)(?:  ([^(\n]*))?", said, re.M)}
    if not found:
        return None
    sets = {what: set(filter(None, re.split(r",\s*", names.strip()))) for what, names in found.items()}
    # It counts commands as skills.
    commands = {path.stem for path in (plugin.folder / "commands").rglob("*.md")}
    return Parts({name for name in sets["Skills"] if name.split(":")[-1] not in commands}, sets["MCP servers"])


def program():
    return pathlib.Path(tempfile.mkdtemp(dir=ROOT))


def installed(plugin, *grants):
    """A new program with the plugin, and what haft makes of it; `None` and why where it rejects the plugin."""
    place = program()
    added = run([HAFT, "add", str(plugin.folder), "--yes", *grants], place)
    if added.returncode:
        return place, None, added.stderr
    row = json.loads(run([HAFT, "--json", "list"], place).stdout)[0]
    notes = [line.strip() for line in added.stderr.splitlines() if re.search(r"left out|not run|ignored", line)]
    return place, Parts(set(row["skills"]), set(row["servers"])), "; ".join(notes)


def entries(folder):
    """The servers of a plugin, as its files say."""
    for name in ["mcp.json", ".mcp.json"]:
        if (folder / name).exists():
            document = json.loads((folder / name).read_text())
            return document.get("mcpServers", document)
    return {}


class Serving:
    """`haft serve` in a program, which starts its servers."""

    def __init__(self, place):
        self.process = subprocess.Popen([HAFT, "serve"], cwd=place, env=ENVIRONMENT, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True).start()

    def ask(self, number, method, params):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        until = time.monotonic() + PATIENCE
        while (left := until - time.monotonic()) > 0:
            answer = json.loads(self.lines.get(timeout=left))
            if answer.get("id") == number and "method" not in answer:
                return answer["result"]
        raise TimeoutError(method)

    def tools(self):
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        self.ask(1, "initialize", client)
        names = [tool["name"] for tool in self.ask(2, "tools/list", {})["tools"]]
        return {match[1] for match in map(re.compile(r"mcp__(.+?)__").match, names) if match}

    def close(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()


def below(pid):
    """The processes that `pid` started, and those that they did."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield int(child)
            yield from below(child)


def is_confined(pid, has_network):
    """Whether the kernel holds a process: no new privileges, filtered calls, own mounts, and no network of ours."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    own = {what: os.readlink(f"/proc/{pid}/ns/{what}") != os.readlink(f"/proc/self/ns/{what}") for what in ["mnt", "net"]}
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    return (bool(re.search(r"^NoNewPrivs:\s1$", status, re.M)) and bool(re.search(r"^Seccomp:\s2$", status, re.M))
            and own["mnt"] and own["net"] != has_network and b"TOKEN=" not in environment)


def started(plugin):
    """For each server of a program whether it ran and was confined; why not, where it did not run."""
    outcome = {}
    for name, entry in entries(plugin.folder).items():
        command = entry.get("command")
        if command is None:
            outcome[name] = "elsewhere: no process"
        elif shutil.which(command, path=ENVIRONMENT["PATH"]) is None and "/" not in command and "$" not in command:
            outcome[name] = f"no `{command}` here"
    if set(outcome) == set(entries(plugin.folder)):
        return outcome
    place, _, why = installed(plugin, "--grant", "host=*")
    serving = Serving(place)
    try:
        answering = serving.tools()
        for name in entries(plugin.folder):
            outcome.setdefault(name, "runs" if name in answering else "does not answer")
        processes = [pid for pid in below(serving.process.pid) if "haft" not in os.readlink(f"/proc/{pid}/exe")]
        confined = [is_confined(pid, True) for pid in processes]
        for name in outcome:
            if outcome[name] == "runs":
                outcome[name] = "runs, confined" if confined and all(confined) else "runs, NOT CONFINED"
    except (TimeoutError, queue.Empty):
        for name in entries(plugin.folder):
            outcome.setdefault(name, f"does not answer {why}")
    finally:
        serving.close()
    return outcome


def planted(plugin):
    """A copy of the plugin with a server and a script that try things: what they got, and the seconds to the first call."""
    copy = pathlib.Path(tempfile.mkdtemp(dir=ROOT)) / plugin.name
    shutil.copytree(plugin.folder, copy, symlinks=True)
    (copy / "planted.py").write_text(SERVER)
    place = ".mcp.json" if plugin.form == "Claude" else "mcp.json"
    document = {"mcpServers": {}, "$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"}
    if plugin.form == "Claude":
        del document["$schema"]
    document["mcpServers"]["planted"] = {
        "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/planted.py" if plugin.form == "Claude" else "${PLUGIN_ROOT}/planted.py"]}
    if plugin.form == "Agent Plugin":
        document["mcpServers"]["planted"]["type"] = "stdio"
    (copy / place).write_text(json.dumps(document))
    skill = copy / "skills/planted"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: planted\ndescription: Planted.\n---\nRun it.\n")
    tries = SERVER.split("for line in sys.stdin")[0]
    (skill / "scripts/try.py").write_text(f"{tries}\nprint(attempt(json.loads(sys.argv[1])))\n")

    work = program()
    (work / "notes.txt").write_text("mine")
    listener = socket.create_server(("127.0.0.1", 0))
    attempts = [
        {"read": f"{HOME}/.ssh/id_ed25519"}, {"read": f"{HOME}/.aws/credentials"}, {"read": f"{HOME}/.netrc"},
        {"read": f"{HOME}/.config/gh/hosts.yml"}, {"read": f"{work}/notes.txt"}, {"write": f"{work}/program.toml"},
        {"write": f"{work}/new"}, {"connect": listener.getsockname()[1]}, {"variable": "TOKEN"},
        {"read": f"/proc/{os.getpid()}/environ"}, {"signal": os.getpid()}, {"write": f"{HOME}/.bashrc"},
    ]
    begun = time.monotonic()
    added = run([HAFT, "add", str(copy), "--yes"], work)
    what = json.dumps({"all": attempts})
    first = run([HAFT, "call", "mcp__planted__try", what], work)
    seconds = time.monotonic() - begun
    row = json.loads(run([HAFT, "--json", "list"], work).stdout)[0]
    tool = next(name for name in row["tools"] if name.endswith("__planted"))
    script = run([HAFT, "call", tool, json.dumps({"script": "scripts/try.py", "args": [what]})], work)
    got = []
    for who, said in [("server", first), ("script", script)]:
        lines = [line for line in said.stdout.splitlines() if line.startswith('["')]
        if len(lines) != 1:
            sys.exit(f"{plugin.name}: the planted {who} did not run: {said.stdout}{said.stderr}{added.stderr[-2000:]}")
        outcomes = json.loads(lines[0])
        got += [f"{who}: {attempt}: {outcome}" for attempt, outcome in zip(attempts, outcomes, strict=True)
                if not outcome.startswith("refused")]
    listener.close()
    return got, 2 * len(attempts), seconds


def main():
    for place in [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".bashrc"]:
        (HOME / place).parent.mkdir(parents=True, exist_ok=True)
        (HOME / place).write_text("mine")
    (ROOT / "claude").mkdir()
    everything = list(plugins())
    if len(everything) < LEAST:
        sys.exit(f"expected {LEAST} plugins, got {len(everything)}")
    same, servers, skills = 0, collections.Counter(), 0
    print(f"{'plugin':32} {'form':13} {'skills':>6} {'servers':>7}  as the reference, and what runs")
    for plugin in everything:
        expected, (_, found, why) = reference(plugin), installed(plugin)
        is_same = found == expected
        same += is_same
        skills += len(found.skills) if found else 0
        runs = started(plugin) if found and found.servers else {}
        servers.update(runs.values())
        difference = "same" if is_same else f"OTHER: expected {expected}, got {found} {why}"
        more = "".join(f"; {name}: {outcome}" for name, outcome in runs.items())
        counts = (len(found.skills), len(found.servers)) if found else ("-", "-")
        print(f"{plugin.name[:32]:32} {plugin.form:13} {counts[0]:>6} {counts[1]:>7}  {difference}{more}", flush=True)
    tried, seconds, leaks = 0, [], []
    for form in ["Agent Plugin", "Claude"]:
        for plugin in [plugin for plugin in everything if plugin.form == form][:PLANTED]:
            got, attempts, took = planted(plugin)
            tried, leaks = tried + attempts, leaks + [f"{plugin.name}: {what}" for what in got]
            seconds.append(took)
    print(f"\n{same} of {len(everything)} plugins load as in the reference ({same / len(everything):.1%}); {skills} skills")
    print("servers: " + ", ".join(f"{count} {outcome}" for outcome, count in servers.most_common()))
    print(f"planted in {len(seconds)} copies: {tried} attempts, {len(leaks)} got something")
    print(f"seconds from `haft add` to the first call: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    if leaks or servers["runs, NOT CONFINED"] or not servers["runs, confined"] or same / len(everything) < SAME:
        sys.exit("\n".join(["FAILED", *leaks]))


try:
    main()
finally:
    shutil.rmtree(ROOT, ignore_errors=True)
