#!/usr/bin/env python3
"""balancers.py HAFT NATS HAPROXY NGINX FOLDER: two gates and two workers behind each balancer of docs/deploy, changed and
started again while calls are made. HAPROXY and NGINX are folders with Debian's packages unpacked. Ends with 1 where a call
failed, was made twice, or the change was not seen."""

import atexit
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

HAFT, NATS, HAPROXY, NGINX, FOLDER = sys.argv[1:]
FOLDER = pathlib.Path(FOLDER)
CALLS = int(os.environ.get("HAFT_BALANCED_CALLS", "1000"))
AT_ONCE = 8
# Seconds that nothing takes which does not hang.
HANG = 90
# Seconds for a process to end when it is told to, after the calls.
ENDING = 10
TOKEN = "a-token-of-the-balancers-4711"

PROGRAM = """[program]
name = "team"
version = "1.0.0"
[sandbox]
workspace = "work"
[[tools]]
name = "mark"
description = "DESCRIPTION"
command = ["sh", "-c", "echo $1 >> marks", "mark"]
arguments = [{ name = "mark", description = "The mark." }]
on = ["eu"]
"""

LUA = f"usr/lib/{os.uname().machine}-linux-gnu"


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(what, condition):
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > HANG:
            sys.exit(f"never: {what}")
        time.sleep(0.05)


class World:
    """A NATS server, two workers, two gates."""

    def __init__(self, name):
        self.folder = FOLDER / name
        self.folder.mkdir()
        self.processes = {}
        atexit.register(self.close)
        self.nats = port()
        self.gates = {"one": port(), "two": port()}
        self.start("nats", [NATS, "-a", "127.0.0.1", "-p", str(self.nats), "-js", "-sd", str(self.folder / "js")])
        until("NATS listens", lambda: reaches(self.nats))
        for name in ["eu-1", "eu-2", *self.gates]:
            self.write(name, "Adds a mark.")
        for name in ["eu-1", "eu-2"]:
            self.work(name)
        for name in self.gates:
            self.serve(name)

    def write(self, name, description):
        """Puts a program.toml in the place of the one that is there, as configuration management does."""
        own = self.folder / name
        (own / "work").mkdir(parents=True, exist_ok=True)
        (own / "new").write_text(PROGRAM.replace("DESCRIPTION", description))
        (own / "new").rename(own / "program.toml")

    def start(self, name, line, libraries=None):
        own = self.folder / name
        own.mkdir(exist_ok=True)
        environment = dict(os.environ, HOME=str(own), HAFT_TRUST="1", HAFT_TOKEN=TOKEN)
        if libraries:
            environment["LD_LIBRARY_PATH"] = libraries
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(line, cwd=own, env=environment, stdout=log, stderr=log)

    def work(self, name):
        self.start(name, [HAFT, "work", "--nats", f"nats://127.0.0.1:{self.nats}", "--label", "eu", "--name", name])

    def serve(self, name):
        line = [HAFT, "serve", "--http", f"127.0.0.1:{self.gates[name]}", "--token-env", "HAFT_TOKEN"]
        self.start(name, [*line, "--nats", f"nats://127.0.0.1:{self.nats}"])
        until(f"gate {name} is ready", lambda: ready(self.gates[name]) == 200)

    def end(self, name):
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        if process.wait(HANG) != 0:
            sys.exit(f"{name} did not end well: {(self.folder / f'{name}.log').read_text()}")

    def close(self):
        # The last one first; a balancer ends its own processes when it is told to end.
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def made(self):
        files = self.folder.glob("eu-*/work/marks")
        return sorted(line for file in files for line in file.read_text().splitlines())


def reaches(number):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", number)) == 0


def ready(number):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", number, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except OSError:
        return None


def ask(number, method, params, name=None):
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    head = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if name:
        head["Mcp-Name"] = name
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=HANG)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    connection.request("POST", "/mcp", json.dumps(message), head)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def post(number, message, more):
    """The status, the session and the text of an answer to a client of 2025-11-25."""
    head = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=HANG)
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), head | more)
    answer = connection.getresponse()
    found = answer.status, answer.headers.get("Mcp-Session-Id"), answer.read().decode()
    connection.close()
    return found


