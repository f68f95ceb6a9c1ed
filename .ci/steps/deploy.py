"""What .ci/steps/deploy looks at by itself: `check FOLDER PLACES` and `run COMPOSE_JSON HAFT NATS_SERVER PLACES`."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

# Seconds that anything may take.
PATIENCE = 40

# Where the gate of the trial listens, and its NATS server.
GATE, NATS = "127.0.0.1:18080", "127.0.0.1:14222"


def stop(text):
    sys.exit(f".ci/steps/deploy: {text}")


def ensure(holds, text):
    if not holds:
        stop(text)


# --- What must hold of the manifests -----------------------------------------------------------------


def containers(manifests):
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield manifest["metadata"]["name"], pod, container


def check_pods(manifests):
    for name, pod, container in containers(manifests):
        outer, inner = pod["securityContext"], container["securityContext"]
        ensure(outer["runAsNonRoot"] and outer["runAsUser"] == 65532, f"{name} runs as root, or another user than the image's")
        ensure(outer["seccompProfile"]["type"] == "RuntimeDefault", f"{name} has no seccomp profile")
        ensure(inner["readOnlyRootFilesystem"] and not inner["allowPrivilegeEscalation"], f"{name} may write its root")
        ensure(inner["capabilities"] == {"drop": ["ALL"]}, f"{name} has capabilities")
        ensure(pod["automountServiceAccountToken"] is False, f"{name} has a token of the cluster")
        ensure("limits" in container["resources"], f"{name} has no limits")
        for variable in container["env"]:
            is_secret = re.search("PASSWORD|TOKEN|SECRET|KEY", variable["name"])
            ensure(not is_secret or "secretKeyRef" in variable.get("valueFrom", {}), f"{name}: {variable['name']} is written down")
    gate = next(container for name, _, container in containers(manifests) if name == "haft-gate")
    paths = [gate[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")]
    ensure(paths == ["/readyz", "/healthz"], f"the gate is asked at {paths}")


def check_scaling(manifests, adapter):
    names = Path("host/telemetry/src/names.rs").read_text()
    told = {name.replace(".", "_") for name in re.findall(r'"(haft\.[a-z.]+)"', names)}
    deployments = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Deployment"}
    scalers = [manifest for manifest in manifests if manifest["kind"] == "HorizontalPodAutoscaler"]
    ensure({scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers} == deployments, "not all Deployments are scaled")
    query = adapter["rules"]["custom"][0]["seriesQuery"]
    for scaler in scalers:
        for metric in scaler["spec"]["metrics"]:
            name = metric["pods"]["metric"]["name"]
            ensure(name in told and name in query, f"{name} is told by no haft, or not known to the adapter")
    places = next(container["args"] for name, _, container in containers(manifests) if name == "haft-eu")
    most = int(places[places.index("--places") + 1])
    target = next(scaler for scaler in scalers if scaler["metadata"]["name"] == "haft-eu")
    wanted = int(target["spec"]["metrics"][0]["pods"]["target"]["averageValue"])
    ensure(wanted < most, "workers are full before there are more of them")


def check_services(services):
    for name in ("gate", "worker"):
        service = services[name]
        ensure(service["read_only"] and service["cap_drop"] == ["ALL"], f"{name} of compose.yaml may write its root")
        ensure(service["user"] == "65532:65532", f"{name} of compose.yaml runs as another user than the image's")
    for name, service in services.items():
        for variable, value in service["environment"].items():
            is_secret = re.search("PASSWORD|TOKEN", variable)
            ensure(not is_secret or value.startswith("${"), f"{name} of compose.yaml: {variable} is written down")


def check(folder, places):
    folder, places = Path(folder), Path(places)
    manifests = list(yaml.safe_load_all((folder / "kubernetes.yaml").read_text()))
    check_pods(manifests)
    check_scaling(manifests, yaml.safe_load((folder / "adapter-values.yaml").read_text()))
    check_services(yaml.safe_load((folder / "compose.yaml").read_text())["services"])
    program = next(manifest for manifest in manifests if manifest["kind"] == "ConfigMap")["data"]["program.toml"]
    for name, text in (("kubernetes", program), ("compose", (folder / "program.toml").read_text())):
        (places / name).mkdir()
        (places / name / "program.toml").write_text(text)
    # As the chart writes it: JSON, with what stands in << >> as it is.
    values = yaml.safe_load((folder / "nats-values.yaml").read_text())
    configuration = {"jetstream": {"store_dir": str(places / "values")}, **values["config"]["merge"]}
    text = re.sub(r'"<< (.*?) >>"', r"\1", json.dumps(configuration))
    (places / "nats-values.conf").write_text(text)
    ensure("$HAFT_GATE_PASSWORD" in text and "<<" not in text, "the passwords of nats-values.yaml")
    print("docs/deploy is in order")


# --- The services of compose.yaml, as processes ------------------------------------------------------


def begin(service, program, folder, change, said=None):
    """A service's own command line and environment, with the addresses of this machine."""
    words = [change(word) for word in service["command"]]
    environment = {name: value or "" for name, value in service["environment"].items()}
    own = {name: os.environ[name] for name in os.environ if name.startswith(("PATH", "HOME", "XDG_"))}
    return subprocess.Popen([program, *words], cwd=folder, env={**own, **environment}, stderr=said)


