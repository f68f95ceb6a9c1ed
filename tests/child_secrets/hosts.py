"""The hosts of the ways: that of the secret, one without a secret, one that shares its address with another granted name,
and one that is not granted. Prints their ports, then a `WRONG` line for each request that must not have come: with
the secret in the wrong place, outside of the rules, or one that servers may read in several ways."""

import base64
import gzip
import json
import re
import socket
import ssl
import sys
import threading
import zlib

CERTIFICATE, KEY, SECRET = sys.argv[1], sys.argv[2], sys.argv[3].encode()
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
LINE = re.compile(rb"(" + TOKEN + rb") (/[^ #\\\0-\x20]*) HTTP/1\.1")
FIELD = re.compile(rb"(" + TOKEN + rb"): ?([^\0-\x08\x0a-\x1f]*)")
ALLOWED = re.compile(rb"GET /(ok|socket|answers/[a-z0-9-]+|area(/[A-Za-z0-9-]+)*)|POST /upload")
OVERRIDES = re.compile(rb"(?i)x.(http.method(.override)?|method.override|original.url|rewrite.url)")

# Upgrades after which requests follow.
STANDARDS = [b"h2c", b"HTTP/1.1", b"TLS/1.2"]


class Wrong(Exception):
    """A request that must not have come."""


def line(stream):
    read = stream.readline(1 << 17)
    if read and not read.endswith(b"\r\n"):
        raise Wrong("a line without its end")
    return read[:-2] if read else None


def fields(stream):
    held = []
    while text := line(stream):
        field = FIELD.fullmatch(text)
        if not field:
            raise Wrong("an ambiguous header")
        held.append((field[1].lower(), field[2].strip()))
    return held


def chunks(stream):
    held = b""
    while True:
        size = line(stream)
        if size is None:
            raise ConnectionError("a body without its end")
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", size):
            raise Wrong("an ambiguous chunk")
        held += stream.read(int(size, 16))
        if int(size, 16) == 0:
            return held, fields(stream)
        if line(stream) != b"":
            raise Wrong("a chunk without its end")


class Request:
    def __init__(self, stream, first):
        start = LINE.fullmatch(first)
        if not start:
            raise Wrong(f"an ambiguous first line {first[:40]}")
        self.method, target = start[1], start[2]
        self.path, _, self.query = target.partition(b"?")
        self.fields = fields(stream)
        lengths, codings = self.all(b"content-length"), self.all(b"transfer-encoding")
        if len(lengths) + len(codings) > 1 or codings not in ([], [b"chunked"]) or not all(map(bytes.isdigit, lengths)):
            raise Wrong("an ambiguous body")
        self.body, self.trailers = chunks(stream) if codings else (stream.read(int(lengths[0])) if lengths else b"", [])
        self.has_secret = any(SECRET in value for _, value in self.fields) or SECRET in self.query
        logins = [value.split(b" ", 1)[1] for value in self.all(b"authorization") if value.lower().startswith(b"basic ")]
        self.has_secret |= any(SECRET in base64.b64decode(login + b"==") for login in logins)

    def all(self, name):
        return [value for own, value in self.fields if own == name]

    def check(self, port, has_rules):
        request = self.method + b" " + self.path
        if SECRET in request + self.body or any(SECRET in name + value for name, value in self.trailers):
            raise Wrong("the secret in a path, a body or a trailer")
        if not has_rules and not self.has_secret:
            return
        if self.all(b"host") != [b"localhost:%d" % port]:
            raise Wrong("the name of another host")
        if not ALLOWED.fullmatch(request):
            raise Wrong("a request outside of the rules")
        removed = b",".join(self.all(b"connection")).lower().replace(b" ", b"").split(b",")
        if not set(removed) <= {b"", b"upgrade", b"close", b"keep-alive"}:
            raise Wrong("a header that proxies remove")
        if any(OVERRIDES.fullmatch(name) for name, _ in self.fields + self.trailers):
            raise Wrong("a header that names another request")


def text(body, kind="text/plain", status="200 OK", more=b""):
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n".encode()
    return head + more + b"\r\n" + body


def chunked(pieces, more=b"", trailers=b""):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + (more or b"Content-Type: text/plain\r\n") + b"\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n"


def brotli(data):
    """One piece that is not compressed, and the end."""
    bits = 1 << 20 | (len(data) - 1) << 4
    return bits.to_bytes(3, "little") + data + b"\x03"


def ranged(request, body):
    found = re.fullmatch(rb"bytes=(\d+)-(\d+)", (request.all(b"range") or [b""])[0])
    if not found:
        return text(body)
    start, end = int(found[1]), int(found[2])
    return text(body[start:end + 1], status="206 Partial Content", more=b"Content-Range: bytes %d-%d/%d\r\n" % (start, end, len(body)))


