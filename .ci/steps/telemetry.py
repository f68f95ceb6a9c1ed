"""What .ci/steps/telemetry asks of OpenTelemetry's own packages: `names FILE`, `trace HAFT PLUGIN`, and `machines HAFT PLUGIN
NATS_SERVER`, where a gate and a worker are between the client and the MCP server."""

import importlib
import json
import os
import re
import socket
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
    # The names of metrics.
    metrics = set()

    def do_POST(self):
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                pairs = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
                for scope in resource.scope_spans:
                    self.spans.extend((pairs["service.name"], span) for span in scope.spans)
        if self.path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    self.metrics.update(metric.name for metric in scope.metrics)
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


def own_server(plugin, url, haft, more=""):
    """An entry of program.toml: another haft as an MCP server, which tells `url` too."""
    inner = program("inner", f'[[plugins]]\nname = "hello"\ncomponent = "{plugin}"\n')
    environment = f'OTEL_EXPORTER_OTLP_ENDPOINT = "{url}", OTEL_SERVICE_NAME = "inner", OTEL_BSP_SCHEDULE_DELAY = "100"'
    command = f'["{haft}", "serve", "--program", "{inner}"]'
    return f'[[mcp_servers]]\nname = "inner"\ncommand = {command}\nenv = {{ {environment} }}\n{more}'


def receiver():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def trace(haft, plugin):
    url = receiver()
    outer = program("outer", own_server(plugin, url, haft) + f'[telemetry]\nendpoint = "{url}"\nservice_name = "outer"\n')
    return call_once(url, [haft, "serve", "--program", outer], {}, ["client", "outer", "outer", "inner"])


def machines(haft, plugin, server):
    url = receiver()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    far = program("far", own_server(plugin, url, haft, 'on = ["far"]\n') + f'[telemetry]\nendpoint = "{url}"\n')
    at = ["--program", far, "--nats", f"nats://127.0.0.1:{port}"]
    silent = subprocess.DEVNULL
    children = [subprocess.Popen([server, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", "store"], stderr=silent)]
    try:
        begun = time.monotonic()
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() - begun < PATIENCE:
            time.sleep(0.1)
        telling = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        environment = {**os.environ, **telling, "OTEL_SERVICE_NAME": "worker"}
        children.append(subprocess.Popen([haft, "work", *at, "--label", "far"], env=environment))
        gate = {**telling, "OTEL_SERVICE_NAME": "gate"}
        services, wanted = ["client", "gate", "worker", "worker", "inner"], {"haft.worker.place.limit", "haft.gate.call.active"}
        is_one = call_once(url, [haft, "serve", *at], gate, services, wanted)
        print(f"metrics that did not come: {sorted(wanted - Receiver.metrics)}")
        return is_one and wanted <= Receiver.metrics and are_known()
    finally:
        for child in children:
            child.terminate()
            child.wait(PATIENCE)


def are_known():
    """Whether every name that was sent is one of the conventions, or haft's own."""
    known = registry()
    sent = {pair.key for _, span in Receiver.spans for pair in span.attributes} | Receiver.metrics
    foreign = sorted(name for name in sent if name not in known and not name.startswith("haft."))
    print(f"{len(sent)} names were sent, not in the registry: {foreign}")
    return bool(sent) and not foreign


def call_once(url, command, variables, wanted_services, wanted_metrics=frozenset()):
    """Calls the MCP server's tool from a span of a client; whether the services' spans are one chain in its trace. The
    server lives until the metrics have come: it tells them when it is time for them, and not at its end."""
    from opentelemetry import propagate
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "client"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces")))
    environment = {**os.environ, **variables}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    late = threading.Timer(2 * PATIENCE, child.kill)
    late.start()
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

    # What lives on workers is known once one has told of it.
    begun, named = time.monotonic(), []
    while not named and time.monotonic() - begun < PATIENCE:
        tools = ask(1, "tools/list", {"_meta": meta})["result"]["tools"]
        named = [tool["name"] for tool in tools if tool["name"].startswith("mcp__inner__hello__")]
        time.sleep(0.2)
    with provider.get_tracer("client").start_as_current_span("client") as span:
        carrier = {}
        propagate.inject(carrier)
        answer = ask(2, "tools/call", {"name": named[0], "arguments": {"name": "x"}, "_meta": {**meta, **carrier}})
        wanted = span.get_span_context().trace_id.to_bytes(16, "big")
    print(json.dumps(answer)[:200])
    begun = time.monotonic()
    while not wanted_metrics <= Receiver.metrics and time.monotonic() - begun < PATIENCE:
        time.sleep(0.1)
    child.stdin.close()
    child.wait(PATIENCE)
    late.cancel()
    return chain_of(wanted, len(wanted_services)) == wanted_services


def chain_of(wanted, length):
    """The services of a trace's spans, each span a part of the one before, once there are so many."""
    begun, chain = time.monotonic(), []
    while len(chain) < length and time.monotonic() - begun < PATIENCE:
        time.sleep(0.1)
        own = [(service, span) for service, span in list(Receiver.spans) if span.trace_id == wanted]
        chain, parent = [], b""
        while below := [pair for pair in own if pair[1].parent_span_id == parent]:
            chain.append(below[0])
            parent = below[0][1].span_id
    told = [(service, span.name) for service, span in chain]
    print("\n".join(f"{'  ' * depth}{service}: {name}" for depth, (service, name) in enumerate(told)))
    return [service for service, _ in told]


if __name__ == "__main__":
    done = {"names": names, "trace": trace, "machines": machines}[sys.argv[1]](*sys.argv[2:])
    sys.exit(0 if done else 1)
