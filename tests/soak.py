"""What one `haft serve` holds in memory under a mixed load of good, failing and hostile calls.

Starts the program once with a plugin that misbehaves in every way there is, keeps a constant number of
calls in flight for some minutes, reads what the kernel counts of it ten times a second, and prints a line
every ten seconds. Ends with 1 where memory climbs after the first minute, where much stays when nobody calls any
more, or where a call is not answered as its kind is. The load is a function of the seed alone.

usage: soak.py [--seconds N] [--in-flight N] [--seed N] [--held] HAFT"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
GUEST = REPOSITORY / "tests/guests/built/hostile.wasm"

# Seconds of a window, whose median is judged, and of what comes before the first that is.
WINDOW = 10
FIRST = 60
# Between two samples: what is in flight is other calls by then.
PERIOD = 0.1
# MiB that the median may be above that of the window at the end of the first minute, and that may
# stay when nobody calls any more.
MOST = 64
# Calls of a plugin after which its code is optimized, and some.
MANY = 40
# Seconds after the last answer when that is looked at.
QUIET = 5
# Seconds for an answer: many times the longest limit of a plugin below.
PATIENCE = 60
MIB = 1 << 20

PROGRAM = """
[program]
name = "soak"
version = "1.0.0"

[sandbox]
workspace = "."

[[plugins]]
name = "guest"
component = {guest}
limits = {{ time = "1s" }}
[plugins.grant]
write = ["."]

