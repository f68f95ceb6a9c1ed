use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const WORDCOUNT: &[u8] = include_bytes!("../../../../plugins/built/wordcount.wasm");

/// Makes a package of `files`.
fn offered(files: &[(&str, &[u8])]) -> Result<Offered, String> {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        if name.starts_with("bin/") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let (listing, _) = Listing::from_folder(directory.path()).unwrap();
    let kept = listing.digest();
    let content = Content::Tree(directory.path().to_owned(), listing);
    Offered::new(&content, &kept, None, "x").map_err(|error| error.to_string())
}

fn package(more: &str) -> String {
    format!("[program]\nname = \"github\"\nversion = \"1.2.0\"\n{more}")
}

fn texts(offered: &Offered) -> Vec<String> {
    offered.requests.iter().map(ToString::to_string).collect()
}

/// A part of each kind.
const PARTS: &str = r#"
[[plugins]]
name = "words"
component = "./words.wasm"
[plugins.grant]
read = ["./docs"]
hosts = ["api.github.com"]
[plugins.limits]
memory = "256MiB"
[plugins.secrets.token]
host = "api.github.com"
header = "Authorization"
env = "GITHUB_TOKEN"
[[plugins]]
name = "off"
component = "words.wasm"
enabled = false
[plugins.grant]
write = ["/"]
[[tools]]
name = "pr"
description = "Creates"
command = "gh pr 'a b'"
env = ["GH_HOST"]
[[tools]]
name = "own"
description = "Runs"
command = "./bin/run"
[[mcp_servers]]
name = "everything"
command = "npx"
args = ["-y"]
env = { LOG = "info", TOKEN = { env = "SECRET" } }
[sandbox]
mode = "rwx"
"#;

#[test]
fn a_package_asks_for_what_all_its_parts_ask_for() {
    let text = package(PARTS);
    let files: &[(&str, &[u8])] = &[
        ("program.toml", text.as_bytes()),
        ("words.wasm", WORDCOUNT),
        ("bin/run", b"#!/bin/sh\n"),
        ("SKILL.md", b"Do."),
    ];
    let offered = offered(files).unwrap();
    let expected = [
        "words:read=./docs",
        "words:host=api.github.com",
        "words:secret=token (variable GITHUB_TOKEN) to api.github.com as `Authorization`",
        "words:memory=256MiB",
        "command=pr: gh pr 'a b'",
        "env=GH_HOST",
        "command=own: ./bin/run",
        "server=everything: npx -y (with LOG=info, TOKEN from variable SECRET)",
        "env=SECRET",
        "instructions=SKILL.md",
    ];
    assert_eq!(texts(&offered), expected);
    assert_eq!((offered.name.as_str(), offered.plugins.len()), ("github", 1));
    assert_eq!(offered.contracts(), ["haft:plugin"]);
    assert!(offered.bundle.unwrap().runs_its_own());
}

/// A file beside a skill's folder, whose path begins with the folder's name, does not belong to the
/// skill.
#[test]
fn a_file_is_of_the_skill_whose_folder_it_lies_in() {
    let manifest: &[u8] =
        br#"{ "$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "a" }"#;
    let files: &[(&str, &[u8])] = &[
        ("plugin.json", manifest),
        ("skills/a/SKILL.md", b"---\nname: a\ndescription: Does it.\n---\nDo.\n"),
        ("skills/a/b/x.py", b"print()"),
        ("skills/aSKILL.md", b"Text"),
        ("skills/ab/x.py", b"print()"),
    ];
    let bundle = offered(files).unwrap().bundle.unwrap();
    for (path, expected) in [
        ("skills/a/SKILL.md", (true, false)),
        ("skills/a/b/x.py", (false, true)),
        ("skills/aSKILL.md", (false, false)),
        ("skills/ab/x.py", (false, false)),
    ] {
        assert_eq!((bundle.is_instruction(path), bundle.is_script(path)), expected, "{path}");
    }
}

