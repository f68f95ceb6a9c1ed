"""Requests of HTTP and TLS that are made by hand, for `ways.py`. Each function returns what came back, and raises an error
if nothing did. The words of the command line are the ports of the hosts in `hosts.py`, and the placeholder of another
process."""

import base64
import binascii
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import urllib.parse
import zlib

PORT, OTHER, SHARED, CLOSED = map(int, sys.argv[1:5])
SIBLING, TOKEN = sys.argv[5], os.environ["TOKEN"]
KEY = f"X-Key: {TOKEN}"
# The secret begins with the letters here, without being here itself.
SECRET = re.compile(rb"[Q]Z[Q]Z[0-9a-f]{20}")
FORBIDDEN = f"GET /leak HTTP/1.1\r\nHost: localhost:{PORT}\r\n{KEY}\r\nConnection: close\r\n\r\n"
SECONDS = 4
# Whether haft runs this process.
IS_HELD = os.path.exists("/dev/haft/ca.pem")


class Out(Exception):
    """An attempt that succeeded."""


def unchecked():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def tls(port=PORT, name="localhost", alpn=None, session=None, context=None, address="localhost"):
    context = context or unchecked()
    if alpn:
        context.set_alpn_protocols(alpn)
    plain = socket.create_connection((address, port), SECONDS)
    stream = context.wrap_socket(plain, server_hostname=name, session=session)
    if IS_HELD and port == PORT and b"authority of the test" in stream.getpeercert(True):
        raise Out("a connection to the secret's host that haft does not open")
    return stream


def rest(stream):
    said = b""
    try:
        while more := stream.recv(1 << 16):
            said += more
    except OSError:
        if not said:
            raise
    return said


def exchange(stream, *pieces):
    for piece in pieces:
        stream.sendall(piece if isinstance(piece, bytes) else piece.encode())
    return rest(stream)


def head(line="GET /ok", *fields, host=f"localhost:{PORT}", close=True):
    """A request with the placeholder. A `host` of None leaves the header out."""
    hosts = [] if host is None else [f"Host: {host}"]
    lines = [line if "HTTP/" in line else line + " HTTP/1.1", *hosts, KEY, *fields, *["Connection: close"] * close]
    return "\r\n".join(lines) + "\r\n\r\n"


def ask(line="GET /ok", *fields, host=f"localhost:{PORT}", body="", close=True, **to):
    return exchange(tls(**to), head(line, *fields, host=host, close=close) + body)


def without(line, *fields, body=""):
    """A request with the placeholder where the fields have it, and nowhere else."""
    lines = [line + " HTTP/1.1", f"Host: localhost:{PORT}", *fields, "Connection: close"]
    return exchange(tls(), "\r\n".join(lines) + "\r\n\r\n" + body)


def posted(body, *fields):
    """A request with a body in which another request may be hidden."""
    return ask("POST /upload", *fields, body=body, close=False)


# HTTP/2: one request of frames that are made here, with headers that no table has.


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def packed(fields):
    def text(part):
        part = part.encode() if isinstance(part, str) else part
        length = bytes([len(part)]) if len(part) < 127 else bytes([127, (len(part) - 127) & 127 | 128, (len(part) - 127) >> 7])
        return length + part
    return b"".join(b"\0" + text(name) + text(value) for name, value in fields)


def h2(*more, body=None, trailers=None, alpn=("h2",), name="localhost", port=PORT, **pseudo):
    known = {"method": "GET", "scheme": "https", "authority": f"localhost:{port}", "path": "/ok", **pseudo}
    fields = [(":" + part, value) for part, value in known.items() if value is not None] + [("x-key", TOKEN), *more]
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    sent += frame(1, 4 if body is not None or trailers else 5, 1, packed(fields))
    if body is not None:
        sent += frame(0, 0 if trailers else 1, 1, body)
    if trailers:
        sent += frame(1, 5, 1, packed(trailers))
    stream = tls(name=name, port=port, alpn=alpn and list(alpn))
    stream.sendall(sent)
    reader, said = stream.makefile("rb"), b""
    while start := reader.read(9):
        length, kind, flags, number = int.from_bytes(start[:3], "big"), start[3], start[4], int.from_bytes(start[5:], "big")
        payload = reader.read(length)
        if kind in (3, 7):
            return said + b"reset %d " % int.from_bytes(payload[-4:] if kind == 3 else payload[4:8], "big") + payload[8:]
        said += payload if kind == 0 else b""
        if number == 1 and flags & 1:
            return said
    return said