[[plugins]]
name = "large"
component = {guest}
limits = {{ memory = "256MiB", result = "16MiB", time = "5s" }}
"""


class Kind:
    """Calls of one kind: the tool, its arguments made with a generator, and whether they fail."""

    def __init__(self, name, tool, fails, arguments=lambda _: {}, cancelled=False):
        self.name, self.tool, self.fails = name, tool, fails
        self.arguments, self.cancelled = arguments, cancelled


def always(**arguments):
    return lambda _: arguments


def text(most):
    return lambda chance: {"text": "x" * chance.randrange(1, most)}


GOOD, FAILS = False, True
# The order of these matters: the load of a seed is made of it.
KINDS = [
    Kind("a short answer", "guest__echo", GOOD, text(1000)),
    Kind("the same", "guest__echo", GOOD, text(1000)),
    Kind("the same of a plugin with wide limits", "large__echo", GOOD, text(1000)),
    Kind("a long argument and answer", "guest__echo", GOOD, text(900_000)),
    Kind("a very long argument and answer", "large__echo", GOOD, text(8 * MIB)),
    Kind("a builtin", "time", GOOD),
    Kind("a file that is read", "read", GOOD, always(file_path="long.txt")),
    Kind("a file that is written", "guest__write", GOOD,
         lambda chance: {"path": f"out-{chance.randrange(8)}", "text": "x" * chance.randrange(100_000)}),
    Kind("a command", "bash", GOOD, always(command="seq 20000")),
    Kind("40 MiB of memory", "guest__fill", GOOD, always(bytes=40 * MIB)),
    Kind("120 MiB of memory", "large__fill", GOOD, always(bytes=120 * MIB)),
    Kind("an answer of 12 MiB", "large__flood_result", GOOD, always(bytes=12 * MIB)),
    Kind("an answer of 16 MiB, which is too long", "guest__flood_result", FAILS, always(bytes=16 * MIB)),
    Kind("a million pieces", "guest__flood_pieces", FAILS, always(count=1_000_000)),
    Kind("16 MiB of standard output", "guest__flood_stdout", GOOD, always(bytes=16 * MIB)),
    Kind("calls of the host", "guest__flood_host", GOOD, always(calls=20_000)),
    Kind("a GiB at once", "guest__fill", FAILS, always(bytes=1 << 30)),
    Kind("all memory there is", "guest__leak", FAILS),
    Kind("a panic", "guest__panic", FAILS, always(message="no")),
    Kind("last words", "guest__talk_and_panic", FAILS, always(bytes=1_000_000)),
    Kind("an exit", "guest__exit", FAILS, always(code=3)),
    Kind("an abort", "guest__unreachable", FAILS),
    Kind("a stack used up", "guest__recurse", FAILS),
    Kind("many files", "guest__many_files", FAILS, always(path="long.txt", count=20_000)),
    Kind("a file that is not granted", "guest__open", FAILS, always(path="/etc/hostname")),
    Kind("a loop", "guest__spin", FAILS),
    Kind("sleep without end", "guest__sleep_forever", FAILS),
    Kind("arguments that do not fit", "guest__echo", FAILS, always(word="x")),
    Kind("a tool that nobody has", "guest__nothing", FAILS),
    Kind("a call that is cancelled", "guest__sleep_forever", FAILS, cancelled=True),
]

ID = re.compile(rb'"id":(\d+)')
FAILED = re.compile(rb'"isError":true|"error":')


class Server:
    """`haft serve` on the other end of two pipes."""

    def __init__(self, haft, folder):
        for name in ("home", "work", "tmp"):
            (folder / name).mkdir()
        work = folder / "work"
        (work / "program.toml").write_text(PROGRAM.format(guest=json.dumps(str(GUEST))))
        (work / "long.txt").write_text("all work and no play\n" * 100_000)
        environment = dict(os.environ, HOME=str(folder / "home"), TMPDIR=str(folder / "tmp"))
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            environment.pop(name, None)
        with (folder / "stderr").open("wb") as stderr:
            self.child = subprocess.Popen([haft, "serve"], cwd=work, env=environment, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=stderr)
        self.pen = threading.Lock()
        self.changed = threading.Condition()
        self.numbers = itertools.count(1)
        # Calls that are not answered yet: of what kind, and since when.
        self.asked = {}
        self.counts = collections.Counter()
        # Answers to what is no call of the load.
        self.answers = {}
        self.wrong = []
        threading.Thread(target=self.read, daemon=True).start()

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self.pen:
            self.child.stdin.write(line)
            self.child.stdin.flush()

    def request(self, method, params):
        number = next(self.numbers)
        self.send({"id": number, "method": method, "params": params})
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers, PATIENCE):
                raise SystemExit(f"`{method}` is not answered")
            return json.loads(self.answers.pop(number))

    def open(self):
        client = {"name": "soak", "version": "0"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"method": "notifications/initialized"})
        wanted = {kind.tool for kind in KINDS} - {"guest__nothing"}
        listed = set()
        while not wanted <= listed:
            # A first start compiles.
            time.sleep(0.2)
            listed = {tool["name"] for tool in self.request("tools/list", {})["result"]["tools"]}

    def call(self, kind, chance):
        number = next(self.numbers)
        with self.changed:
            self.asked[number] = (kind, time.monotonic())
        self.send({"id": number, "method": "tools/call",
                   "params": {"name": kind.tool, "arguments": kind.arguments(chance)}})
        if kind.cancelled:
            threading.Timer(chance.uniform(0.01, 0.5), self.cancel, [number]).start()

    def cancel(self, number):
        self.send({"method": "notifications/cancelled", "params": {"requestId": number}})
        self.over(number)

    def over(self, number):
        """Notes that a call is over, and says of what kind it was; `None` if it was over already."""
        with self.changed:
            kind, _ = self.asked.pop(number, (None, None))
            if kind:
                self.counts[kind.name] += 1
            self.changed.notify_all()
            return kind

    def read(self):
        for line in self.child.stdout:
            # Not parsed where they may be long: the id comes first, and that a call failed comes first or last.
            found = ID.search(line[:100])
            if found and b'"method":' not in line[:100]:
                self.hear(int(found[1]), line)
        with self.changed:
            self.wrong.append("haft has ended")
            self.changed.notify_all()

    def hear(self, number, line):
        with self.changed:
            kind, _ = self.asked.get(number, (None, None))
            if kind is None:
                self.answers[number] = line if len(line) < MIB else b""
            elif not kind.cancelled and not is_like(kind, line):
                self.wrong.append(f"{kind.name}: {line[:300]!r}")
            self.changed.notify_all()
        self.over(number)

    def has_room(self, most, seconds):
        """Waits until fewer calls than that are in flight; whether that is so and everything is well."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.asked) < most or self.wrong, seconds)
            now = time.monotonic()
            self.wrong += [f"{kind.name}: not answered" for kind, since in self.asked.values() if now - since > PATIENCE]
            return len(self.asked) < most and not self.wrong

    def end(self):
        self.child.stdin.close()
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise SystemExit("haft does not end")


def is_like(kind, line):
    """Whether an answer is as those of its kind are. On a busy machine any call may be out of time."""
    failed = bool(FAILED.search(line[:100] + line[-200:]))
    return failed == kind.fails or (failed and b" timed out after " in line[:300])


class Memory:
    """What the kernel counts of a process, in MiB."""

    ROWS = ("VmRSS", "RssAnon", "RssFile", "RssShmem", "VmHWM")

    def __init__(self, process):
        self.folder = pathlib.Path(f"/proc/{process}")
        self.samples = []

    def sample(self):
        lines = (self.folder / "status").read_text().splitlines()
        rows = dict(line.split(":", 1) for line in lines)
        self.samples.append({row: int(rows[row].split()[0]) / 1024 for row in self.ROWS})

    def window(self, seconds, wait):
        """The medians of some seconds, the most, and the peak, which the kernel counts anew each time."""
        self.samples = []
        (self.folder / "clear_refs").write_text("5")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            wait(PERIOD)
            self.sample()
        window = {row: statistics.median(sample[row] for sample in self.samples) for row in self.ROWS}
        most = max(sample["VmRSS"] for sample in self.samples)
        return window | {"most": most, "peak": max(sample["VmHWM"] for sample in self.samples)}

    def held(self):
        """By what it is held for, the most first."""
        held = collections.Counter()
        for mapping in mappings((self.folder / "smaps").read_text()):
            held[whose(mapping)] += mapping.resident / 1024
        return held.most_common()


