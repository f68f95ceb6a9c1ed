"""An MCP server that tries what it is told to, and says how that went."""
import json
import os
import socket
import sys

TOOL = {"name": "try", "description": "Tries something", "inputSchema": {"type": "object"}}


def attempt(what):
    if what.get("all"):
        return json.dumps([outcome(one) for one in what["all"]])
    if what.get("unix"):
        socket.socket(socket.AF_UNIX).connect(what["unix"])
        return "connected"
    if what.get("signal"):
        os.kill(what["signal"], 0)
        return "there"
    if what.get("link"):
        os.symlink(*what["link"])
        return "linked"
    if what.get("variable"):
        return os.environ[what["variable"]]
    if what.get("read"):
        with open(os.path.expanduser(what["read"])) as file:
            return file.read()
    if what.get("write"):
        with open(what["write"], "a") as file:
            file.write("x")
        return "written"
    if what.get("connect"):
        socket.create_connection(("127.0.0.1", what["connect"]), 5).close()
        return "connected"
    names = ["PLUGIN_ROOT", "PLUGIN_DATA", "CONFIG", "TOKEN", "SECRET_4711"]
    return json.dumps({"cwd": os.getcwd(), "args": sys.argv[1:]} | {name: os.environ.get(name) for name in names})


def outcome(what):
    try:
        return "did " + attempt(what)
    except Exception as error:
        return "refused " + repr(error)


def answer(request):
    if request["method"] == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if request["method"] == "tools/list":
        return {"tools": [TOOL]}
    if request["method"] == "tools/call":
        try:
            return {"content": [{"type": "text", "text": attempt(request["params"].get("arguments") or {})}]}
        except Exception as error:
            return {"content": [{"type": "text", "text": repr(error)}], "isError": True}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
