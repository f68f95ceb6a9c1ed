"""Attempts to misuse a placeholder, or a connection that haft opens. Each way returns what came back, or raises an error.
What the hosts themselves find wrong counts whatever is said here. `clients.py` has the words of the command line."""

import base64
import concurrent.futures
import ctypes
import os
import re
import socket
import ssl
import subprocess
import time

from clients import (CLOSED, FORBIDDEN, IS_HELD, KEY, OTHER, Out, PORT, SECONDS, SECRET, SHARED, SIBLING, TOKEN, ask, exchange, extension,
                     h2, head, hello, in_pieces, names, packets, posted, readings, records, tls, unchecked, without, without_swap)


def resumed():
    context = unchecked()
    first = tls(context=context)
    exchange(first, head())
    second = tls(context=context, session=first.session, name="other.test")
    return exchange(second, head())


def openssl(*words, typed):
    """Each text of `typed` is what OpenSSL's client reads from its terminal at one time; it takes `R` and `K` for commands."""
    line = ["openssl", "s_client", "-connect", f"localhost:{PORT}", "-servername", "localhost", *words]
    client = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for text in typed:
            time.sleep(0.5)
            client.stdin.write(text.encode())
            client.stdin.flush()
        return client.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        client.kill()
        return client.communicate()[0]


def early():
    openssl("-sess_out", "session", "-ign_eof", typed=[head()])
    with open("early", "w") as file:
        file.write(head("GET /leak"))
    return openssl("-sess_in", "session", "-early_data", "early", typed=[""])


# Answers that repeat the secret.


def curl(name, *words):
    """By curl, which shows headers, trailers and what came before."""
    line = ["curl", "-sS", "-i", "-m", "5", "-k", "--cacert", "/dev/null", "-H", KEY, *words, f"https://localhost:{PORT}/answers/{name}"]
    ran = subprocess.run(line, capture_output=True, timeout=20)
    return ran.stdout + ran.stderr


def repeated(name, *fields):
    return lambda: ask(f"GET /answers/{name}", "TE: trailers, gzip", "Accept-Encoding: gzip, deflate, br", *fields)


def over_h2(name):
    return lambda: curl(name, "--http2", "--compressed")


def by_pieces():
    """The answer in pieces that are too short to be recognised."""
    pieces = [ask("GET /answers/range", f"Range: bytes={at}-{at + 3}").partition(b"\r\n\r\n")[2] for at in range(0, 40, 4)]
    return b"".join(pieces)


def followed():
    """A redirect to another host."""
    said = ask("GET /answers/redirect").decode("latin-1")
    target = re.search(r"(?i)location: https://localhost:(\d+)(\S*)", said)
    return said.encode() + without_swap(int(target[1]), target[2])


# Upgrades, and the authority of the process.


def upgraded(raw, path="/socket", protocol="websocket"):
    stream = tls()
    stream.sendall(head("GET " + path, "Connection: Upgrade", f"Upgrade: {protocol}", close=False).encode())
    said = stream.recv(4096)
    return said + exchange(stream, raw)


def keys_of_the_authority():
    """Everything that this process may read and that may have a key."""
    found = []
    for top in ["/dev/haft", "/proc/self/environ", "/proc/1/environ", "/proc/1/cmdline", "/proc/1/maps", "/proc/1/root/dev/haft"]:
        paths = [os.path.join(top, name) for name in os.listdir(top)] if os.path.isdir(top) else [top]
        for path in paths:
            try:
                with open(path, "rb") as file:
                    found.append(file.read())
            except OSError as error:
                found.append(str(error).encode())
    if b"PRIVATE KEY" in b"".join(found):
        raise Out("a key")
    return b"no key in %d files" % len(found)


def memory_of_haft():
    with open("/proc/1/mem", "rb", 0) as memory, open("/proc/1/maps") as maps:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            memory.seek(start)
            yield memory.read(end - start)


