"""Uses a host with a placeholder, by programs that know nothing of it. Prints a line for each."""

import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request

port = sys.argv[1]
base, token = f"https://localhost:{port}", os.environ["TOKEN"]
folder = pathlib.Path("made")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir()


def say(name, is_right, what):
    print("ok" if is_right else "WRONG", name, "" if is_right else repr(str(what)[-600:]), flush=True)


def run(name, expected, *words, **variables):
    if not shutil.which(words[0]):
        print("absent", name, flush=True)
        return
    ran = subprocess.run(words, capture_output=True, text=True, env=os.environ | variables, stdin=subprocess.DEVNULL)
    said = ran.stdout + ran.stderr
    say(name, expected in said and ran.returncode == 0, said)


run("curl bearer", "authorized", "curl", "-sS", "--fail", "-H", f"Authorization: Bearer {token}", f"{base}/ok")
run("curl basic", "authorized", "curl", "-sS", "--fail", "-u", f"me:{token}", f"{base}/ok")
run("curl header", "authorized", "curl", "-sS", "--fail", "-H", f"X-Key: {token}", f"{base}/ok")
run("curl query", "authorized", "curl", "-sS", "--fail", f"{base}/ok?a=1&key={token}&b=2")
run("curl http/2", "authorized", "curl", "-sS", "--fail", "--http2", "-H", f"X-Key: {token}", f"{base}/ok", f"{base}/ok")
run("curl head", "200", "curl", "-sSI", "--fail", "-H", f"X-Key: {token}", f"{base}/ok")
(folder / "large").write_bytes(os.urandom(3_000_000))
digest = subprocess.run(["sha256sum", folder / "large"], capture_output=True, text=True).stdout.split()[0]
run("curl upload", digest, "curl", "-sS", "--fail", "-H", f"X-Key: {token}", "--data-binary", f"@{folder}/large", f"{base}/upload")
run("curl chunked", digest, "curl", "-sS", "--fail", "-H", f"X-Key: {token}", "-T", f"{folder}/large", "-H", "Transfer-Encoding: chunked", f"{base}/upload")
run("git", "", "git", "clone", "-q", f"https://me:{token}@localhost:{port}/repo.git", str(folder / "clone"))
say("git file", (folder / "clone/file").is_file(), list(folder.iterdir()))
(folder / "npm").mkdir()
(folder / "npm/package.json").write_text(json.dumps({"name": "x", "version": "1.0.0"}))
run("npm", "added 1 package", "npm", "--prefix", str(folder / "npm"), "install", "--no-audit", "--no-fund", "--loglevel=http",
    f"--registry={base}/", "--cache", str(folder / "npm-cache"), "tiny-fake")
run("pip", "tiny_fake", sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir", "-d", str(folder / "pip"),
    "--index-url", f"https://me:{token}@localhost:{port}/simple/", "tiny-fake")
run("node", "authorized", "node", "-e", f"fetch('{base}/ok', {{headers: {{authorization: 'Bearer ' + process.env.TOKEN}}}}).then((it) => it.text()).then(console.log)")
request = urllib.request.Request(f"{base}/ok", headers={"Authorization": f"Bearer {token}"})
try:
    say("urllib", urllib.request.urlopen(request).read() == b"authorized", "")
except OSError as error:
    say("urllib", False, error)
try:
    import requests

    said = requests.get(f"{base}/ok", auth=("me", token)).text
    say("requests", said == "authorized", said)
    leak = requests.get(f"{base}/leak", headers={"X-Key": token})
    say("redacted", leak.text.startswith("a *** b dXNlcjp***") and leak.headers["X-Leak"] == "***", (leak.text, leak.headers))
    events = requests.get(f"{base}/stream", headers={"X-Key": token}).text
    say("redacted stream", events == "data: 1\n\ndata: ***\n\ndata: 3\n\n", events)
except ImportError:
    print("absent requests", flush=True)
steps = http.client.HTTPSConnection("localhost", int(port), timeout=20)
steps.request("GET", "/steps", headers={"X-Key": token})
try:
    answer, said = steps.getresponse(), []
    for size in [7, 13]:
        said.append(answer.read(size))
        urllib.request.urlopen(urllib.request.Request(f"{base}/step", headers={"X-Key": token}))
    said.append(answer.read())
    say("step by step", said == [b"data: Q", b". data: QZQZ" + said[1][-1:], b"*** end"], said)
except OSError as error:
    say("step by step", False, error)
context = ssl.create_default_context()
with context.wrap_socket(socket.create_connection(("localhost", int(port))), server_hostname="localhost") as raw:
    raw.sendall(f"GET /socket HTTP/1.1\r\nHost: localhost:{port}\r\nX-Key: {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode())
    said = raw.recv(4096)
    raw.sendall(b"hello")
    while not said.endswith(b"HELLO") and (more := raw.recv(4096)):
        said += more
    say("upgrade", said.startswith(b"HTTP/1.1 101") and said.endswith(b"HELLO"), said)


def raw(name, expected, host=None, head=None):
    """A request whose host differs from the connection's."""
    plain = ssl.create_default_context()
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    try:
        with plain.wrap_socket(socket.create_connection(("localhost", int(port)), timeout=20), server_hostname=host) as to:
            to.sendall(f"{head}\r\nX-Key: {token}\r\nConnection: close\r\n\r\n".encode())
            said = b""
            while more := to.recv(4096):
                said += more
    except OSError as error:
        said = str(error).encode()
    say(name, expected in said.partition(b"\r\n")[0], said)


raw("Host differs", b"421", "localhost", f"GET /ok HTTP/1.1\r\nHost: other.test:{port}")
raw("port differs", b"421", "localhost", "GET /ok HTTP/1.1\r\nHost: localhost:9")
raw("SNI differs", b"421", "other.test", f"GET /ok HTTP/1.1\r\nHost: localhost:{port}")
raw("SNI and Host differ", b"421", "other.test", f"GET /ok HTTP/1.1\r\nHost: other.test:{port}")
raw("no SNI", b"421", None, f"GET /ok HTTP/1.1\r\nHost: localhost:{port}")
raw("absolute URL differs", b"421", "localhost", f"GET https://other.test/ok HTTP/1.1\r\nHost: localhost:{port}")
raw("two hosts", b"4", "localhost", f"GET /ok HTTP/1.1\r\nHost: localhost:{port}\r\nHost: other.test")
raw("TRACE", b"405", "localhost", f"TRACE /ok HTTP/1.1\r\nHost: localhost:{port}")
raw("agreement", b"200", "localhost", f"GET /ok HTTP/1.1\r\nHost: localhost:{port}")
