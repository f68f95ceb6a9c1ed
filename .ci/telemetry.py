"""What .ci/telemetry asks of OpenTelemetry's own packages: `names FILE` and `trace HAFT PLUGIN`."""

import importlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Seconds that anything may take.
PATIENCE = 30


def registry():
    """Every name of the conventions' attributes and metrics."""
    import opentelemetry.semconv as semconv

    names = set()
    root = Path(semconv.__file__).parent
    # What is still in development lies in a folder that is no package of its own.
    for file in [*root.rglob("*_attributes.py"), *root.rglob("*_metrics.py")]:
        own = importlib.import_module(".".join(["opentelemetry.semconv", *file.relative_to(root).with_suffix("").parts]))
        names.update(value for value in vars(own).values() if isinstance(value, str) and "." in value)
    return names


def names(path):
    with open(path, encoding="utf-8") as file:
        used = re.findall(r'const \w+: &str = "([^"]+)"', file.read())
    known = registry()
    foreign = [name for name in used if name not in known and not name.startswith("haft.")]
    print(f"{len(used)} names, {len(known)} in the registry, not there: {foreign}")
    return bool(used) and not foreign


class Receiver(BaseHTTPRequestHandler):
    spans = []

    def do_POST(self):
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                pairs = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self.spans.extend((pairs["service.name"], span) for span in scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def program(name, more):
    os.mkdir(name)
    path = os.path.abspath(f"{name}/program.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'[program]\nname = "{name}"\nversion = "1.0.0"\n{more}')
    return path


def trace(haft, plugin):
    from opentelemetry import propagate
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    inner = program("inner", f'[[plugins]]\nname = "hello"\ncomponent = "{plugin}"\n')
    environment = f'OTEL_EXPORTER_OTLP_ENDPOINT = "{url}", OTEL_SERVICE_NAME = "inner", OTEL_BSP_SCHEDULE_DELAY = "100"'
    outer = program(
        "outer",
        f'[[mcp_servers]]\nname = "inner"\ncommand = ["{haft}", "serve", "--program", "{inner}"]\nenv = {{ {environment} }}\n'
        f'[telemetry]\nendpoint = "{url}"\nservice_name = "outer"\n',
    )
    provider = TracerProvider(resource=Resource.create({"service.name": "client"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
    child = subprocess.Popen([haft, "serve", "--program", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Timer(PATIENCE, child.kill).start()
    client = {"name": "telemetry", "version": "0"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    def ask(number, method, params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()
        while True:
            answer = json.loads(child.stdout.readline())
            if answer.get("id") == number:
                return answer

    tools = ask(1, "tools/list", {"_meta": meta})["result"]["tools"]
    tool = next(tool["name"] for tool in tools if tool["name"].startswith("mcp__inner__hello__"))
    with provider.get_tracer("client").start_as_current_span("client") as span:
        carrier = {}
        propagate.inject(carrier)
        answer = ask(2, "tools/call", {"name": tool, "arguments": {"name": "x"}, "_meta": {**meta, **carrier}})
        wanted = span.get_span_context().trace_id.to_bytes(16, "big")
    print(json.dumps(answer)[:200])
    child.stdin.close()
    child.wait(PATIENCE)
    begun = time.monotonic()
    chain = []
    while len(chain) < 4 and time.monotonic() - begun < PATIENCE:
        time.sleep(0.1)
        own = [(service, span) for service, span in list(Receiver.spans) if span.trace_id == wanted]
        chain, parent = [], b""
        while True:
            below = [pair for pair in own if pair[1].parent_span_id == parent]
            if not below:
                break
            chain.append(below[0])
            parent = below[0][1].span_id
    told = [(service, span.name) for service, span in chain]
    print("\n".join(f"{'  ' * depth}{service}: {name}" for depth, (service, name) in enumerate(told)))
    return [service for service, _ in told] == ["client", "outer", "outer", "inner"]


if __name__ == "__main__":
    done = names(sys.argv[2]) if sys.argv[1] == "names" else trace(sys.argv[2], sys.argv[3])
    sys.exit(0 if done else 1)