# TLS: first messages of a client that are made here, and those of OpenSSL that are sent in other pieces.


def extension(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def names(*all_names):
    listed = b"".join(b"\0" + struct.pack("!H", len(name)) + name for name in all_names)
    return extension(0, struct.pack("!H", len(listed)) + listed)


def hello(*extensions, port=PORT):
    """The answer to a client of TLS 1.2, which shows the certificate."""
    known = extension(10, b"\0\4\0\x1d\0\x17") + extension(11, b"\1\0") + extension(13, b"\0\6\4\3\x08\4\4\1") + extension(23, b"")
    known += b"".join(extensions)
    body = b"\3\3" + os.urandom(32) + b"\0" + b"\0\6\xc0\x2b\xc0\x2f\xc0\x13" + b"\1\0" + struct.pack("!H", len(known)) + known
    message = b"\1" + len(body).to_bytes(3, "big") + body
    plain = socket.create_connection(("localhost", port), SECONDS)
    said = exchange(plain, b"\x16\3\1" + struct.pack("!H", len(message)) + message)
    if IS_HELD and port == PORT and b"authority of the test" in said:
        raise Out("a connection to the secret's host that haft does not open")
    return said


def in_pieces(cut, host=f"localhost:{PORT}", name="localhost"):
    """A request over TLS whose first message is sent as `cut` makes it."""
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = unchecked().wrap_bio(inside, outside, server_hostname=name)
    plain = socket.create_connection(("localhost", PORT), SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = b""
    for step in (session.do_handshake, lambda: session.write(head(host=host).encode()), None):
        while True:
            try:
                if step is None:
                    while more := session.read(1 << 16):
                        said += more
                    return said
                step()
                break
            except ssl.SSLWantReadError:
                sent = outside.read()
                for piece in cut(sent) if sent[:1] == b"\x16" else [sent]:
                    plain.sendall(piece)
                more = plain.recv(1 << 16)
                if not more:
                    return said
                inside.write(more)
            except ssl.SSLError:
                if step is None:
                    return said
                raise


def records(sent):
    """The first message in records of ten bytes."""
    pieces = [sent[at:at + 10] for at in range(5, len(sent), 10)]
    return [b"".join(sent[:3] + struct.pack("!H", len(piece)) + piece for piece in pieces)]


def packets(sent):
    return [sent[at:at + 1] for at in range(len(sent))]


def without_swap(port, path="/ok", name="localhost", token=TOKEN):
    request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nX-Key: {token}\r\nConnection: close\r\n\r\n"
    return exchange(tls(port, name), request)


def readings(said):
    """What came, as it is and decoded."""
    yield said
    yield b"".join(re.findall(rb"\r\n?[0-9a-fA-F]+\r\n([^\r\n]*)", said))
    yield urllib.parse.unquote_to_bytes(said)
    for start in (b"\x1f\x8b", b"\x78\x9c"):
        for found in re.finditer(re.escape(start), said):
            try:
                yield zlib.decompressobj(47).decompress(said[found.start():])
            except zlib.error:
                pass
    for word in re.findall(rb"[0-9A-Za-z+/_=-]{16,}", said):
        for shift in range(4):
            try:
                part = word[shift:].rstrip(b"=")
                yield base64.b64decode(part[:len(part) // 4 * 4], b"-_" if b"_" in part or b"-" in part else None)
            except binascii.Error:
                pass
        if re.fullmatch(rb"[0-9a-fA-F]+", word):
            yield bytes.fromhex(word[:len(word) // 2 * 2].decode())
