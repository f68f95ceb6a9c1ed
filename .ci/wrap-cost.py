"""What `haft wrap` costs: `wrap-cost.py HAFT COMMAND...`, an MCP server with and without haft, one after the other in turns.

Prints the start to the answer to `initialize`, a `ping`, and the memory of haft's own processes (/proc/PID/smaps_rollup).
Judges nothing: what a busy machine measures is a ratio of one run.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

STARTS, CALLS = 20, 400
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}}


class Server:
    def __init__(self, words, environment):
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment)
        self.ask("initialize", HELLO)
        self.start = time.perf_counter() - self.begun
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, parameters=None):
        begun = time.perf_counter()
        self.send({"id": 1, "method": method, "params": parameters or {}})
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the server has ended")
            message = json.loads(line)
            if message.get("id") == 1 and "method" not in message:
                return time.perf_counter() - begun

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def processes(pid):
    yield pid
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from processes(int(child))


def memory(pid):
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return {key: f"{sizes[key] / 1024:.1f} MiB" for key in ("Rss", "Pss", "Anonymous")}


def told(what, native, wrapped):
    rows = [(one(native) * 1000, one(wrapped) * 1000) for one in (min, statistics.median)]
    (least, least_wrapped), (median, median_wrapped) = rows
    print(f"{what}: native {least:.2f} ms at least, {median:.2f} median; wrapped {least_wrapped:.2f} and {median_wrapped:.2f}: "
        f"over native {least_wrapped - least:.2f} and {median_wrapped - median:.2f} ms")


def main():
    haft, command = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environment = {**os.environ, "HOME": home}
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            environment.pop(name, None)
        ways = {"native": command, "wrapped": [haft, "wrap", "cost", "--", *command]}
        # The first start is noted down: it needs nothing.
        Server(ways["wrapped"], environment).end()
        starts = {way: [] for way in ways}
        for _ in range(STARTS):
            for way, words in ways.items():
                server = Server(words, environment)
                starts[way].append(server.start)
                server.end()
        told("start", starts["native"], starts["wrapped"])
        servers = {way: Server(words, environment) for way, words in ways.items()}
        calls = {way: [] for way in ways}
        for _ in range(CALLS):
            for way, server in servers.items():
                calls[way].append(server.ask("ping"))
        told("ping", calls["native"], calls["wrapped"])
        # By then haft has nothing to do but wait.
        time.sleep(3)
        for pid in processes(servers["wrapped"].process.pid):
            exe = os.readlink(f"/proc/{pid}/exe")
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:3]
            print(f"{'haft' if exe == os.path.realpath(haft) else exe} {b' '.join(line)[-60:]!r}: {memory(pid)}")
        for server in servers.values():
            server.end()


main()
