"""A server of MCP whose tool reads a file of the folder NOTES and connects to a host."""

import json
import socket
import sys

NOTES = "@NOTES@"


def look():
    with open(f"{NOTES}/deep/first") as first, open(f"{NOTES}/deep/second") as second:
        read = first.read() + second.read()
    with open(f"{NOTES}/written/new", "w") as new:
        new.write(read)
    return read + socket.create_connection(("api.test", 7777), 5).recv(9).decode()


def answer(method):
    if method == "initialize":
        about = {"name": "notes", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        try:
            return {"content": [{"type": "text", "text": look()}]}
        except OSError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"])}), flush=True)
