"""An MCP server on stdio with one tool, which runs a command of a shell as the server itself."""
import json
import subprocess
import sys

TOOL = {
    "name": "sh",
    "description": "Runs a command",
    "inputSchema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "sh", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        command = ["/bin/sh", "-c", params["arguments"]["command"]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        text = (done.stdout + done.stderr).decode(errors="replace")
        return {"content": [{"type": "text", "text": text}], "isError": done.returncode != 0}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    found = result(message["method"], message.get("params", {}))
    if found is None:
        answer["error"] = {"code": -32601, "message": "no such method"}
    else:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
