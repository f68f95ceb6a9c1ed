"""A small internet: two network namespaces, in one of which this program and its arguments run, in the other one a name
server, a registry of npm, a repository of git and a server that says `hello`, at public addresses. Started by `unshare --user --map-root-user
--net --mount`; the first argument is a folder with `repository.git`."""

import base64
import hashlib
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = sys.argv[1]
NAMES = {
    "registry.test": "5.5.5.1",
    "files.test": "5.5.5.2",
    "git.test": "5.5.5.3",
    "api.test": "5.5.5.4",
    "private.test": "10.1.1.1",
}
ALONE = "5.5.5.5"
OWN = "5.5.5.99"


def run(*words):
    subprocess.run(words, check=True)


def tarball():
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        text = json.dumps({"name": "small", "version": "1.0.0"}).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return written.getvalue()


TARBALL = tarball()
PACKAGE = {
    "name": "small",
    "dist-tags": {"latest": "1.0.0"},
    "versions": {
        "1.0.0": {
            "name": "small",
            "version": "1.0.0",
            "dist": {
                "tarball": "http://files.test/small-1.0.0.tgz",
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode(),
            },
        }
    },
}


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        host = self.headers["Host"]
        if host == "git.test":
            self.git()
        elif host == "registry.test" and self.path == "/small":
            self.answer(200, {"Content-Type": "application/json"}, json.dumps(PACKAGE).encode())
        elif host == "files.test" and self.path == "/small-1.0.0.tgz":
            self.answer(200, {"Content-Type": "application/octet-stream"}, TARBALL)
        else:
            self.answer(404, {}, b"{}")

    do_POST = do_GET

    def git(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": FOLDER,
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        said = subprocess.run(["git", "http-backend"], input=body, env=environment, stdout=subprocess.PIPE)
        head, _, body = said.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.answer(int(headers.pop("Status", "200").split()[0]), headers, body)

    def log_message(self, *_):
        pass


def names():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((ALONE, 53))
    while True:
        question, asker = server.recvfrom(1024)
        end = question.index(b"\0", 12) + 5
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
            at += question[at] + 1
        address = NAMES.get(".".join(labels))
        is_asked = question[end - 3] == 1 and address
        head = question[:2] + struct.pack(">HHHHH", 0x8180 if address else 0x8183, 1, int(bool(is_asked)), 0, 0)
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 30, 4) + socket.inet_aton(address) if is_asked else b""
        server.sendto(head + question[12:end] + record, asker)


def hello(address):
    server = socket.create_server((address, 7777))
    while True:
        server.accept()[0].sendall(b"hello")


def serve():
    sys.stdin.readline()
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "set", "theirs", "up")
    for address in {*NAMES.values(), ALONE}:
        run("ip", "addr", "add", f"{address}/32", "dev", "theirs")
    run("ip", "route", "add", OWN, "dev", "theirs")
    serving = [lambda: ThreadingHTTPServer(("", 80), Web).serve_forever(), names]
    serving += [lambda address=address: hello(address) for address in (NAMES["api.test"], ALONE)]
    threads = [threading.Thread(target=one, daemon=True) for one in serving]
    [thread.start() for thread in threads]
    # Each listens once it answers: the caller tries.
    print("ready", flush=True)
    sys.stdin.readline()


if len(sys.argv) == 2:
    serve()
    sys.exit()

for name, text in (("hosts", "127.0.0.1 localhost\n"), ("resolv.conf", f"nameserver {ALONE}\n")):
    path = os.path.join(FOLDER, name)
    with open(path, "w") as file:
        file.write(text)
    run("mount", "--bind", path, os.path.realpath(f"/etc/{name}"))
run("ip", "link", "set", "lo", "up")
run("ip", "link", "add", "ours", "type", "veth", "peer", "name", "theirs")
words = ["unshare", "--net", sys.executable, sys.argv[0], FOLDER]
servers = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
run("ip", "link", "set", "ours", "up")
run("ip", "addr", "add", f"{OWN}/32", "dev", "ours")
while os.readlink(f"/proc/{servers.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
    pass
run("ip", "link", "set", "theirs", "netns", str(servers.pid))
run("ip", "route", "add", "default", "dev", "ours")
servers.stdin.write("\n")
servers.stdin.flush()
servers.stdout.readline()
for address, port in [(ALONE, 7777), (NAMES["api.test"], 7777), (NAMES["git.test"], 80)]:
    while socket.socket().connect_ex((address, port)) != 0:
        pass
code = subprocess.run(sys.argv[2:]).returncode
servers.stdin.close()
servers.wait()
sys.exit(code)
