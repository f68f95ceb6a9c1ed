//! MCP servers in other formats: bundles that the test makes, and packages from the test's npm registry and PyPI
//! index.

use std::fs;
use std::io::Write;
use std::process::Command;

use base64::Engine;
use serde_json::{Value, json};

use super::place::{Answer, Place};
use crate::http::server::Server;

/// An MCP server whose tool returns its arguments, a file of its package and the length of a secret.
pub(super) const PYTHON: &str = r#"#!/usr/bin/env python3
import json, os, sys
def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answer = {"protocolVersion": asked.get("params", {}).get("protocolVersion"), "capabilities": {"tools": {}},
                  "serverInfo": {"name": "test", "version": "1"}}
        if asked["method"] == "tools/list":
            answer = {"tools": [{"name": "tell", "description": "Tells", "inputSchema": {"type": "object"}}]}
        if asked["method"] == "tools/call":
            lib = open(os.path.join(os.environ["LIB"], "text")).read() if "LIB" in os.environ else "no lib"
            said = " ".join(sys.argv[1:] + [lib, str(len(os.environ.get("API_KEY", "")))])
            answer = {"content": [{"type": "text", "text": said}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
if __name__ == "__main__":
    main()
"#;

/// An MCP server with these answers for Node.js.
const NODE: &str = r#"#!/usr/bin/env node
const fs = require("fs");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const asked = JSON.parse(line);
  if (asked.id === undefined) return;
  let result = { protocolVersion: (asked.params || {}).protocolVersion, capabilities: { tools: {} },
                 serverInfo: { name: "test", version: "1" } };
  if (asked.method === "tools/list") result = { tools: [{ name: "tell", description: "Tells", inputSchema: { type: "object" } }] };
  if (asked.method === "tools/call") {
    const lib = process.env.LIB ? fs.readFileSync(process.env.LIB + "/text", "utf8") : "no lib";
    const said = [...process.argv.slice(2), lib, String((process.env.API_KEY || "").length)];
    result = { content: [{ type: "text", text: said.join(" ") }] };
  }
  console.log(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result }));
});
"#;

/// The secret, which no file may contain.
pub(super) const SECRET: &str = "hunter2-hunter2-hunter2";

/// A zip archive of these files.
pub(super) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = rawzip::ZipArchiveWriter::new(Vec::new());
    for (path, content) in files {
        let file = archive.new_file(*path).compression_method(rawzip::CompressionMethod::DEFLATE);
        let (mut entry, config) = file.unix_permissions(0o644).start().unwrap();
        let mut writer =
            config.wrap(flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast()));
        writer.write_all(content).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap()
}

pub(super) fn bundle(kind: &str, entry: &str, run: &Value, content: &str) -> Vec<u8> {
    let manifest = json!({
        "manifest_version": "0.3", "name": "teller", "version": "1.0.0", "description": "Tells",
        "author": { "name": "Ada" }, "server": { "type": kind, "entry_point": entry, "mcp_config": run },
        "user_config": {
            "word": { "type": "string", "title": "Word", "required": true },
            "key": { "type": "string", "sensitive": true, "required": true },
        },
    });
    zip(&[
        ("manifest.json", manifest.to_string().as_bytes()),
        (entry, content.as_bytes()),
        ("server/lib/text", b"from the bundle"),
    ])
}

/// True if the machine has the program.
pub(super) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED: there is no `{program}` on this machine");
    }
    found
}

fn haft(place: &Place, arguments: &[&str]) -> Answer {
    Answer::from(place.command(arguments).env("API_KEY", SECRET).output().unwrap())
}

