"""A model of four vendors' formats for .ci/steps/mcp-clients and agent-plugins: `mcp-clients.py SEEN [TOOL ARGUMENTS ANSWER]`. Calls
the tool, `echo` without one, once, and ends. Prints its address, and writes to SEEN each request that has what the tool answered: a line
with its path and its body. SEEN.tools has a line for each request with tools: the time, and the name of every tool."""

import http.server
import json
import re
import sys
import time

SEEN = sys.argv[1]
TOOL, ARGUMENTS, ANSWER = sys.argv[2:] or ["echo", '{"message": "4711"}', "Echo: 4711"]
ARGUMENTS = json.loads(ARGUMENTS)
USAGE = {"input_tokens": 1, "output_tokens": 1}


def tool(request):
    """The name of the tool in the request, whatever the client puts in front of it."""
    for entry in request.get("tools") or []:
        for one in entry.get("functionDeclarations") or entry.get("tools") or [entry]:
            name = one.get("name") or (one.get("function") or {}).get("name") or ""
            if name.endswith(TOOL):
                # What Codex has in a namespace is called by both.
                return name, entry.get("name") if "tools" in entry else None
    return None, None


def every_tool(request):
    """The names of the tools in the request, what Codex has in a namespace as NAMESPACE/NAME, and of those that Claude Code tells of in
    its text, one a line, because the model has to search for them."""
    names = []
    for entry in request.get("tools") or []:
        space = f"{entry['name']}/" if "tools" in entry else ""
        for one in entry.get("functionDeclarations") or entry.get("tools") or [entry]:
            names.append(space + (one.get("name") or (one.get("function") or {}).get("name") or ""))
    if "ToolSearch" in names:
        names += re.findall(r"\\n(mcp__[\w-]+)", json.dumps(request))
    return names


def messages(name, _space):
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}} if name else {"type": "text", "text": ""}
    part = {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)} if name else {"type": "text_delta", "text": "done"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": USAGE}
    return [{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": part}, {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use" if name else "end_turn"}, "usage": USAGE},
        {"type": "message_stop"}]


def responses(name, space):
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    if name:
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": name, "arguments": json.dumps(ARGUMENTS)}
        item |= {"namespace": space} if space else {}
    usage = {**USAGE, "total_tokens": 2, "input_tokens_details": None, "output_tokens_details": None}
    return [{"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r1", "output": [item], "usage": usage}}]


def completions(name, _space):
    function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
    delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]} if name else {"content": "done"}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return [{**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if name else "stop"}]}]


def generate(name, _space):
    part = {"functionCall": {"name": name, "args": ARGUMENTS}} if name else {"text": "done"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}]


FORMATS = {"/messages": messages, "/responses": responses, "/completions": completions, "GenerateContent": generate}


class Model(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b'{"data":[],"models":[]}', "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        path = self.path.partition("?")[0]
        form = next((form for end, form in FORMATS.items() if path.endswith(end)), None)
        if form is None:
            return self.answer(b'{"input_tokens":1,"totalTokens":1}', "application/json")
        request = json.loads(body)
        name, space = tool(request)
        # A request for a title has none.
        if names := every_tool(request):
            with open(f"{SEEN}.tools", "a", encoding="utf-8") as seen:
                seen.write(f"{time.time():.1f} {' '.join(names)}\n")
        if ANSWER in body:
            name = None
            with open(SEEN, "a", encoding="utf-8") as seen:
                seen.write(f"{path} {json.dumps(request)}\n")
        lines = []
        for event in form(name, space):
            lines += [f"event: {event['type']}\n"] if "type" in event else []
            lines.append(f"data: {json.dumps(event)}\n\n")
        lines += ["data: [DONE]\n\n"] if form is completions else []
        return self.answer("".join(lines).encode(), "text/event-stream")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
