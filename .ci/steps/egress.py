"""egress.py HAFT HOME: what `.ci/steps/egress` shows. Each program runs twice by `haft call bash`: with the hosts that it
needs in program.toml, where it says what is expected, and without them, where it does not."""

import asyncio
import contextlib
import ipaddress
import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading

HAFT, HOME = sys.argv[1], pathlib.Path(sys.argv[2])
PYTHON = sys.executable
WORK = HOME / "work"
BOUND = 300  # seconds for one program
# The certificates that this machine trusts, for programs that bring their own, and the place of Rust's toolchains.
PASSED_ON = [name for name in ("RUSTUP_HOME", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT",
                                  "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO") if name in os.environ]

HTTP2_SERVER = """
const server = require('http2').createServer((request, answer) => answer.end('hello over ' + request.httpVersion));
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""
HTTP2_CLIENT = """
const session = require('http2').connect('http://127.0.0.1:' + process.argv[1]);
session.on('error', (error) => { console.log(String(error)); process.exit(1); });
session.request({ ':path': '/' }).setEncoding('utf8').on('data', (text) => console.log(text)).on('end', () => session.close());
"""
JAVA = """
import java.net.URI;
import java.net.http.*;
public class Reach {
    public static void main(String[] words) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(words[0])).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
"""
GRPC_CLIENT = """
import grpc, sys
with grpc.insecure_channel('127.0.0.1:' + sys.argv[1]) as channel:
    print(channel.unary_unary('/way.Way/Say')(b'hello', timeout=20).decode())
"""
WEBSOCKET = """
import asyncio, sys, websockets
async def main():
    async with websockets.connect('ws://127.0.0.1:' + sys.argv[1]) as connection:
        await connection.send('hello')
        print(await connection.recv())
asyncio.run(main())
"""
AIOHTTP = """
import aiohttp, asyncio, ssl, sys
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1], ssl=ssl.create_default_context()) as answer:
            print((await answer.text())[:200])
asyncio.run(main())
"""
REQUESTS = "import requests, sys; print(requests.get(sys.argv[1], timeout=60).text[:200])"
FETCH = "fetch(process.argv[1]).then((answer) => answer.text()).then((text) => console.log(text.slice(0, 200)))"
PACKAGE = '[package]\nname = "reach"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nitoa = "=1.0.15"\n'
APT = ("for folder in state/lists/partial cache/archives/partial; do mkdir -p apt/$folder; done; apt() { apt-get -q -o Dir::State=$PWD/apt/state "
       "-o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=$PWD/apt/cache -o APT::Sandbox::User=root -o Acquire::Retries=0 \"$@\"; }; "
       "apt update 2>&1 | tail -3 && apt download hello && ls")


class Lacking(Exception):
    """What a program needs is not there."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Lacking(f"there is no {program}")


