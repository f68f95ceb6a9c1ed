"""Lists the tools of `haft serve` as an MCP client does: `list-tools.py HAFT`. Ends with 1 where none is listed."""

import json
import subprocess
import sys

# Seconds, for a first start that compiles the built-in plugins on a busy machine.
PATIENCE = 300

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "list-tools", "version": "1"},
}
MESSAGES = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


def main(haft: str) -> int:
    lines = "".join(json.dumps(message) + "\n" for message in MESSAGES)
    served = subprocess.run([haft, "serve"], input=lines, capture_output=True, text=True, timeout=PATIENCE)
    answers = [json.loads(line) for line in served.stdout.splitlines()]
    listed = [answer["result"]["tools"] for answer in answers if answer.get("id") == 2 and "result" in answer]
    names = sorted(tool["name"] for tools in listed for tool in tools)
    print(" ".join(names) or served.stderr)
    return 0 if "bash" in names and "time" in names else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