#[test]
fn a_bundle_is_installed_and_its_server_runs_from_the_store() {
    let env = json!({ "LIB": "${__dirname}/server/lib", "API_KEY": "${user_config.key}" });
    let run = |command: &str, args: Value| json!({ "command": command, "args": args, "env": env });
    let own = |file: &str| json!([format!("${{__dirname}}/{file}"), "${user_config.word}"]);
    let kinds = [
        ("python", "server/main.py", run("python", own("server/main.py")), PYTHON, "python3"),
        (
            "binary",
            "server/tell",
            run("${__dirname}/server/tell", json!(["${user_config.word}"])),
            PYTHON,
            "python3",
        ),
        ("node", "server/index.js", run("node", own("server/index.js")), NODE, "node"),
    ];
    for (kind, entry, run, content, program) in kinds {
        if !has(program) {
            continue;
        }
        let place = Place::new();
        place.write("teller.mcpb", bundle(kind, entry, &run, content));
        haft(&place, &["add", "./teller.mcpb", "--yes"]).ends(5, "it needs `word` (Word)");
        let told = format!("key={SECRET}");
        let answer = haft(&place, &["add", "./teller.mcpb", "--yes", "--set", "word=hi", "--set", &told]);
        let answer = answer.ends(5, "the value of `key` is not usable: it is sensitive");
        assert!(!answer.stderr.contains(SECRET) && !place.read("program.toml").contains("teller"));
        let added = haft(&place, &["add", "./teller.mcpb", "--yes", "--set", "word=hi"]).good();
        assert!(added.stderr.contains("`key` is the value of the variable `API_KEY`"), "{}", added.stderr);
        let called = haft(&place, &["call", "mcp__teller__tell", "{}"]).good();
        assert_eq!(called.stdout.trim(), format!("hi from the bundle {}", SECRET.len()), "{kind}");
        haft(&place, &["add", "./teller.mcpb#word=hi", "--yes"])
            .ends(0, "already installed: this version and content");
        haft(&place, &["verify"]).good();
        for (path, content) in place.everything() {
            let text = String::from_utf8_lossy(&content).into_owned();
            assert!(!text.contains(SECRET), "{}", path.display());
        }
        let file = place.kept()[0].join("tree").join(entry);
        fs::remove_file(&file).unwrap();
        fs::write(&file, format!("{content}# changed\n")).unwrap();
        let verify = haft(&place, &["verify"]);
        assert!(verify.code == 8 && verify.stdout.contains("was changed"), "{}", verify.stdout);
        let called = haft(&place, &["call", "mcp__teller__tell", "{}"]);
        assert!(
            called.code != 0 && called.stderr.contains("` has changed since its installation:"),
            "{}",
            called.stderr
        );
        haft(&place, &["remove", "teller"]).good();
    }
}

#[test]
fn what_is_no_source_is_told_with_its_way_out() {
    let place = Place::new();
    place.write("old.dxt", zip(&[("manifest.json", b"{ \"dxt_version\": \"0.1\" }")]));
    place.write("plugin/plugin.json", "{}");
    for (source, said) in [
        ("npx -y @a/b@latest .", "haft add npm:@a/b --set arg=."),
        ("docker run -i --rm a/b", "`[[mcp_servers]]`"),
        ("https://github.com/a/b", "git+https://github.com/a/b"),
        ("mcp:io.test/a", "haft has no default registry"),
        ("npm:a@latest", "with an exact version"),
        ("./old.dxt", "this MCP bundle has an old format"),
        ("./plugin", "expected `$schema`"),
    ] {
        let answer = place.haft(&["add", source]);
        assert_ne!(answer.code, 0, "{source}");
        assert!(answer.stderr.contains(said), "{source}: {}", answer.stderr);
    }
    place.write("a.wasm", super::place::wordcount());
    place.haft(&["add", "./a.wasm", "--set", "a=b"]).ends(5, "are for `npm:NAME`");
}

/// A package of npm.
fn tarball(package: &Value, files: &[(&str, &str)]) -> Vec<u8> {
    let package = package.to_string();
    archive("package", &[files, &[("package.json", package.as_str())]].concat())
}