def sources():
    """The hosts of this machine's Debian packages."""
    files = [*pathlib.Path("/etc/apt").glob("sources.list*"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]
    found = re.findall(r"^[^#\n]*(http://[\w.-]+)", "\n".join(file.read_text() for file in files if file.is_file()), re.MULTILINE)
    return sorted(set(found))


def lines(hosts):
    """The grants of these hosts. A registry may be a mirror in a network of its own: its address is granted by itself then."""
    for host in hosts:
        yield host
        plain = host.removeprefix("http://")
        name, _, port = plain.partition(":")
        if name[0].isdigit():
            continue
        port = port or ("80" if plain != host else "443")
        with contextlib.suppress(OSError):
            found = {entry[4][0] for entry in socket.getaddrinfo(name, int(port), socket.AF_INET)}
            yield from (f"{address}:{port}" for address in sorted(found) if not ipaddress.ip_address(address).is_global)


def called(hosts, command):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    granted = json.dumps([*lines(hosts)] or ["nothing.test"])
    (WORK / "program.toml").write_text(f'[program]\nname = "reach"\nversion = "0.1.0"\n[sandbox]\nhosts = {granted}\n')
    exported = "".join(f"export {name}='{os.environ[name]}'; " for name in PASSED_ON)
    words = [HAFT, "call", "bash", json.dumps({"command": exported + command, "timeout": BOUND})]
    done = subprocess.run(words, cwd=WORK, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND + 60)
    return done.stdout + done.stderr


def script(language, text, word):
    return f"{language} '{text.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}' {word}"


@contextlib.contextmanager
def process(words, **options):
    started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def reachable(port):
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return port
        threading.Event().wait(0.1)
    raise Lacking(f"no server came to port {port}")


@contextlib.contextmanager
def repository():
    folder = HOME / "served"
    shutil.rmtree(folder, ignore_errors=True)
    work, bare = folder / "work", folder / "one.git"
    work.mkdir(parents=True)
    (work / "greeting").write_text("hello\n")
    own = ["git", "-C", work, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*own, "init", "-q"], check=True)
    subprocess.run([*own, "add", "."], check=True)
    subprocess.run([*own, "commit", "-q", "-m", "one"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True)
    subprocess.run(["git", "-C", bare, "update-server-info"], check=True)
    yield folder


@contextlib.contextmanager
def web():
    with repository() as folder, process([PYTHON, "-u", "-m", "http.server", "--bind", "127.0.0.1", "-d", folder, "0"]) as server:
        (folder / "greeting").write_text("hello\n")
        yield int(server.stdout.readline().split(" port ")[1].split()[0])


@contextlib.contextmanager
def daemon():
    need("git")
    port = free_port()
    with repository() as folder, process(["git", "daemon", "--export-all", f"--base-path={folder}", "--listen=127.0.0.1", f"--port={port}"]):
        yield reachable(port)


@contextlib.contextmanager
def node(text):
    need("node")
    with process(["node", "-e", text]) as server:
        yield int(server.stdout.readline())


@contextlib.contextmanager
def grpc():
    import grpc as library
    from concurrent import futures

    class Way(library.GenericRpcHandler):
        def service(self, details):
            return library.unary_unary_rpc_method_handler(lambda request, _: request + b" over gRPC")
    server = library.server(futures.ThreadPoolExecutor(2), handlers=[Way()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


@contextlib.contextmanager
def in_loop(begin):
    """A server of asyncio, on a thread."""
    loop, port = asyncio.new_event_loop(), []
    ready = threading.Event()

    async def serve():
        port.append(await begin())
        ready.set()
    threading.Thread(target=lambda: (loop.create_task(serve()), loop.run_forever()), daemon=True).start()
    if not ready.wait(30):
        raise Lacking("a server did not begin")
    yield port[0]
    loop.call_soon_threadsafe(loop.stop)


def websocket():
    import websockets

    async def answer(connection):
        async for text in connection:
            await connection.send(text + " over a websocket")

    async def begin():
        server = await websockets.serve(answer, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]
    return in_loop(begin)


@contextlib.contextmanager
def ssh():
    need("ssh", "git")
    import asyncssh

    async def run(process):
        if not process.command:
            process.exit(1)
            return
        child = await asyncio.create_subprocess_shell(
            process.command.replace("'/", "'" + str(HOME / "served") + "/"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        await process.redirect(stdin=child.stdin, stdout=child.stdout)
        process.exit(await child.wait())

    class Open(asyncssh.SSHServer):
        def begin_auth(self, _):
            return False

    async def begin():
        key = asyncssh.generate_private_key("ssh-ed25519")
        server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[key], server_factory=Open, process_factory=run, encoding=None)
        return server.get_port()
    with repository(), in_loop(begin) as port:
        yield port


@contextlib.contextmanager
def postgres():
    need("psql")
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")) + [pathlib.Path(name) for name in [shutil.which("initdb")] if name]
    if not found:
        raise Lacking("there is no PostgreSQL server")
    tools, port = found[-1].parent, free_port()
    folder = pathlib.Path("/var/tmp") / f"haft-egress-{os.getpid()}"
    folder.mkdir()
    who = {}
    if os.getuid() == 0:
        other = pwd.getpwnam("nobody")
        os.chown(folder, other.pw_uid, other.pw_gid)
        who = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
    try:
        subprocess.run([tools / "initdb", "-A", "trust", "-U", "reach", "-D", folder / "data"], check=True, capture_output=True, cwd="/", **who)
        with process([tools / "postgres", "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", ""], cwd="/", **who):
            yield reachable(port)
    finally:
        shutil.rmtree(folder)


SSH = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=$PWD/known"
PYPI, NPM = "https://pypi.org/simple/idna/", "https://registry.npmjs.org/is-odd"
FILES = ["pypi.org", "files.pythonhosted.org"]
# The name, the programs that it needs, its hosts, the command and what it says.
REGISTRIES = [
    ("curl", ["curl"], ["pypi.org"], f"curl -sSf {PYPI} | head -c 200", "Links for idna"),
    ("wget", ["wget"], ["pypi.org"], f"wget -t 1 -qO- {PYPI} | head -c 200", "Links for idna"),
    ("requests", [], ["pypi.org"], script(f"{PYTHON} -c", REQUESTS, PYPI), "Links for idna"),
    ("aiohttp", [], ["pypi.org"], script(f"{PYTHON} -c", AIOHTTP, PYPI), "Links for idna"),
    ("pip install", [], FILES, f"{PYTHON} -m venv own && own/bin/pip install -q --retries 0 --no-cache-dir idna==3.10 && own/bin/python -c 'import idna; print(idna.__file__)'", "own/lib"),
    ("fetch of node", ["node"], ["registry.npmjs.org"], script("node -e", FETCH, NPM), "is-odd"),
    ("npm install", ["npm"], ["registry.npmjs.org"], "npm install --silent --no-audit --no-fund --fetch-retries=0 --cache own is-odd@3.0.1 && node -p 'require(\"is-odd\")(3)'", "true"),
    ("cargo build", ["cargo", "cc"], ["index.crates.io", "static.crates.io"],
     f"mkdir -p src && echo '{PACKAGE}' >Cargo.toml && echo 'fn main() {{ println!(\"made {{}}\", itoa::Buffer::new().format(7)); }}' >src/main.rs && CARGO_NET_RETRY=0 CARGO_TARGET_DIR=$PWD/target cargo run -q", "made 7"),
    ("apt-get", ["apt-get"], [], APT, "hello_"),
]
# The name, the programs that it needs, the server, the command for a port and what it says.
SERVERS = [
    ("git clone over HTTP", ["git"], web, lambda port: f"git clone -q http://127.0.0.1:{port}/one.git one && cat one/greeting", "hello"),
    ("git clone by its own protocol", ["git"], daemon, lambda port: f"git clone -q git://127.0.0.1:{port}/one.git one && cat one/greeting", "hello"),
    ("ssh", ["ssh"], ssh, lambda port: f"{SSH} -p {port} a@127.0.0.1 'echo hello from there'", "hello from there"),
    ("git clone over ssh", ["git", "ssh"], ssh, lambda port: f"GIT_SSH_COMMAND=\"{SSH}\" git clone -q ssh://a@127.0.0.1:{port}/one.git one && cat one/greeting", "hello"),
    ("psql", ["psql"], postgres, lambda port: f"psql -h 127.0.0.1 -p {port} -U reach -Atc 'select 6 * 7' postgres", "42"),
    ("websockets", [], websocket, lambda port: script(f"{PYTHON} -c", WEBSOCKET, port), "hello over a websocket"),
    ("HTTP/2 of node", ["node"], lambda: node(HTTP2_SERVER), lambda port: script("node -e", HTTP2_CLIENT, port), "hello over 2.0"),
    ("HTTP/2 of curl", ["curl", "node"], lambda: node(HTTP2_SERVER), lambda port: f"curl -sS --http2-prior-knowledge http://127.0.0.1:{port}/", "hello over 2.0"),
    ("gRPC", [], grpc, lambda port: script(f"{PYTHON} -c", GRPC_CLIENT, port), "hello over gRPC"),
    ("Java", ["java"], web, lambda port: f"cat >Reach.java <<'END'\n{JAVA}\nEND\njava Reach.java http://127.0.0.1:{port}/greeting", "hello"),
]


def reach(host):
    plain = host.removeprefix("http://")
    try:
        socket.create_connection((plain, 443 if plain == host else 80), 20).close()
    except OSError as error:
        raise Lacking(f"{host} is not reached from here: {error}") from None


def judged(name, hosts, command, expected):
    """Whether the program works with its hosts, and only with them."""
    said = called(hosts, command)
    is_right = expected in said
    without = called([], command)
    is_held = expected not in without
    print(f"{'ok' if is_right and is_held else 'WRONG'} {name}", flush=True)
    if not is_right:
        print(said[-2000:])
    if not is_held:
        print("without a grant:", without[-2000:])
    return is_right and is_held


def main():
    results = []
    for name, programs, hosts, command, expected in REGISTRIES:
        try:
            need(*programs)
            hosts = hosts or sources()
            for host in hosts:
                reach(host)
            results.append(judged(name, hosts, command, expected))
        except Lacking as reason:
            print(f"SKIPPED: {name}: {reason}", flush=True)
    for name, programs, server, command, expected in SERVERS:
        try:
            need(*programs)
            with server() as port:
                results.append(judged(name, [f"127.0.0.1:{port}"], command(port), expected))
        except Lacking as reason:
            print(f"SKIPPED: {name}: {reason}", flush=True)
    print(f"{sum(results)} of {len(results)} programs reach their hosts, and nothing without")
    sys.exit(0 if results and all(results) else 1)


main()
