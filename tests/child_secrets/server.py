"""A strict host over TLS: it answers requests with the secret, and refuses all others. Prints its port, then a line for
each request: the method, the path, the status and what Host named."""

import base64
import hashlib
import hmac
import http.server
import io
import json
import pathlib
import ssl
import sys
import tarfile
import threading
import urllib.parse
import zipfile

CERTIFICATE, KEY, SECRET, FOLDER = sys.argv[1:5]
PLAIN = len(sys.argv) > 5


def wheel():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        made.writestr("tiny_fake.py", "NAME = 'tiny'\n")
        made.writestr("tiny_fake-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-fake\nVersion: 1.0\n")
        made.writestr("tiny_fake-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("tiny_fake-1.0.dist-info/RECORD", "")
    return held.getvalue()


def package():
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as made:
        text = json.dumps({"name": "tiny-fake", "version": "1.0.0"}).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(text)
        made.addfile(entry, io.BytesIO(text))
    return held.getvalue()


WHEEL, PACKAGE, OBJECTS = wheel(), package(), {}
STEPS = threading.Semaphore(0)


class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def authorized(self):
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            value = base64.b64decode(value).decode().partition(":")[2]
        if kind == "AWS4-HMAC-SHA256":
            return self.is_signed()
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        return SECRET in (value, self.headers.get("X-Key"), query.get("key", [""])[0])

    def is_signed(self):
        """Whether Signature Version 4 is right, by its own computation of it."""
        fields = self.headers["Authorization"].partition(" ")[2].split(",")
        fields = dict(field.strip().split("=", 1) for field in fields)
        key, scope = fields["Credential"].split("/", 1)
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(pair if "=" in pair else pair + "=" for pair in query.split("&") if pair))
        names = fields["SignedHeaders"].split(";")
        lines = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        payload = self.headers["X-Amz-Content-SHA256"]
        request = "\n".join([self.command, path, query, lines, fields["SignedHeaders"], payload])
        request = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["X-Amz-Date"], scope, request])
        signer = b"AWS4" + SECRET.encode()
        for part in [*scope.split("/"), text]:
            signer = hmac.digest(signer, part.encode(), "sha256")
        return key == "AKIAREALREALREALREAL" and signer.hex() == fields["Signature"]

    def send(self, status, body, kind="application/octet-stream", **headers):
        print(self.command, self.path.partition("?")[0], status, self.headers.get("Host"), flush=True)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Peer", str(self.client_address[1]))
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            held = b""
            while size := int(self.rfile.readline(), 16):
                held += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return held
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self.body()
        if not self.authorized():
            return self.send(401, b"no secret came", "text/plain", WWW_Authenticate='Basic realm="x"')
        base = f"https://localhost:{self.server.server_address[1]}"
        if path == "/socket":
            return self.socket()
        if path == "/stream":
            return self.stream()
        if path == "/steps":
            return self.steps()
        if path == "/step":
            STEPS.release()
            return self.send(200, b"")
        if path == "/leak":
            encoded = base64.b64encode(f"user:{SECRET}".encode()).decode()
            return self.send(200, f"a {SECRET} b {encoded} c".encode(), "text/plain", X_Leak=SECRET)
        if path == "/upload":
            return self.send(200, hashlib.sha256(body).hexdigest().encode(), "text/plain")
        if path.startswith("/bucket"):
            return self.bucket(path, body)
        if path == "/tiny-fake":
            tarball = {"tarball": f"{base}/tiny-fake.tgz", "shasum": hashlib.sha1(PACKAGE).hexdigest()}
            version = {"name": "tiny-fake", "version": "1.0.0", "dist": tarball}
            known = {"name": "tiny-fake", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            return self.send(200, json.dumps(known).encode(), "application/json")
        if path == "/tiny-fake.tgz":
            return self.send(200, PACKAGE)
        if path == "/simple/tiny-fake/":
            return self.send(200, f'<a href="{base}/tiny_fake-1.0-py3-none-any.whl">x</a>'.encode(), "text/html")
        if path == "/tiny_fake-1.0-py3-none-any.whl":
            return self.send(200, WHEEL)
        file = pathlib.Path(FOLDER) / path.lstrip("/")
        if ".." not in path and file.is_file():
            return self.send(200, file.read_bytes())
        return self.send(200 if path == "/ok" else 404, b"authorized", "text/plain")

    def bucket(self, path, body):
        if self.command == "PUT":
            # A body with a checksum after it is one piece here.
            is_streamed = self.headers["X-Amz-Content-SHA256"].startswith("STREAMING")
            OBJECTS[path] = body.split(b"\r\n")[1] if is_streamed else body
            return self.send(200, b"", ETag='"x"')
        if path in OBJECTS:
            return self.send(200, OBJECTS[path], ETag='"x"')
        keys = "".join(f"<Contents><Key>{key.partition('bucket/')[2]}</Key><Size>1</Size></Contents>" for key in OBJECTS)
        return self.send(200, f"<ListBucketResult>{keys}</ListBucketResult>".encode(), "application/xml")

    def stream(self):
        """A text of events, with the secret in two pieces."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in ["data: 1\n\n", f"data: {SECRET[:9]}", f"{SECRET[9:]}\n\n", "data: 3\n\n"]:
            self.wfile.write(f"{len(piece):x}\r\n{piece}\r\n".encode())
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def steps(self):
        """A text that goes on only after a request of `/step`: it pauses at the first byte, and the first five, of the secret."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in [f"data: {SECRET[:1]}", f". data: {SECRET[:5]}", f"{SECRET[5:]} end"]:
            self.wfile.write(f"{len(piece):x}\r\n{piece}\r\n".encode())
            self.wfile.flush()
            if not piece.endswith("end"):
                STEPS.acquire(timeout=60)
        self.wfile.write(b"0\r\n\r\n")

    def socket(self):
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.end_headers()
        self.wfile.write(self.rfile.read(5).upper())
        self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_TRACE = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host)
if not PLAIN:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
server.serve_forever()