def sessions_stay(number):
    """Sessions of the older eras find their replica, whichever opened them."""
    client = {"name": "load", "version": "1"}
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    for _ in range(10):
        _, own, _ = post(number, {"id": 1, "method": "initialize", "params": begin}, {})
        head = {"Mcp-Session-Id": own, "MCP-Protocol-Version": "2025-11-25"}
        post(number, {"method": "notifications/initialized"}, head)
        status, _, text = post(number, {"id": 2, "method": "tools/list"}, head)
        if status != 200:
            sys.exit(f"a session is not at its replica: {status} {text[:300]}")


class Load:
    """Calls, eight at one time, until there were enough and nothing is changed any more."""

    def __init__(self, number):
        self.number, self.made, self.failed = number, 0, []
        self.lock, self.is_over = threading.Lock(), False
        self.threads = [threading.Thread(target=self.run) for _ in range(AT_ONCE)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while True:
            with self.lock:
                if self.is_over and self.made >= CALLS:
                    return
                mark = f"m{self.made}"
                self.made += 1
            tool = "program__team__mark"
            try:
                status, text = ask(self.number, "tools/call", {"name": tool, "arguments": {"mark": mark}}, tool)
            except OSError as error:
                status, text = 0, repr(error)
            if status != 200 or '"isError":false' not in text:
                with self.lock:
                    self.failed.append((mark, status, text[:300]))
            # No faster than all of the changes take.
            time.sleep(0.02)

    def more(self, count=60):
        before = self.made
        until("calls go on", lambda: self.made >= before + count)

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(HANG * 4)


def judge(name, world, load):
    marks = world.made()
    twice = len(marks) - len(set(marks))
    print(f"{name}: {load.made} calls, {len(load.failed)} failed, {twice} made twice, {len(marks)} marks", flush=True)
    for failed in load.failed[:5]:
        print(f"  {failed}")
    return not load.failed and not twice and len(marks) == load.made


def rolled(name, start):
    """Whether all calls are answered while everything behind a balancer changes."""
    world = World(name)
    front = port()
    start(world, front)
    until(f"{name} listens", lambda: reaches(front))
    tool = "program__team__mark"
    call = {"name": tool, "arguments": {"mark": "first"}}
    until("a call is answered", lambda: '"isError":false' in ask(front, "tools/call", dict(call), tool)[1])
    for file in world.folder.glob("eu-*/work/marks"):
        file.unlink()
    sessions_stay(front)
    load = Load(front)
    load.more()
    # A new program.toml, everywhere and in no order that would suit.
    for who in ["one", "eu-1", "eu-2", "two"]:
        world.write(who, "Adds a mark, as ever.")
        load.more()
    seen = lambda: all("as ever" in ask(number, "tools/list", {})[1] for number in world.gates.values())
    until("both gates have the change", seen)
    # Processes in turn: what ends is asked for nothing, and what begins is ready first.
    for who in ["one", "two"]:
        world.end(who)
        world.serve(who)
        load.more()
    for who in ["eu-1", "eu-2"]:
        world.end(who)
        log = world.folder / f"{who}.log"
        told = log.read_text().count("takes calls")
        world.work(who)
        load.more()
        until("the worker takes calls again", lambda log=log, told=told: log.read_text().count("takes calls") > told)
    load.end()
    is_good = judge(name, world, load)
    world.close()
    return is_good


def configured(world, file, front):
    text = pathlib.Path("docs/deploy", file).read_text()
    for shown, own in [("8080", front), ("8081", world.gates["one"]), ("8082", world.gates["two"])]:
        text = text.replace(f"127.0.0.1:{shown}", f"127.0.0.1:{own}").replace(f"-{shown}$", f"-{own}$")
    path = world.folder / file
    path.write_text(text)
    return path


def haproxy(world, front):
    path = configured(world, "haproxy.cfg", front)
    world.start("haproxy", [f"{HAPROXY}/usr/sbin/haproxy", "-f", str(path)], f"{HAPROXY}/{LUA}")


def nginx(world, front):
    path = configured(world, "nginx.conf", front)
    own = f"daemon off; pid {world.folder}/nginx.pid; error_log {world.folder}/nginx.err;"
    temporary = "".join(
        f"{kind}_temp_path {world.folder}/nginx-{kind};" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    )
    path.write_text(path.read_text().replace("http {", f"http {{ {temporary}", 1))
    world.start("nginx", [f"{NGINX}/usr/sbin/nginx", "-c", str(path), "-p", str(world.folder), "-g", own])


if __name__ == "__main__":
    results = [rolled("haproxy", haproxy), rolled("nginx", nginx)]
    sys.exit(0 if all(results) else 1)