class Mapping:
    """A mapping of a process (`proc_pid_smaps(5)`), of `size` bytes, of which `resident` KiB are in memory."""

    LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)")

    def __init__(self, found):
        self.begin = int(found[1], 16)
        self.size = int(found[2], 16) - self.begin
        self.rights, self.path, self.resident = found[3], found[4], 0


def mappings(smaps):
    found = []
    for line in smaps.splitlines():
        begins = Mapping.LINE.match(line)
        if begins:
            found.append(Mapping(begins))
        elif line.startswith("Rss:"):
            found[-1].resident = int(line.split()[1])
    return found


def whose(mapping):
    """What a mapping is for, by its looks."""
    path = mapping.path.removesuffix(" (deleted)")
    if path.endswith(".cwasm"):
        return "what guests' memories begin with" if "w" in mapping.rights else "compiled code"
    if path:
        return path if path.startswith("[") else pathlib.Path(path).name
    if mapping.size > 256 * MIB:
        return "guests' tables and large memories"
    if mapping.size == 2 * MIB:
        return "stacks of guests and threads"
    if mapping.begin % (64 * MIB) == 0:
        return "heaps of threads"
    return "guests' memories and others"


def load(server, memory, options):
    """Keeps calls in flight and prints the windows; their medians."""
    chance = random.Random(options.seed)
    until = time.monotonic() + options.seconds
    going = threading.Event()

    def feed():
        while time.monotonic() < until and not going.is_set():
            if server.has_room(options.in_flight, 1):
                server.call(chance.choice(KINDS), chance)
            elif server.wrong:
                going.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    windows = []
    print("   s  calls  median    most    peak | medians: anon    file  shared", flush=True)
    while len(windows) < options.seconds // WINDOW and not going.is_set():
        windows.append(memory.window(WINDOW, going.wait))
        show((len(windows) * WINDOW, sum(server.counts.values())), windows[-1])
    feeder.join()
    return [window["VmRSS"] for window in windows]


def show(begin, window):
    row = [window[name] for name in ("VmRSS", "most", "peak")]
    parts = [window[name] for name in ("RssAnon", "RssFile", "RssShmem")]
    print("{:>4} {:>6}".format(*begin), "{:7.0f} {:7.0f} {:7.0f} |".format(*row),
          "       {:7.0f} {:7.0f} {:7.0f}".format(*parts), flush=True)


def judge(windows, before, quiet):
    """What is not as it should be."""
    wrong = []
    if len(windows) > FIRST // WINDOW:
        first, highest = windows[FIRST // WINDOW - 1], max(windows[FIRST // WINDOW:])
        print(f"after the first minute: {first:.0f} MiB; highest window after it: {highest:.0f} ({highest - first:+.0f})")
        if highest > first + MOST:
            wrong.append(f"memory climbed by {highest - first:.0f} MiB, more than {MOST}")
    print(f"quiet before: {before:.0f} MiB, after: {quiet:.0f} ({quiet - before:+.0f})")
    if quiet > before + MOST:
        wrong.append(f"{quiet - before:.0f} MiB stay when nobody calls, more than {MOST}")
    return wrong


def settle(memory):
    """What is held when nobody has called for some seconds."""
    time.sleep(QUIET - 1)
    window = memory.window(1, time.sleep)
    show(("-", "quiet"), window)
    return window["VmRSS"]


def soak(options, folder):
    server = Server(options.haft.resolve(), folder)
    memory = Memory(server.child.pid)
    server.open()
    # Good calls of each plugin: what is needed for any, haft has from here on. After so many it compiles their code once
    # more, optimized, while nobody calls.
    for name in ("guest__echo", "large__echo") * MANY:
        server.request("tools/call", {"name": name, "arguments": {"text": "begin"}})
    before = settle(memory)
    windows = load(server, memory, options)
    if not server.has_room(1, PATIENCE):
        server.wrong.append(f"{len(server.asked)} calls are not answered")
    quiet = settle(memory)
    if options.held:
        for what, size in memory.held():
            print(f"{size:8.1f} MiB  {what}")
    wrong = server.wrong + judge(windows, before, quiet)
    server.end()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("haft", type=pathlib.Path, help="the program")
    parser.add_argument("--seconds", type=int, default=150, help="of load (%(default)s)")
    parser.add_argument("--in-flight", type=int, default=16, help="calls at once (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the load (%(default)s)")
    parser.add_argument("--held", action="store_true", help="show what is held when nobody calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = soak(options, pathlib.Path(folder))
    for line in wrong[:10]:
        print(f"soak: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