/// A gzip-compressed tar archive of one folder.
pub(super) fn archive(folder: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{folder}/{path}"), content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serves documents by their paths.
pub(super) fn serving(
    answer: impl Fn(&str, &str) -> Option<(&'static str, Vec<u8>)> + Send + Sync + 'static,
) -> Server {
    Server::answering(move |head| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_lowercase();
        let host =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
        let found = answer(&path, &host.unwrap_or_default());
        let (status, (kind, body)) = match found {
            Some(found) => ("200 OK", found),
            None => ("404 Not Found", ("text/plain", Vec::new())),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        [head.into_bytes(), body].concat()
    })
}

/// An install script that records which accesses succeeded.
const SCRIPT: &str = r#"
const fs = require("fs");
let said = "wrote nothing elsewhere";
try { fs.writeFileSync(process.env.HOME + "/work/elsewhere", ""); said = "wrote elsewhere"; } catch {}
try { said += ", read " + fs.readFileSync(process.env.HOME + "/work/private", "utf8"); } catch { said += ", read nothing of yours"; }
const port = Number(fs.readFileSync(__dirname + "/port", "utf8"));
const socket = require("net").connect(port, "127.0.0.1");
const end = (text) => { fs.writeFileSync(__dirname + "/ran", said + ", " + text); process.exit(0); };
socket.on("connect", () => end("connected")).on("error", () => end("connected nowhere"));
"#;

/// A registry with versions of `@haft-test/teller`, which depends on `helper`, whose package has an install script.
pub(super) fn npm_registry(versions: &'static [&'static str]) -> Server {
    npm_registry_with(versions, false)
}

/// The registry; with `has_port` the install script has the registry's port.
fn npm_registry_with(versions: &'static [&'static str], has_port: bool) -> Server {
    serving(move |path, host| {
        let name = if path.contains("helper") { "helper" } else { "@haft-test/teller" };
        let package = |version: &str| match name {
            "helper" => {
                json!({ "name": name, "version": version, "scripts": { "postinstall": "node script.js" } })
            }
            _ => {
                json!({ "name": name, "version": version, "bin": "index.js", "dependencies": { "helper": "1.0.0" } })
            }
        };
        let port = host.rsplit(':').next().filter(|_| has_port).unwrap_or_default();
        let packed = |version: &str| {
            let files: &[(&str, &str)] = match name {
                "helper" => &[("script.js", SCRIPT), ("port", port)],
                _ => &[("index.js", NODE)],
            };
            tarball(&package(version), files)
        };
        if let Some((_, file)) = path.rsplit_once("/-/") {
            return Some(("application/gzip", packed(file.strip_suffix(".tgz")?)));
        }
        let versions = if name == "helper" { &["1.0.0"] } else { versions };
        let mut all =
            json!({ "name": name, "dist-tags": { "latest": versions.last() }, "versions": {}, "time": {} });
        for version in versions {
            let mut entry = package(version);
            let digest = ring::digest::digest(&ring::digest::SHA512, &packed(version));
            let digest = format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(digest));
            let tarball = format!("http://{host}/{name}/-/{version}.tgz");
            entry["dist"] = json!({ "tarball": tarball, "integrity": digest });
            entry["hasInstallScript"] = json!(name == "helper");
            all["versions"][version] = entry;
            all["time"][version] = json!("2025-01-01T00:00:00.000Z");
        }
        let is_known = path.contains("teller") || path.contains("helper");
        is_known.then(|| ("application/json", all.to_string().into_bytes()))
    })
}

/// Runs haft with the test's registries.
pub(super) fn with_registry(place: &Place, server: &Server, arguments: &[&str]) -> Answer {
    Answer::from(command_with_registry(place, server, arguments).output().unwrap())
}

/// The command of haft with the test's registries.
pub(super) fn command_with_registry(place: &Place, server: &Server, arguments: &[&str]) -> Command {
    let (registry, index) =
        (format!("http://{}/", server.address), format!("http://{}/simple", server.address));
    let mut command = place.command(arguments);
    command.env("npm_config_registry", registry).env("UV_DEFAULT_INDEX", index).env("no_proxy", "127.0.0.1");
    command.env("XDG_CACHE_HOME", place.home().join("cache")).env_remove("NODE_EXTRA_CA_CERTS");
    command
}