def impersonated():
    """A server of its own with a certificate that the authority should have signed."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
             "-CA", "/dev/haft/ca.pem", "-keyout", "own.key", "-out", "own.pem"]
    ran = subprocess.run(words, capture_output=True, timeout=20)
    if ran.returncode == 0:
        raise Out("a certificate of the authority")
    return ran.stderr[-80:]


def led_elsewhere():
    """A connection that haft opens is connected to another host."""
    stream = socket.create_connection(("localhost", PORT), SECONDS)
    ctypes.CDLL(None).connect(stream.fileno(), bytes(16), 16)
    stream.connect(("127.0.0.1", CLOSED))
    return exchange(stream, "GET / HTTP/1.1\r\n\r\n")


def reached(host, port, *pieces):
    return exchange(socket.create_connection((host, port), SECONDS), *pieces)


BASE = f"localhost:{PORT}"
LENGTH = f"Content-Length: {len(FORBIDDEN)}"
CHUNKED = "Transfer-Encoding: chunked"
HIDDEN = "0\r\n\r\n" + FORBIDDEN
ELSEWHERE = f"localhost:{OTHER}"
# An encrypted name (ECH), of the form that clients send to hide that they have none.
ENCRYPTED = extension(0xFE0D, b"\0\0\1\0\1\x07\0\x20" + bytes(32) + b"\0\x80" + bytes(128))
HALVES = TOKEN[:20], TOKEN[20:]


def basic(login):
    return "Authorization: Basic " + base64.b64encode(login.encode()).decode()


ANSWERS = ["plain", "none", "json", "base64", "basic", "hex", "refused", "header", "cookie", "latin", "name", "reason", "type", "early",
           "continue", "trailer", "binary-trailer", "chunks", "extension", "closing", "folded", "lines", "two", "zero", "old", "gzip", "deflate",
           "br", "transfer-gzip", "identity", "mixed", "switch"]


def shared(name):
    return lambda: without_swap(SHARED, name=name)


WAYS = {
    # The name of another host.
    "Host of another granted host": lambda: ask(host=ELSEWHERE),
    "Host of a host that is not granted": lambda: ask(host=f"localhost:{CLOSED}"),
    "Host of another name": lambda: ask(host=f"other.test:{PORT}"),
    "Host without a port": lambda: ask(host="localhost"),
    "Host with a dot": lambda: ask(host=f"localhost.:{PORT}"),
    "Host with a plus": lambda: ask(host=f"localhost:+{PORT}"),
    "Host with a zero": lambda: ask(host=f"localhost:0{PORT}"),
    "Host with a user": lambda: ask(host=f"{BASE}@other.test"),
    "Host with a user before": lambda: ask(host=f"other.test@{BASE}"),
    "Host with a path": lambda: ask(host=f"{BASE}/other.test"),
    "Host with a space": lambda: ask(host=f"{BASE} other.test"),
    "Host with a comma": lambda: ask(host=f"{BASE}, other.test"),
    "Host with an escape": lambda: ask(host=f"l%6fcalhost:{PORT}"),
    "Host that is an address": lambda: ask(host=f"127.0.0.1:{PORT}"),
    "Host that is the placeholder": lambda: ask(host=TOKEN),
    "no Host": lambda: ask(host=None),
    "an empty Host": lambda: ask(host=""),
    "two Hosts": lambda: ask("GET /ok", "Host: other.test"),
    "two equal Hosts": lambda: ask("GET /ok", f"Host: {BASE}"),
    "a Host that Connection removes": lambda: ask("GET /ok", "Connection: host", "X-Forwarded-Host: other.test"),
    "an absolute URL of another host": lambda: ask(f"GET https://{ELSEWHERE}/ok"),
    "an absolute URL of another name": lambda: ask("GET https://other.test/ok"),
    "an absolute URL of HTTP": lambda: ask("GET http://other.test/ok"),
    "an absolute URL with a user": lambda: ask(f"GET https://{BASE}@other.test/ok"),
    "an absolute URL and another Host": lambda: ask(f"GET https://{BASE}/ok", host=ELSEWHERE),
    "an absolute URL of a file": lambda: ask("GET file:///ok"),
    "a line without a scheme": lambda: ask("GET //other.test/ok"),
    "a line of a host alone": lambda: ask(f"GET {ELSEWHERE}"),
    ":authority of another host": lambda: h2(authority=ELSEWHERE),
    ":authority of another name": lambda: h2(authority="other.test"),
    ":authority with a user": lambda: h2(authority=f"other.test@{BASE}"),
    "no :authority": lambda: h2(authority=None),
    "no :authority and another host": lambda: h2(("host", ELSEWHERE), authority=None),
    ":authority and another host": lambda: h2(("host", ELSEWHERE)),
    "host and another :authority": lambda: h2(("host", BASE), authority=ELSEWHERE),
    ":authority and host of another": lambda: h2(("host", "other.test"), authority="other.test"),
    ":authority and two hosts": lambda: h2(("host", BASE), ("host", "other.test")),
    "two :authority": lambda: h2((":authority", "other.test")),
    ":path of another host": lambda: h2(path="//other.test/ok"),
    ":path that is a URL": lambda: h2(path="https://other.test/ok"),
    ":scheme of HTTP": lambda: h2(scheme="http", authority="other.test"),
    # The name in TLS.
    "SNI of another name": lambda: ask(name="other.test"),
    "SNI and Host of another name": lambda: ask(name="other.test", host=f"other.test:{PORT}"),
    "SNI of another name over HTTP/2": lambda: h2(name="other.test"),
    "no SNI": lambda: ask(name=None),
    "no SNI and Host of another host": lambda: ask(name=None, host=ELSEWHERE),
    "no SNI over HTTP/2": lambda: h2(name=None),
    "SNI with a dot": lambda: ask(name="localhost."),
    "SNI that is an address": lambda: hello(names(b"127.0.0.1")),
    "SNI of two names": lambda: hello(names(b"localhost", b"other.test")),
    "SNI twice": lambda: hello(names(b"localhost"), names(b"other.test")),
    "SNI with a zero byte": lambda: hello(names(b"localhost\0.other.test")),
    "an empty SNI": lambda: hello(names(b"")),
    "SNI of another kind": lambda: hello(extension(0, b"\0\x0c\1\0\x09localhost")),
    "SNI that is the placeholder": lambda: hello(names(TOKEN.encode())),
    "an encrypted name": lambda: hello(names(b"localhost"), ENCRYPTED),
    "an encrypted name and another one": lambda: hello(names(b"other.test"), ENCRYPTED),
    "an old encrypted name": lambda: hello(extension(0xFFCE, bytes(200))),
    "a first message in records": lambda: in_pieces(records, host=ELSEWHERE),
    "a first message in packets": lambda: in_pieces(packets, host=ELSEWHERE),
    "another name in records": lambda: in_pieces(records, name="other.test"),
    "another name in packets": lambda: in_pieces(packets, name="other.test"),
    "a protocol of another kind": lambda: ask(alpn=["ftp"], host=ELSEWHERE),
    "HTTP/2 without its protocol": lambda: h2(alpn=None, authority=ELSEWHERE),
    "HTTP/2 under HTTP/1.1": lambda: h2(alpn=["http/1.1"], path="/leak"),
    "HTTP/1.1 under HTTP/2": lambda: ask(alpn=["h2"], host=ELSEWHERE),
    "a session of another name": resumed,
    "early data": early,
    "a new handshake": lambda: openssl("-tls1_2", typed=["R\n", head("GET /leak")]),
    "a new key": lambda: openssl("-tls1_3", typed=["K\n", head("GET /leak")]),
    "an old version of TLS": lambda: openssl("-tls1_1", "-cipher", "ALL:@SECLEVEL=0", typed=[head()]),
    "SSL 2": lambda: reached("localhost", PORT, b"\x80\x2e\1\0\2\0\x15\0\0\0\x10" + bytes(39)),
    "TLS for two hosts on one connection": lambda: ask(body=head(host=ELSEWHERE), close=False),
    # Without TLS, and by other ways to the host.
    "no TLS": lambda: reached("localhost", PORT, head()),
    "no TLS at the usual port": lambda: reached("localhost", 80, head(host="localhost")),
    "no TLS over HTTP/2": lambda: reached("localhost", PORT, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)),
    "a start of TLS later": lambda: reached("localhost", PORT, head("OPTIONS *", "Connection: Upgrade", "Upgrade: TLS/1.2")),
    "a proxy's line": lambda: reached("localhost", PORT, f"PROXY TCP4 127.0.0.1 127.0.0.1 1 {PORT}\r\n" + head()),
    "the address of the host": lambda: ask(address="127.0.0.1", name=None),
    "another address of loopback": lambda: ask(address="127.0.0.2"),
    "another granted name of the address": shared(None),
    "another name of the shared address": shared("other.test"),
    "an encrypted name at the shared address": lambda: hello(ENCRYPTED, port=SHARED),
    "the host's rules at the shared address": lambda: without_swap(SHARED, "/leak"),
    "the port at which haft listens": lambda: reached("127.0.0.1", tls().getpeername()[1], head()),
    "a connection that is led elsewhere": led_elsewhere,
    "another granted host": lambda: without_swap(OTHER),
    "another granted host in the query": lambda: without_swap(OTHER, f"/ok?key={TOKEN}"),
    "the secret's host at another port": lambda: exchange(tls(OTHER), head()),
    "a host that is not granted": lambda: without_swap(CLOSED),
    "CONNECT": lambda: ask(f"CONNECT {ELSEWHERE}", host=ELSEWHERE, body=head(host=ELSEWHERE)),
    "CONNECT to the host itself": lambda: ask(f"CONNECT {BASE}", body=FORBIDDEN),
    "CONNECT with a path": lambda: ask("CONNECT /ok", body=FORBIDDEN),
    "CONNECT over HTTP/2": lambda: h2(method="CONNECT", authority=ELSEWHERE, scheme=None, path=None, body=FORBIDDEN.encode()),
    "CONNECT over HTTP/2 to the host itself": lambda: h2(method="CONNECT", scheme=None, path=None, body=FORBIDDEN.encode()),
    "CONNECT with a protocol": lambda: h2((":protocol", "websocket"), method="CONNECT", body=b"x"),
    "CONNECT after a request": lambda: ask(f"GET https://{BASE}/ok", "Proxy-Connection: keep-alive", close=False, body=head(f"CONNECT {ELSEWHERE}")),
    # Places in which no placeholder is replaced.
    "a path": lambda: without(f"GET /area/{TOKEN}"),
    "a path and a header": lambda: ask(f"GET /area/{TOKEN.lower()}/{TOKEN}"),
    "a body": lambda: without("POST /upload", f"Content-Length: {len(TOKEN)}", body=TOKEN),
    "a body and a header": lambda: ask("POST /upload", f"Content-Length: {len(TOKEN)}", body=TOKEN),
    "a form": lambda: ask("POST /upload", "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(TOKEN) + 4}", body="key=" + TOKEN),
    "a trailer": lambda: ask("POST /upload", CHUNKED, "Trailer: X-Leak", body=f"1\r\nx\r\n0\r\nX-Leak: {TOKEN}\r\n\r\n"),
    "a trailer over HTTP/2": lambda: h2(("trailer", "x-leak"), path="/upload", method="POST", body=b"x", trailers=[("x-leak", TOKEN)]),
    "a trailer that names a method": lambda: ask("POST /upload", CHUNKED, "Trailer: X-HTTP-Method", body="0\r\nX-HTTP-Method: DELETE\r\n\r\n"),
    "a trailer that names a method over HTTP/2":
        lambda: h2(("trailer", "x-http-method"), path="/upload", method="POST", body=b"x", trailers=[("x-http-method", "DELETE")]),
    "an extension of a chunk": lambda: ask("POST /upload", CHUNKED, body=f"1;a={TOKEN}\r\nx\r\n0\r\n\r\n"),
    "a header's name": lambda: without("GET /ok", f"{TOKEN}: x"),
    "a method": lambda: without(f"{TOKEN} /ok"),
    "two headers": lambda: without("GET /ok", f"X-Key: {HALVES[0]}", f"X-Key: {HALVES[1]}"),
    "two cookies over HTTP/2": lambda: h2(("cookie", HALVES[0]), ("cookie", HALVES[1]), path="/area/x"),
    "a header and an escape": lambda: without("GET /ok", "X-Key: " + "".join(f"%{ord(letter):02x}" for letter in TOKEN)),
    "a query with escapes": lambda: without("GET /ok?key=" + "".join(f"%{ord(letter):02x}" for letter in TOKEN)),
    "a fragment": lambda: without(f"GET /ok#{TOKEN}"),
    "capitals": lambda: without("GET /ok", f"X-Key: {TOKEN.upper()}"),
    "a part of it": lambda: without("GET /ok", f"X-Key: {TOKEN[:-1]}"),
    "base64 that is not Basic": lambda: without("GET /ok", "Authorization: Bearer " + base64.b64encode(TOKEN.encode()).decode()),
    "base64 of base64": lambda: without("GET /ok", basic(base64.b64encode(TOKEN.encode()).decode())),
    "base64 in another header": lambda: without("GET /ok", basic(f"me:{TOKEN}").replace("Authorization", "X-Authorization")),
    "two words of Basic": lambda: without("GET /ok", basic(f"me:{TOKEN}").replace("Basic", "Basic Basic")),
    "another process's placeholder": lambda: without_swap(PORT, token=SIBLING),
    "another process's placeholder and its own": lambda: ask("GET /ok", f"X-Key: {SIBLING}"),
    "a placeholder that is made up": lambda: without_swap(PORT, token=TOKEN[:-4] + "0000"),
    "the name of the secret": lambda: without_swap(PORT, token="${REAL} $REAL {} {{key}}"),
    # Requests that are read in two ways.
    "a length and chunks": lambda: posted(HIDDEN, f"Content-Length: {len(HIDDEN)}", CHUNKED),
    "chunks and a length": lambda: posted(HIDDEN, CHUNKED, "Content-Length: 5"),
    "two lengths": lambda: posted(FORBIDDEN, "Content-Length: 0", LENGTH),
    "two lengths in one": lambda: posted(FORBIDDEN, f"Content-Length: 0, {len(FORBIDDEN)}"),
    "two equal lengths": lambda: posted(FORBIDDEN, LENGTH, LENGTH),
    "a length with a plus": lambda: posted(FORBIDDEN, "Content-Length: +0"),
    "a length below zero": lambda: posted(FORBIDDEN, "Content-Length: -1"),
    "a length with a base": lambda: posted(FORBIDDEN, f"Content-Length: 0x{len(FORBIDDEN):x}"),
    "a length of another name": lambda: posted(FORBIDDEN, "Content_Length: 0", LENGTH),
    "a length that Connection removes": lambda: posted(FORBIDDEN, LENGTH, "Connection: content-length"),
    "a length with an upgrade": lambda: posted(FORBIDDEN, LENGTH, "Connection: Upgrade, content-length", "Upgrade: websocket"),
    "chunks with an upgrade": lambda: posted(HIDDEN, CHUNKED, "Connection: Upgrade, transfer-encoding", "Upgrade: websocket"),
    "chunks and a length with an upgrade": lambda: posted(HIDDEN, CHUNKED, "Content-Length: 5", "Upgrade: websocket"),
    "a body of GET": lambda: ask("GET /ok", LENGTH, body=FORBIDDEN),
    "chunks of GET": lambda: ask("GET /ok", CHUNKED, body=HIDDEN),
    "no length": lambda: posted(FORBIDDEN),
    "a coding before chunks": lambda: posted(HIDDEN, "Transfer-Encoding: gzip, chunked"),
    "a coding after chunks": lambda: posted(HIDDEN, "Transfer-Encoding: chunked, identity"),
    "an unknown coding": lambda: posted(HIDDEN, "Transfer-Encoding: xchunked", "Content-Length: 5"),
    "two codings": lambda: posted(HIDDEN, CHUNKED, "Transfer-Encoding: identity"),
    "chunks twice": lambda: posted(HIDDEN, CHUNKED, CHUNKED),
    "a coding with a tab": lambda: posted(HIDDEN, "Transfer-Encoding:\tchunked", "Content-Length: 5"),
    "a coding with a control character": lambda: posted(HIDDEN, "Transfer-Encoding: \x0bchunked", "Content-Length: 5"),
    "a coding in quotes": lambda: posted(HIDDEN, 'Transfer-Encoding: "chunked"', "Content-Length: 5"),
    "a coding under HTTP/1.0": lambda: ask("POST /upload HTTP/1.0", CHUNKED, "Content-Length: 5", body=HIDDEN),
    "a chunk with a base": lambda: posted("0x0\r\n\r\n" + FORBIDDEN, CHUNKED),
    "a chunk with a plus": lambda: posted("+0\r\n\r\n" + FORBIDDEN, CHUNKED),
    "a chunk that is too large": lambda: posted("10000000000000000\r\n\r\n" + FORBIDDEN, CHUNKED),
    "a chunk without its end": lambda: posted("1\r\nxx0\r\n\r\n" + FORBIDDEN, CHUNKED),
    "a chunk's line that ends early": lambda: posted("1;a\nx\r\n0\r\n\r\n", CHUNKED),
    "an extension with a line": lambda: posted("1;a=\"\r\nx\r\n0\r\n\r\n", CHUNKED),
    "a space before the colon": lambda: posted(HIDDEN, "Transfer-Encoding : chunked", "Content-Length: 5"),
    "a folded header": lambda: posted(HIDDEN, "Transfer-Encoding:\r\n chunked", "Content-Length: 5"),
    "a folded Host": lambda: ask("GET /ok", "X: x\r\n Host: other.test"),
    "a first header with a space": lambda: exchange(tls(), head().replace("Host", " Host: other.test\r\nHost", 1)),
    "a header without a colon": lambda: ask("GET /ok", "Host other.test"),
    "a header without a name": lambda: ask("GET /ok", ": other.test"),
    "lines that end early": lambda: exchange(tls(), head("GET /ok", "X: x\nHost: other.test")),
    "lines that return": lambda: exchange(tls(), head("GET /ok", "X: x\rHost: other.test")),
    "lines of both kinds": lambda: exchange(tls(), head("GET /ok", "X: x").replace("\r\n", "\n") + FORBIDDEN),
    "a zero byte in a header": lambda: ask("GET /ok", "X: x\0Host: other.test"),
    "a zero byte in a name": lambda: ask("GET /ok", "Ho\0st: other.test"),
    "another version": lambda: ask("GET /leak HTTP/1.2"),
    "version 2 in a line": lambda: ask("GET /leak HTTP/2.0"),
    "version 1.0": lambda: ask("GET /leak HTTP/1.0"),
    "version 0.9": lambda: exchange(tls(), f"GET /leak?key={TOKEN}\r\n"),
    "two versions": lambda: ask("GET /ok HTTP/1.1 HTTP/1.1"),
    "a line with tabs": lambda: exchange(tls(), head("GET\t/leak\tHTTP/1.1")),
    "a line with two spaces": lambda: ask("GET  /leak"),
    "a line after empty ones": lambda: exchange(tls(), "\r\n\n" + head("GET /leak")),
    "a header that Connection removes later": lambda: ask("GET /ok", "Connection: Upgrade, Accept-Encoding, X-Key", "Upgrade: x", close=False),
    "an expectation": lambda: posted(FORBIDDEN, LENGTH, "Expect: 100-continue"),
    "a length of zero over HTTP/2": lambda: h2(("content-length", "0"), path="/upload", method="POST", body=FORBIDDEN.encode()),
    "a short length over HTTP/2": lambda: h2(("content-length", "5"), path="/upload", method="POST", body=FORBIDDEN.encode()),
    "a length without a body over HTTP/2": lambda: h2(("content-length", "500")),
    "chunks over HTTP/2": lambda: h2(("transfer-encoding", "chunked"), path="/upload", method="POST", body=HIDDEN.encode()),
    "Connection over HTTP/2": lambda: h2(("connection", "content-length"), ("content-length", "5")),
    "Upgrade over HTTP/2": lambda: h2(("upgrade", "websocket"), path="/socket", body=FORBIDDEN.encode()),
    "a line in a header over HTTP/2": lambda: h2(("x", "x\r\nhost: other.test")),
    "a line end in a header over HTTP/2": lambda: h2(("x", "x\r\n\r\n" + FORBIDDEN)),
    "a zero byte over HTTP/2": lambda: h2(("x", "x\0y")),
    "a colon in a name over HTTP/2": lambda: h2(("host: other.test\r\nx", "x")),
    "a name in capitals over HTTP/2": lambda: h2(("Host", "other.test")),
    "a line in a path over HTTP/2": lambda: h2(path="/ok HTTP/1.1\r\nHost: other.test\r\nX: x"),
    "a space in a path over HTTP/2": lambda: h2(path="/ok HTTP/1.1"),
    "a line in a method over HTTP/2": lambda: h2(method="GET /leak HTTP/1.1\r\nX: x\r\n\r\nGET"),
    "a line in a trailer over HTTP/2": lambda: h2(path="/upload", method="POST", body=b"x", trailers=[("x", "x\r\n\r\n" + FORBIDDEN)]),
    "a trailer with a path over HTTP/2": lambda: h2(path="/upload", method="POST", body=b"x", trailers=[(":path", "/leak")]),
    "two paths over HTTP/2": lambda: h2((":path", "/leak")),
    "no path over HTTP/2": lambda: h2(path=None),
    "an empty path over HTTP/2": lambda: h2(path=""),
    "a path without a slash over HTTP/2": lambda: h2(path="ok"),
    # Requests outside of the rules.
    "a second request": lambda: ask(body=FORBIDDEN, close=False),
    "a second request to another host": lambda: ask(body=head(host=ELSEWHERE), close=False),
    "a second request of another method": lambda: ask(body=head("DELETE /ok"), close=False),
    "a method in small letters": lambda: ask("get /ok"),
    "HEAD": lambda: ask("HEAD /ok"),
    "OPTIONS": lambda: ask("OPTIONS *"),
    "TRACE": lambda: ask("TRACE /ok"),
    "a method with a space": lambda: exchange(tls(), head(" GET /leak")),
    "a method of HTTP/2": lambda: ask("PRI *"),
    **{f"the path {path}": (lambda path: lambda: ask("GET " + path))(path) for path in [
        "//ok", "/ok/", "/OK", "/ok/../leak", "/area/../leak", "/area/./x", "/area//leak", "/area/%2e%2e/leak", "/area/.%2e/leak",
        "/area/%2E%2e%2Fleak", "/area%2f..%2fleak", "/area/..%2fleak", "/area/%252e%252e/leak", "/area/..;/leak", "/area/..;a=b/leak",
        "/area/..%3b/leak", "/area/..\\leak", "/area\\..\\leak", "/area/..%5cleak", "/area/%c0%ae%c0%ae/leak", "/area/%00/../leak", "/area/x%00",
        "/area/%u002e%u002e/leak", "/area/..%0d%0a/leak", "/area/..%09/leak", "/area/..%20/leak", "/area/%", "/area/%2", "/area/%ff", "/ok%00", "/ok%20",
        "/ok;x", "/ok%3fx", "/ok%23x", "/ok.json", "/leak?/ok", "/leak#/ok", "/leak;/ok", "/leak%3f/../ok", "/./ok", "/ok/.", "/%6feak/../ok",
        "/leak/%2e%2e/ok", "?/ok", "#/ok", "/", "*", "ok", "\\ok"]},
    **{f"the header {name}": (lambda name: lambda: ask("GET /ok", f"{name}: DELETE"))(name) for name in [
        "X-HTTP-Method-Override", "x-http-method-override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL",
        "X_HTTP_Method_Override", "X-HTTP_Method-Override", "X.HTTP.Method.Override", "X_Original_URL"]},
    "a header of another method that Connection removes": lambda: ask("GET /ok", "X-Original-URL: /leak", "Connection: x-original-url"),
    "a parameter of another method": lambda: ask("GET /ok?_method=DELETE"),
    "a parameter of another method in escapes": lambda: ask("GET /ok?%5fMethod=DELETE"),
    "a header of another method over HTTP/2": lambda: h2(("x-original-url", "/leak")),
    # Upgrades.
    "bytes after an upgrade": lambda: upgraded(TOKEN + "\n"),
    "an upgrade without a protocol": lambda: ask("GET /ok", "Connection: Upgrade", body=TOKEN + "\n" + FORBIDDEN),
    "a request after an upgrade to HTTP/2": lambda: upgraded(FORBIDDEN, "/ok", "h2c"),
    "a request after an upgrade to HTTP/1.1": lambda: upgraded(FORBIDDEN, "/ok", "HTTP/1.1"),
    "a request after an upgrade to TLS": lambda: upgraded(FORBIDDEN, "/ok", "TLS/1.2"),
    "an upgrade of a forbidden path": lambda: upgraded(FORBIDDEN, "/leak"),
    "the secret after an upgrade": lambda: upgraded("repeat\n"),
    # The authority of the process.
    "the authority's key": keys_of_the_authority,
    "the memory of haft": lambda: b"".join(memory_of_haft()),
    "a certificate of its own": impersonated,
    # Answers that repeat the secret.
    "a binary answer": repeated("binary"),
    "a redirect": followed,
    **{f"an answer: {name}": repeated(name) for name in ANSWERS},
    **{f"an answer over HTTP/2: {name}": over_h2(name) for name in ANSWERS},
}
# What docs/sandbox.md and SECURITY.md say is not searched.
LIMITS = {
    "pieces of an answer": by_pieces,
    "an answer that is compressed though nobody asked": repeated("gzip-always"),
    "an answer that is compressed in another way": repeated("br-always"),
}


def brief(said):
    """The first line of an answer, and its end."""
    first = said.partition(b"\r\n")[0][:20].decode("latin-1")
    return ascii(first + " ... " + said[-16:].decode("latin-1").strip()) if len(said) > 40 else ascii(said)


def tried(name, way):
    try:
        said = way()
        is_out = b"PASSED" in said or any(SECRET.search(reading) for reading in readings(said))
        return is_out, f"{name} {brief(said)}"
    except Out as error:
        return True, f"{name} {error}"
    except Exception as error:
        return False, f"{name} {str(error)[:40]!r}"


if __name__ == "__main__":
    if IS_HELD and (b"authorized" not in ask() or b"authorized" not in h2()):
        raise SystemExit("the placeholder is worth nothing")
    print(f"{len(WAYS)} ways")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for is_out, text in pool.map(tried, WAYS, WAYS.values()):
            print("OUT" if is_out else "held", text, flush=True)
        for is_out, text in pool.map(tried, LIMITS, LIMITS.values()):
            print("limit" if is_out else "limit that held", text, flush=True)