def ask(path, body=None, token=None):
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if token:
        headers |= {"authorization": f"Bearer {token}", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "time"}
    request = urllib.request.Request(f"http://{GATE}{path}", data=body and json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def until(what, found):
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        if done := found():
            return done
        time.sleep(0.2)
    stop(what)


def call(token):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "deploy", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "time", "arguments": {}, "_meta": meta}
    status, text = ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, token)
    return text if status == 200 and '"isError":false' in text else None


def run(compose, haft, server, places):
    services = json.loads(Path(compose).read_text())["services"]
    # What a container has at these paths is here: the volume of NATS, and the folder with the program.
    places = Path(places)
    store, work = places / "data", places / "work"
    work.mkdir()
    configuration = Path("docs/deploy/nats.conf").read_text().replace('"/data"', f'"{store}"')
    (places / "nats.conf").write_text(configuration.replace("0.0.0.0:8222", "127.0.0.1:18222"))
    program = Path("docs/deploy/program.toml").read_text()
    (work / "program.toml").write_text(program.replace("nats://nats:4222", f"nats://{NATS}"))
    moved = {"/etc/nats/haft.conf": str(places / "nats.conf"), "0.0.0.0:8080": GATE}
    change = lambda word: moved.get(word, word)
    host, port = NATS.split(":")
    nats = {**services["nats"], "command": [*services["nats"]["command"], "-a", host, "-p", port]}
    said = places / "nats"
    processes = [begin(nats, server, work, change, said.open("w"))]
    try:
        healthy = "http://127.0.0.1:18222/healthz?js-enabled-only=true"
        until(f"the NATS server is not healthy: {said.read_text()}", lambda: is_healthy(healthy))
        for name in ("worker", "gate"):
            processes.append(begin(services[name], haft, work, change))
        until("the gate is not ready", lambda: ask("/readyz")[0] == 200)
        ensure(ask("/healthz") == (200, "ok\n"), "the gate is not healthy")
        ensure(ask("/mcp", {}, "another-token-4711")[0] == 401, "the gate takes another token")
        answer = until("no worker answers", lambda: call(services["gate"]["environment"]["HAFT_TOKEN"]))
        print(f"a call over the services of compose.yaml: {answer.strip()[-160:]}")
        # As an orchestrator ends them.
        for process in reversed(processes[1:]):
            process.terminate()
            ensure(process.wait(30) == 0, f"{process.args} ended with {process.returncode}")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def is_healthy(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


if __name__ == "__main__":
    {"check": check, "run": run}[sys.argv[1]](*sys.argv[2:])