def answer(name, request, other):
    """The answer of a host that repeats the secret."""
    said, leak = b"it is " + SECRET + b" again", b"X-Leak: " + SECRET + b"\r\n"
    accepted = b",".join(request.all(b"accept-encoding"))
    if name in ("gzip", "deflate", "br"):
        packed = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli}[name](said)
        return text(packed, more=b"Content-Encoding: %s\r\n" % name.encode()) if name.encode() in accepted else text(said)
    if name == "transfer-gzip":
        coding = b"gzip, chunked" if b"gzip" in b",".join(request.all(b"te")) else b"chunked"
        body = gzip.compress(said) if coding != b"chunked" else said
        return chunked([body]).replace(b": chunked", b": " + coding, 1)
    if name == "range":
        return ranged(request, said)
    return {
        "plain": lambda: text(said),
        "none": lambda: text(said).replace(b"Content-Type: text/plain\r\n", b""),
        "json": lambda: text(json.dumps({"key": said.decode()}).encode(), "application/json"),
        "base64": lambda: text(base64.b64encode(said)),
        "basic": lambda: text(base64.b64encode(b"me:" + SECRET)),
        "hex": lambda: text(said.hex().encode()),
        "refused": lambda: text(said, status="401 Unauthorized"),
        "header": lambda: text(b"", more=leak),
        "cookie": lambda: text(b"", more=b"Set-Cookie: a=" + SECRET + b"; Path=/\r\n"),
        "latin": lambda: text(b"", more=b"X-Leak: \xe9 " + SECRET + b"\r\n"),
        "name": lambda: text(b"", more=SECRET + b": x\r\n"),
        "reason": lambda: text(b"", status="200 " + SECRET.decode()),
        "type": lambda: text(b"", kind="text/plain; a=" + SECRET.decode()),
        "early": lambda: b"HTTP/1.1 103 Early Hints\r\n" + leak + b"\r\n" + text(b"x"),
        "continue": lambda: b"HTTP/1.1 100 " + SECRET + b"\r\n" + leak + b"\r\n" + text(b"x"),
        "trailer": lambda: chunked([b"x"], b"Content-Type: text/plain\r\nTrailer: X-Leak\r\n", leak),
        "binary-trailer": lambda: chunked([b"x"], b"Content-Type: image/png\r\nTrailer: X-Leak\r\n", leak),
        "chunks": lambda: chunked([said[at:at + 1] for at in range(len(said))]),
        "extension": lambda: chunked([b"x"]).replace(b"1\r\nx", b"1;a=" + SECRET + b"\r\nx"),
        "closing": lambda: b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + said,
        "folded": lambda: text(b"", more=b"X-Leak: a\r\n " + SECRET + b"\r\n"),
        "lines": lambda: text(said, more=leak).replace(b"\r\n", b"\n"),
        "two": lambda: text(b"x") + text(said, more=leak),
        "zero": lambda: text(b"", status="204 No Content").replace(b"Content-Length: 0\r\n", b"") + said,
        "old": lambda: said,
        "redirect": lambda: text(b"", status="302 Found", more=b"Location: https://localhost:%d/?key=%s\r\n" % (other, SECRET)),
        "switch": lambda: b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" + said,
        "identity": lambda: text(said, more=b"Content-Encoding: identity\r\n"),
        "mixed": lambda: text(b"--a\r\nContent-Type: text/plain\r\n\r\n" + said + b"\r\n--a--\r\n", "multipart/mixed; boundary=a"),
        "gzip-always": lambda: text(gzip.compress(said), more=b"Content-Encoding: gzip\r\n"),
        "br-always": lambda: text(brotli(said), more=b"Content-Encoding: br\r\n"),
        "binary": lambda: text(said, "application/octet-stream"),
    }[name]()


def answers(stream, port, has_rules, may_have, other):
    while (first := line(stream)) is not None:
        request = Request(stream, first)
        request.check(port, has_rules)
        if request.has_secret and not may_have:
            raise Wrong("the secret")
        if not request.has_secret:
            stream.write(text(b"no secret came", status="401 Unauthorized"))
        elif request.all(b"upgrade") and (request.path == b"/socket" or request.all(b"upgrade")[0] in STANDARDS):
            stream.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            stream.flush()
            raw = stream.readline()
            if SECRET in raw:
                raise Wrong("the secret after an upgrade")
            if raw.startswith((b"GET", b"POST")):
                raise Wrong("a request after an upgrade")
            stream.write(b"raw: " + (SECRET if raw == b"repeat\n" else raw))
            return
        elif request.path.startswith(b"/answers/"):
            stream.write(answer(request.path[9:].decode(), request, other))
        else:
            stream.write(text(b"authorized"))
        stream.flush()
        if b"close" in request.all(b"connection") or request.path == b"/answers/closing":
            return


def serve(connection, context, *rules):
    connection.settimeout(20)
    try:
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            connection = context.wrap_socket(connection, server_side=True)
        stream = connection.makefile("rwb")
        try:
            answers(stream, *rules)
        except Wrong as wrong:
            print(f"WRONG {rules[0]} {wrong}\n", end="", flush=True)
            stream.write(text(f"PASSED: {wrong}".encode()))
        stream.flush()
        connection.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError):
        pass
    connection.close()


def accept(listener, *rules):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], context, *rules), daemon=True).start()


def closed(listener):
    while True:
        listener.accept()[0].close()
        print("WRONG a connection to the host that is not granted\n", end="", flush=True)


listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(4)]
ports = [listener.getsockname()[1] for listener in listeners]
print(*ports, flush=True)
other = ports[1]
# The port, whether all requests must be in the rules, and whether the secret may come.
for listener, rules in zip(listeners, [(ports[0], True, True, other), (ports[1], False, False, other), (ports[2], False, True, other)]):
    threading.Thread(target=accept, args=(listener, *rules), daemon=True).start()
closed(listeners[3])
