"""An MCP server whose tools are in tools.json of the folder that it works in: on standard input, or over HTTP where its
argument names the file to write its port to. A call of `change` puts next.json in their place and says so; one of `hush`
does so without a word. With the file `starting` it has no tools until its resources are listed."""

import http.server
import json
import os
import sys


def answer(message, told):
    method, result = message.get("method"), None
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "changing", "version": "1"},
        }
        if os.path.exists("starting"):
            result["capabilities"]["resources"] = {}
        if os.path.exists("instructions"):
            with open("instructions", encoding="utf-8") as file:
                result["instructions"] = file.read()
    elif method == "tools/list":
        with open("tools.json", encoding="utf-8") as file:
            result = {"tools": [] if os.path.exists("starting") else json.load(file)}
    elif method == "resources/list":
        if os.path.exists("starting"):
            os.remove("starting")
            told({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        result = {"resources": [{"uri": "file:///guide", "name": "guide"}]}
    elif method == "tools/call":
        name = message["params"]["name"]
        if name in ("change", "hush"):
            os.replace("next.json", "tools.json")
        if name == "change":
            told({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        result = {"content": [{"type": "text", "text": "ran " + name}]}
    if result is None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def write(message):
    print(json.dumps(message), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = json.dumps(answer(message, lambda _: None)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *_):
        pass


if len(sys.argv) > 1:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        write(answer(message, write))
