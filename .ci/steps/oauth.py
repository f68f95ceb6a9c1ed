"""Drives haft against the authorization server of oauth.mjs, as a person with a browser would.

usage: HAFT=/path/to/haft oauth.py NODE PROVIDER.MJS"""

import http.cookiejar
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

HAFT = os.environ["HAFT"]
# Seconds for one command.
PATIENCE = 60


class Browser(urllib.request.HTTPRedirectHandler):
    """Goes where it is sent; `forge` changes the address that it brings to haft."""

    def __init__(self, forge):
        self.forge, self.brought = forge, None

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if "/callback" in newurl:
            newurl = self.forge(newurl)
            self.brought = newurl
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_in_browser(url, forge):
    browser = Browser(forge)
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar, browser)
    try:
        opener.open(url, timeout=PATIENCE).read()
    except urllib.error.HTTPError as error:
        if browser.brought is None:
            raise SystemExit(f"the provider refused: {error} {error.read()[:2000]}") from error
    return browser.brought


def haft(*words):
    done = subprocess.run([HAFT, "-vvv", *words], capture_output=True, text=True, timeout=PATIENCE)
    SAID.append(done.stdout + done.stderr)
    return done.stdout + done.stderr


def log_in(server, *more, forge=lambda url: url):
    words = [HAFT, "-vvv", "mcp", "login", server, *more]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    try:
        for line in child.stdout:
            said += line
            if line.startswith("  http://"):
                open_in_browser(line.strip(), forge)
                break
        said += child.stdout.read()
        child.wait(PATIENCE)
    finally:
        child.kill()
    SAID.append(said)
    return said


def has(text, expected):
    if expected not in text:
        raise SystemExit(f"expected {expected!r} in:\n{text}")


def forged(url):
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query), iss="https://other.example")
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


def notes():
    return sorted(pathlib.Path(os.environ["HOME"], ".local/state/haft/logins").glob("*.json"))


def tokens():
    """Every token that is kept."""
    found = set()
    for note in notes():
        response = json.loads(note.read_text())["login"]["credentials"]["token_response"]
        found |= {response["access_token"], response["refresh_token"]}
    return found


def age():
    """Makes every access token that is kept an old one, which has to be renewed."""
    for note in notes():
        kept = json.loads(note.read_text())
        kept["login"]["credentials"]["token_received_at"] -= 3600
        note.write_text(json.dumps(kept))


SAID = []


def main(folder, at):
    server = "[[mcp_servers]]\nname = \"{}\"\nurl = \"{}\"\n"
    program = "[sandbox]\nworkspace = \".\"\n" + "".join(server.format(name, at[name]) for name in ("one", "two", "wrong"))
    path = folder / "work/program.toml"
    path.write_text(program)
    has(haft("call", "mcp__one__read", "{}"), "`haft mcp login one` logs in")
    has(log_in("one", forge=forged), "the answer is from the authorization server https://other.example")
    has(log_in("wrong"), "resource mismatch")
    assert not notes(), notes()
    has(log_in("one"), "logged in to `one`")
    has(haft("call", "mcp__one__read", "{}"), "done: read")
    has(haft("call", "mcp__two__read", "{}"), "`haft mcp login two` logs in")
    has(haft("call", "mcp__one__write", "{}"), "`haft mcp login one --scope 'write'` logs in")
    seen = tokens()
    has(log_in("one", "--scope", "write"), "write")
    has(haft("call", "mcp__one__write", "{}"), "done: write")
    seen |= tokens()
    age()
    before = tokens()
    calls = [subprocess.Popen([HAFT, "call", "mcp__one__read", "{}"], stdout=subprocess.PIPE) for _ in range(4)]
    for call in calls:
        assert call.communicate(timeout=PATIENCE)[0] == b"done: read\n"
    assert not before & tokens(), "nothing was renewed"
    seen |= tokens()
    path.write_text(program.replace(f'url = "{at["two"]}"\n', f'url = "{at["two"]}"\n[mcp_servers.oauth]\nclient_metadata_url = "{at["document"]}"\n'))
    has(log_in("two"), "logged in to `two`")
    has(haft("mcp", "status", "two", "--json"), at["document"])
    has(haft("call", "mcp__two__read", "{}"), "done: read")
    has(haft("call", "mcp__one__read", "{}"), "done: read")
    path.write_text(program.replace(f'url = "{at["two"]}"\n', f'url = "{at["two"]}"\n[mcp_servers.oauth]\nclient_id = "by-hand"\n'))
    has(log_in("two"), "logged in to `two`")
    has(haft("mcp", "status", "two", "--json"), "by-hand")
    seen |= tokens()
    has(haft("mcp", "logout", "two"), "`: the token is revoked")
    has(haft("call", "mcp__two__read", "{}"), "`haft mcp login two` logs in")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(at["issuer"] + "/end").read()
    has(haft("call", "mcp__one__read", "{}"), "`haft mcp login one` logs in")
    has(haft("mcp", "logout", "one"), "logged out of `one`")
    shown = [said for said in SAID if any(token in said for token in seen)]
    files = [path for path in folder.rglob("*") if path.is_file() and any(token.encode() in path.read_bytes() for token in seen)]
    assert len(seen) >= 8 and not shown and not files, (len(seen), shown, files)
    print(f"{len(seen)} tokens, {len(SAID)} commands: none was shown, and none is left in a file")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for below in ("home", "work", "tmp"):
        (folder / below).mkdir()
    os.environ.update(HOME=str(folder / "home"), TMPDIR=str(folder / "tmp"), HAFT_TRUST="1", NO_PROXY="127.0.0.1")
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        os.environ.pop(variable, None)
    os.chdir(folder / "work")
    provider = subprocess.Popen(sys.argv[1:3], stdout=subprocess.PIPE, text=True)
    try:
        main(folder, json.loads(provider.stdout.readline()))
    finally:
        provider.kill()
