#!/usr/bin/env python3
"""An MCP server with one tool. As `npx` it first waits for the network, as package runners do that have no cache."""

import json
import os
import socket
import sys
import time

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "The file"}}, "required": ["path"]}
TOOL = {"name": "count", "description": "Counts lines", "inputSchema": SCHEMA}

if sys.argv[0].endswith("npx"):
    cache = os.path.join(os.environ["npm_config_cache"], "package")
    while not os.path.exists(cache):
        try:
            socket.create_connection(("127.0.0.1", int("@PORT@")), 5).close()
            os.makedirs(os.path.dirname(cache), exist_ok=True)
            open(cache, "w").close()
        except OSError:
            time.sleep(0.1)
print("the server's banner", file=sys.stderr)
for line in sys.stdin:
    request = json.loads(line)
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "lists", "version": "1"}}
    if request.get("method") == "tools/list":
        result = {"tools": [TOOL]}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
