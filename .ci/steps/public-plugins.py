"""What .ci/steps/public-plugins shows: `public-plugins.py HAFT PROBE CLAUDE FOLDER`."""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HAFT, PROBE, CLAUDE, FOLDER = sys.argv[1:]
SERVER = (pathlib.Path(__file__).parents[2] / "tests/packages/plugins/server.py").read_text()
PATIENCE = 300  # seconds for one command: a server of npm or PyPI is fetched meanwhile
LEAST = 30  # plugins
PLANTED = 12  # of each form
SAME = 0.95  # of the plugins
STARTS = 3  # of a server

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
    return Parts(without_commands(plugin, sets["Skills"]), sets["MCP servers"])


def without_commands(plugin, skills):
    """The skills that no command has the name of: Claude Code counts both as one."""
    commands = {path.stem for path in (plugin.folder / "commands").rglob("*.md")} if plugin.form == "Claude" else set()
    return {name for name in skills if name.split(":")[-1] not in commands}


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
    return place, Parts(without_commands(plugin, row["skills"]), set(row["servers"])), "; ".join(notes)


def entries(folder):
    """The servers of a plugin, as its files say."""
    for name in ["mcp.json", ".mcp.json"]:
        if (folder / name).exists():
            document = json.loads((folder / name).read_text())
            return document.get("mcpServers", document)
    return {}


def below(pid):
    """The processes that `pid` started, and those that they did."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                yield int(child)
                yield from below(child)


def is_confined(pid):
    """Whether the kernel holds a process: no new privileges, filtered calls, own mounts, no variable of ours. `None` if it
    has ended."""
    try:
        if pathlib.Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("haft"):
            return None
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        has_own_mounts = os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    is_filtered = re.search(r"^NoNewPrivs:\s1$", status, re.M) and re.search(r"^Seccomp:\s2$", status, re.M)
    return bool(is_filtered) and has_own_mounts and b"TOKEN=" not in environment


def started(plugin):
    """For each server of a plugin whether it ran and was confined; why not, where it did not run."""
    outcome = {}
    for name, entry in entries(plugin.folder).items():
        command = entry.get("command")
        if command is None:
            outcome[name] = "elsewhere: no process"
        elif shutil.which(command, path=ENVIRONMENT["PATH"]) is None and "/" not in command:
            outcome[name] = f"`{command}` is not here"
    rest = set(entries(plugin.folder)) - set(outcome)
    if not rest:
        return outcome
    # What `npx` and `uvx` fetch at each start needs the network; nothing else is granted.
    place, _, _ = installed(plugin, "--grant", "host=*")
    seen = {}
    # What `npx` or `uvx` did not fetch in the time of one start goes on at the next one.
    for _ in range(STARTS):
        names = tools_of(place, seen)
        if all(any(tool.startswith(f"mcp__{name}__") for tool in names) for name in rest):
            break
    if not all(seen.values()):
        return outcome | {name: "runs, NOT CONFINED" for name in rest}
    for name in rest:
        if any(tool.startswith(f"mcp__{name}__") for tool in names):
            outcome[name] = "runs, confined" if seen else "runs, NOT CONFINED"
        else:
            why = [line for line in (place / "said").read_text().splitlines() if name in line]
            outcome[name] = f"does not answer ({why[0][:150] if why else 'no reason'})"
    return outcome


def tools_of(place, seen):
    """The tools of a program, with the processes that run meanwhile and whether they are confined."""
    with open(place / "tools.json", "w") as tools, open(place / "said", "w") as said:
        listing = subprocess.Popen([HAFT, "--json", "tools"], cwd=place, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                   stdout=tools, stderr=said)
        until = time.monotonic() + PATIENCE
        while listing.poll() is None and time.monotonic() < until:
            for pid in below(listing.pid):
                if (confined := is_confined(pid)) is not None:
                    seen[pid] = confined
            time.sleep(0.05)
        listing.kill()
        listing.wait()
    return [tool["name"] for tool in json.loads((place / "tools.json").read_text() or "[]")]


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
        servers.update(outcome.split(" (")[0] for outcome in runs.values())
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
