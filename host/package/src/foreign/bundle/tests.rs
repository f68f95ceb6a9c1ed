//! Tests of the texts and settings in manifest.json of bundles.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::PackageSource;
use haft_core::grant::Grant;

/// A manifest with these parts, and with defaults for the others.
fn manifest(parts: &Value) -> Value {
    let mut all = json!({
        "manifest_version": "0.3", "name": "My Server", "version": "1.0.0", "description": "d",
        "author": { "name": "Ada" },
        "server": { "type": "node", "entry_point": "server/index.js", "mcp_config": {
            "command": "node",
            "args": ["${__dirname}/server/index.js", "--limit=${user_config.limit}", "${user_config.dirs}"],
            "env": { "API_KEY": "${user_config.api_key}", "LIB": "${__dirname}/it's lib", "HOME_IS": "${HOME}",
                     "MORE": "${user_config.nothing}" },
        }},
        "user_config": {
            "api_key": { "type": "string", "title": "API key", "sensitive": true, "required": true },
            "limit": { "type": "number", "default": 10, "min": 1, "max": 100 },
            "dirs": { "type": "directory", "title": "Directories", "multiple": true, "required": true },
            "nothing": { "type": "boolean" },
        },
    });
    for (key, value) in parts.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

/// Makes a package of `manifest` with these settings; returns its folder, or the error.
async fn made(manifest: &Value, settings: &str) -> Result<(tempfile::TempDir, Vec<String>), String> {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("server")).unwrap();
    fs::write(tree.path().join("server/index.js"), "").unwrap();
    fs::write(tree.path().join(MANIFEST), manifest.to_string()).unwrap();
    let source: PackageSource = format!("./a.mcpb{settings}").parse().unwrap();
    let PackageSource::Foreign(foreign) = source else { panic!("{source}") };
    let (access, confiner) = (crate::oci::Access::default(), haft_sandbox::confine::Confiner::default());
    let fetching = Fetching {
        directory: tree.path(),
        base: tree.path(),
        home: Path::new("/home/ada"),
        progress: crate::Progress::default(),
        expected: None,
        access: &access,
        asks: false,
        trust: &crate::signature::Trust::Nobody,
        root: &crate::signature::TrustRoot::default(),
        confiner: &confiner,
        grants: &crate::FetchGrants { fetch: Grant::none(), build: Grant::none() },
    };
    let made = make(&foreign, tree.path(), &fetching).await.map_err(|error| error.to_string())?;
    Ok((tree, made.notes))
}

fn program(tree: &tempfile::TempDir) -> toml::Table {
    fs::read_to_string(tree.path().join("program.toml")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_bundle_becomes_a_program_with_one_server() {
    let (tree, notes) = made(&manifest(&json!({})), "#dirs=./a&dirs=/b b&limit=7").await.unwrap();
    let program = program(&tree);
    assert_eq!(program["program"]["name"].as_str(), Some("my-server"));
    let server = &program["mcp_servers"][0];
    let command: Vec<_> =
        server["command"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(command, ["./start.sh", "node", "./server/index.js", "--limit=7", "./a", "/b b"]);
    let env = toml::Table::from_iter([
        ("API_KEY".to_owned(), toml::Table::from_iter([("env".to_owned(), "API_KEY".into())]).into()),
        ("HOME_IS".to_owned(), "/home/ada".into()),
    ]);
    assert_eq!(server["env"].as_table(), Some(&env));
    let script = fs::read_to_string(tree.path().join("start.sh")).unwrap();
    assert!(script.contains("export LIB=''\"$here\"'/it'\\''s lib'\n"), "{script}");
    assert_eq!(notes, ["`api_key` is the value of the variable `API_KEY` when the server starts"]);
    let (tree, _) = made(&manifest(&json!({})), "#dirs=.&api_key=env:MINE").await.unwrap();
    assert_eq!(self::program(&tree)["mcp_servers"][0]["env"]["API_KEY"]["env"].as_str(), Some("MINE"));
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named_and_a_secret_is_not() {
    let usual = manifest(&json!({}));
    for (settings, expected) in [
        ("", "it needs `dirs` (Directories)"),
        (
            "#dirs=.&other=1",
            "it has no setting `other`; its settings are `api_key`, `dirs`, `limit`, `nothing`",
        ),
        ("#dirs=.&before=2026-01-01T00:00:00Z", "it has no setting `before`"),
        ("#dirs=.&limit=101", "`limit` is not usable: expected a number within its limits"),
        ("#dirs=.&limit=NaN", "`limit` is not usable"),
        ("#dirs=.&nothing=1", "`nothing` is not usable: expected `true` or `false`"),
        ("#dirs=.&limit=1&limit=2", "`limit` is not usable: it has one value"),
        ("#dirs=.&api_key=hunter2hunter2", "`api_key` is not usable: it is sensitive"),
    ] {
        let error = made(&usual, settings).await.unwrap_err();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{settings}: {error}");
    }
    let run = |args: Value, env: Value| json!({ "type": "node", "entry_point": "x", "mcp_config": { "command": "node", "args": args, "env": env } });
    for (parts, expected) in [
        (json!({ "manifest_version": null, "dxt_version": "0.1" }), "the older form `dxt_version \"0.1\"`"),
        (json!({ "manifest_version": "0.2" }), "the older form `manifest_version 0.2`"),
        (json!({ "manifest_version": "0.5" }), "; this haft supports 0.3 and 0.4"),
        (json!({ "compatibility": { "platforms": ["win32"] } }), "it is for win32"),
        (json!({ "server": run(json!(["${user_config.api_key}"]), json!({})) }), "where others can read it"),
        (
            json!({ "server": run(json!([]), json!({ "A": "Bearer ${user_config.api_key}" })) }),
            "where others",
        ),
        (
            json!({ "server": run(json!([]), json!({ "MY_TOKEN": "abc" })) }),
            "its manifest contains a secret: `",
        ),
        (json!({ "server": run(json!(["--x=${__dirname}/y"]), json!({})) }), "only at the start"),
        (json!({ "name": "…" }), "it has no usable name (`"),
    ] {
        let error = made(&manifest(&parts), "#dirs=.").await.unwrap_err();
        assert!(error.contains(expected), "{parts}: {error}");
    }
}

/// The user's values are literal: placeholders in them are not expanded.
#[tokio::test]
async fn a_value_is_not_looked_into() {
    let (tree, _) = made(&manifest(&json!({})), "#dirs=${user_config.api_key}").await.unwrap();
    let program = program(&tree);
    assert_eq!(program["mcp_servers"][0]["command"][4].as_str(), Some("${user_config.api_key}"));
}

/// A setting that is the value of a credential's variable is sensitive, whatever the author declares.
#[tokio::test]
async fn a_credential_is_sensitive_whatever_its_author_says() {
    let config = json!({ "api_key": { "type": "string", "required": true } });
    let server = json!({ "type": "node", "entry_point": "server/index.js", "mcp_config": {
        "command": "node", "args": ["server/index.js"], "env": { "API_KEY": "${user_config.api_key}" } } });
    let all = manifest(&json!({ "user_config": config, "server": server }));
    let (tree, _) = made(&all, "").await.unwrap();
    let server = program(&tree)["mcp_servers"][0].clone();
    assert_eq!(server["env"]["API_KEY"]["env"].as_str(), Some("API_KEY"));
    assert_eq!(server["command"][1].as_str(), Some("./server/index.js"));
    assert!(made(&all, "#api_key=hunter2hunter2").await.is_err());
}