/// PR08: each rule for packages refuses its violation with a reason.
#[test]
fn a_package_is_held_to_the_rules() {
    let plugin = |component: &str| format!("[[plugins]]\nname = \"a\"\ncomponent = \"{component}\"\n");
    let tool =
        |command: &str| format!("[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"{command}\"\n");
    for (reason, more) in [
        ("is not a file of the package", plugin("../a.wasm")),
        ("is not a file of the package", plugin("/etc/passwd")),
        ("is not a file of the package", plugin("~/a.wasm")),
        ("is not a file of the package", plugin("missing.wasm")),
        ("is not a file of the package", plugin("https://a.test/a.wasm")),
        ("is not a file of the package", plugin("oci://a.test/a")),
        ("`text.wasm`: not a WebAssembly component", plugin("text.wasm")),
        ("is not a file of the package", tool("./bin/none")),
        ("which is not executable", tool("./text.wasm")),
        ("the package is empty", String::new()),
        (
            "has its own `[[packages]]`",
            format!("{}[[packages]]\nname = \"b\"\nsource = \"b\"\n", plugin("words.wasm")),
        ),
        ("the package's program.toml is wrong", "[pugins]\n".to_owned()),
    ] {
        let text = package(&more);
        let files: &[(&str, &[u8])] =
            &[("program.toml", text.as_bytes()), ("words.wasm", WORDCOUNT), ("text.wasm", b"text")];
        let error = offered(files).unwrap_err();
        assert!(error.contains(reason), "{more}: {error}");
    }
    let nameless = offered(&[("program.toml", plugin("words.wasm").as_bytes()), ("words.wasm", WORDCOUNT)]);
    assert!(nameless.unwrap_err().contains("has no `[program]`"));
    let hostile = offered(&[("program.toml", b"[program]\nname = \"../../x\"\nversion = \"1.0.0\"\n")]);
    assert!(hostile.unwrap_err().contains("'.' is not allowed"));
}

/// Appends a custom section to a component's file.
fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let leb = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
        bytes
    };
    let inner = [leb(name.len()), name.into(), data.into()].concat();
    [component.to_vec(), vec![0], leb(inner.len()), inner].concat()
}

fn component(bytes: &[u8], name: Option<&str>, stem: &str) -> Result<Offered, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let content = Content::Component(file.path().to_owned());
    let name = name.map(|name| name.parse().unwrap());
    Offered::new(&content, &Digest::hash(bytes), name, stem).map_err(|error| error.to_string())
}

#[test]
fn a_component_says_what_it_asks_for_or_asks_for_nothing() {
    let bare = component(WORDCOUNT, None, "Word_Count").unwrap();
    assert_eq!((bare.name.as_str(), texts(&bare).len(), bare.kind), ("word-count", 0, Kind::Plugin));
    assert_eq!(component(WORDCOUNT, Some("w"), "x").unwrap().name.as_str(), "w");
    let text =
        package("[[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"\n[plugins.grant]\nread = [\".\"]\n");
    let declared = with_section(WORDCOUNT, haft_plugin_host::PROGRAM_SECTION, text.as_bytes());
    let declared = component(&declared, None, "x").unwrap();
    assert_eq!((declared.name.as_str(), texts(&declared)), ("github", vec!["read=.".to_owned()]));
    assert_eq!(declared.version, Some(semver::Version::new(1, 2, 0)));
    let wrong = with_section(WORDCOUNT, haft_plugin_host::PROGRAM_SECTION, b"[pugins]\n");
    assert!(component(&wrong, None, "x").unwrap_err().contains("program.toml is wrong"));
    assert!(component(WORDCOUNT, None, "…").unwrap_err().contains("it has no usable name (`"));
}

/// WA04: a component that implements no known contract is refused before it is installed.
#[test]
fn a_wrong_component_is_refused() {
    for (bytes, reason) in [
        (b"not wasm".as_slice(), "not a WebAssembly component"),
        (b"\0asm\x01\0\0\0", "a core WebAssembly module"),
        (b"\0asm\x0d\0\x01\0", "exports"),
    ] {
        let error = component(bytes, None, "x").unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
