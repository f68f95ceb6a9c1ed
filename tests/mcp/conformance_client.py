"""The client under test of the official MCP conformance suite: haft, by way of a program.toml with
the suite's server in it, `haft tools` and `haft call`. Only drives it: every byte that reaches the
server is haft's.

usage: HAFT=/path/to/haft conformance_client.py URL, with MCP_CONFORMANCE_SCENARIO set."""

import http.server
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

HAFT = os.environ["HAFT"]
URL = sys.argv[-1]
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
# Seconds for one call; the suite gives up after sixty.
PATIENCE = 45
# The client ID metadata document that the suite's authorization servers know.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
# How often a person logs in who is told to: haft never does so by itself.
LOGINS = ["first", "second", "third"]


def prepare(folder):
    """A home and a program with one server."""
    for name in ("home", "work", "tmp"):
        (folder / name).mkdir()
    (folder / "work/program.toml").write_text(
        "[builtins]\nshell = false\n[[mcp_servers]]\nname = \"server\"\n"
        f"url = {json.dumps(URL)}\ntimeout = \"20s\"\n" + oauth()
    )
    os.chdir(folder / "work")
    os.environ.update(HOME=str(folder / "home"), TMPDIR=str(folder / "tmp"), HAFT_TRUST="1")
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        os.environ.pop(name, None)


def oauth():
    """What program.toml says of logins in the scenarios about them."""
    if not SCENARIO.startswith("auth/"):
        return ""
    table = f"[mcp_servers.oauth]\nclient_metadata_url = {json.dumps(DOCUMENT)}\n"
    if "client_id" in CONTEXT:
        table += f"client_id = {json.dumps(CONTEXT['client_id'])}\n"
    if "client_secret" in CONTEXT:
        os.environ["CLIENT_SECRET"] = CONTEXT["client_secret"]
        table += 'client_secret = { env = "CLIENT_SECRET" }\n'
    if "private_key_pem" in CONTEXT:
        os.environ["PRIVATE_KEY"] = CONTEXT["private_key_pem"]
        table += 'private_key = { env = "PRIVATE_KEY" }\n'
    if SCENARIO.startswith("auth/client-credentials-"):
        table += "client_credentials = true\n"
    if "idp_issuer" in CONTEXT:
        os.environ["ID_TOKEN"] = CONTEXT["idp_id_token"]
        table += (
            "[mcp_servers.oauth.identity_provider]\n"
            f"issuer = {json.dumps(CONTEXT['idp_issuer'])}\n"
            f"client_id = {json.dumps(CONTEXT['idp_client_id'])}\n"
            'id_token = { env = "ID_TOKEN" }\n'
        )
    return table


def log_in(scope):
    """A person who opens the address that haft prints, and agrees."""
    words = [HAFT, "mcp", "login", "server", *(["--scope", scope] if scope else [])]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for line in child.stderr:
        sys.stderr.write(line)
        if line.startswith("  http"):
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                opener.open(line.strip(), timeout=PATIENCE).read()
            except urllib.error.HTTPError as error:
                print(f"the browser shows {error}", file=sys.stderr)
    return child.wait(PATIENCE) == 0


def as_a_person(words):
    """Runs haft, and logs in where it says so."""
    while True:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        sys.stderr.write(done.stderr)
        told = re.search(r"`haft mcp login server(?: --scope '([^']*)')?` logs in", done.stderr)
        if not told or not LOGINS or not log_in(told[1]):
            return done
        LOGINS.pop()


def use_with_logins():
    """Lists the tools and calls each, and logs in where haft says so."""
    done = as_a_person([HAFT, "tools", "--json", "--refresh"])
    prefix = "mcp__server__"
    for tool in json.loads(done.stdout or "[]"):
        if tool["name"].startswith(prefix):
            as_a_person([HAFT, "call", tool["name"], json.dumps(sample(tool["parameters"]))])


def tools():
    done = subprocess.run([HAFT, "tools", "--json"], stdout=subprocess.PIPE, timeout=PATIENCE)
    listed = json.loads(done.stdout)
    prefix = "mcp__server__"
    return {tool["name"][len(prefix):]: tool for tool in listed if tool["name"].startswith(prefix)}


def call(name, arguments):
    words = [HAFT, "call", f"mcp__server__{name}", json.dumps(arguments)]
    done = subprocess.run(words, timeout=PATIENCE)
    print(f"{name}: exit code {done.returncode}", file=sys.stderr)


def call_at_terminal(name, arguments):
    """The same with a person at a terminal, who agrees and takes every default."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(HAFT, [HAFT, "call", f"mcp__server__{name}", json.dumps(arguments)])
    shown = b""
    while select.select([terminal], [], [], PATIENCE)[0]:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read
        sys.stderr.buffer.write(read)
        if shown.endswith(b"[y/N] "):
            os.write(terminal, b"y\n")
            shown = b""
        elif shown.endswith(b"> "):
            os.write(terminal, b"\n")
            shown = b""
    os.waitpid(child, 0)


# Arguments that mean something to the tools of these scenarios.
ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


def sample(schema):
    """Arguments that satisfy a simple schema."""
    kinds = {"string": "text", "number": 1.5, "integer": 1, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties", {})
    return {name: kinds.get(properties[name].get("type"), "text") for name in schema.get("required", [])}


class Model(http.server.BaseHTTPRequestHandler):
    """A model that reads the skill and, where it was given that, the file beside it."""

    files = ["SKILL.md", "references/FORMS.md"]

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(json.dumps(asked["messages"][-1]), file=sys.stderr)
        has_failed = any("cannot read" in str(m.get("content")) for m in asked["messages"] if m["role"] == "tool")
        message = {"role": "assistant", "content": "done"}
        if self.files and not has_failed:
            words = json.dumps({"name": "mcp__server__pdf-processing", "file": self.files.pop(0)})
            function = {"name": "read_skill", "arguments": words}
            message = {"role": "assistant", "tool_calls": [{"id": words, "type": "function", "function": function}]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        answer = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def read_skill():
    """An agent with that model."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        with open("program.toml", "a") as program:
            url = f"http://127.0.0.1:{model.server_port}/v1"
            program.write(f'[provider]\nname = "openai"\nmodel = "m"\nbase_url = "{url}"\nstream = false\n')
        os.environ["OPENAI_API_KEY"] = "none"
        done = subprocess.run([HAFT, "run", "use the skill"], timeout=PATIENCE)
        print(f"exit code {done.returncode}", file=sys.stderr)
        model.shutdown()


def main():
    if SCENARIO.startswith("sep-2640-") and SCENARIO != "sep-2640-client-no-prefetch":
        read_skill()
        return
    if SCENARIO.startswith("auth/"):
        use_with_logins()
        return
    listed = tools()
    if "toolCalls" in CONTEXT:
        for wanted in CONTEXT["toolCalls"]:
            # haft hands on no argument that the tool's schema does not allow, so none that is null.
            given = {name: value for name, value in wanted["arguments"].items() if value is not None}
            call(wanted["name"], given)
    elif SCENARIO == "json-schema-2020-12-preservation":
        focal = next(tool for name, tool in listed.items() if name != "json_schema_echo")
        call("json_schema_echo", {"schema": focal["parameters"]})
    elif SCENARIO.startswith(("elicitation", "sep-2322")):
        for name, tool in listed.items():
            call_at_terminal(name, sample(tool["parameters"]))
    else:
        for name, tool in listed.items():
            call(name, ARGUMENTS.get(name) or sample(tool["parameters"]))


with tempfile.TemporaryDirectory() as folder:
    prepare(pathlib.Path(folder))
    main()