#[test]
fn a_package_of_npm_is_installed_without_its_scripts() {
    if !has("npm") {
        return;
    }
    let (place, server) = (Place::new(), npm_registry(&["1.0.0"]));
    let add = ["add", "npm:@haft-test/teller", "--set", "arg=hi", "--yes"];
    let added = with_registry(&place, &server, &add).good();
    let told = "the install script of `helper 1.0.0` was not run: `node script.js`";
    assert!(
        added.stderr.contains(told)
            && added.stderr.contains("node ./node_modules/@haft-test/teller/index.js hi")
    );
    let tree = place.kept()[0].join("tree");
    assert!(!tree.join("node_modules/helper/ran").exists());
    let lock = fs::read_to_string(tree.join("package-lock.json")).unwrap();
    assert_eq!(lock.matches("\"integrity\": \"sha512-").count(), 2, "{lock}");
    let called = place.haft(&["call", "mcp__teller__tell", "{}"]).good();
    assert_eq!(called.stdout.trim(), "hi no lib 0");
    assert_eq!(place.haft(&["--json", "list"]).json()[0]["form"], "npm server");

    // On another machine haft installs exactly the pinned version, although a later version exists.
    fs::remove_dir_all(place.store()).unwrap();
    let later = npm_registry(&["1.0.0", "1.1.0"]);
    let pins = place.read("program.lock");
    with_registry(&place, &later, &["add"]).good();
    assert_eq!(place.read("program.lock"), pins);
    let check = with_registry(&place, &later, &["update", "--check"]);
    assert!(
        check.code == 1 && check.stdout.contains("teller 1.0.0 → 1.1.0"),
        "{}{}",
        check.stdout,
        check.stderr
    );
    with_registry(&place, &later, &["update", "--yes"]).ends(0, "1.0.0 → 1.1.0");
    with_registry(&place, &later, &["update", "--check"]).good();
}

#[test]
fn scripts_that_a_person_asks_for_run_confined() {
    if !has("npm") {
        return;
    }
    let (place, server) = (Place::new(), npm_registry_with(&["1.0.0"], true));
    place.write("private", "a letter");
    let add = ["add", "npm:@haft-test/teller@1.0.0", "--run-scripts", "--yes"];
    with_registry(&place, &server, &add).ends(0, "the install script of `helper 1.0.0` was run");
    let said = fs::read_to_string(place.kept()[0].join("tree/node_modules/helper/ran")).unwrap();
    assert_eq!(said, "wrote nothing elsewhere, read nothing of yours, connected nowhere");
    assert!(!place.work().join("elsewhere").exists());
}

#[test]
fn a_package_of_pypi_is_installed_from_wheels() {
    if !has("uv") || !has("python3") {
        return;
    }
    let wheel = zip(&[
        ("haft_teller/__init__.py", PYTHON.as_bytes()),
        ("haft_teller-1.2.dist-info/METADATA", b"Metadata-Version: 2.1\nName: haft-teller\nVersion: 1.2\nSummary: Tells\n"),
        ("haft_teller-1.2.dist-info/WHEEL", b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        ("haft_teller-1.2.dist-info/entry_points.txt", b"[console_scripts]\nhaft-teller = haft_teller:main\n"),
        ("haft_teller-1.2.dist-info/RECORD", b"haft_teller/__init__.py,,\nhaft_teller-1.2.dist-info/METADATA,,\nhaft_teller-1.2.dist-info/WHEEL,,\nhaft_teller-1.2.dist-info/entry_points.txt,,\nhaft_teller-1.2.dist-info/RECORD,,\n"),
    ]);
    let digest = sha256(&wheel);
    let file = "haft_teller-1.2-py3-none-any.whl";
    let page = format!("<html><body><a href=\"/{file}#sha256={digest}\">{file}</a></body></html>");
    let server = serving(move |path, _| match path {
        "/simple/haft-teller/" => Some(("text/html", page.clone().into_bytes())),
        path if path.contains(file) => Some(("application/zip", wheel.clone())),
        _ => None,
    });
    let place = Place::new();
    let added =
        with_registry(&place, &server, &["add", "pypi:haft-teller==1.2", "--set", "arg=hi", "--yes"]).good();
    assert!(added.stderr.contains("are for Python 3."), "{}", added.stderr);
    let tree = place.kept()[0].join("tree");
    let locked = fs::read_to_string(tree.join("requirements.txt")).unwrap();
    assert!(locked.contains(&format!("--hash=sha256:{digest}")), "{locked}");
    let called = place.haft(&["call", "mcp__haft-teller__tell", "{}"]).good();
    assert_eq!(called.stdout.trim(), "hi no lib 0");
    assert_eq!(place.haft(&["--json", "list"]).json()[0]["form"], "PyPI server");
    place.haft(&["verify"]).good();
    with_registry(&place, &server, &["update", "--check"]).ends(0, "is the latest");
}
