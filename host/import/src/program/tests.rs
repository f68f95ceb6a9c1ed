use std::fs;

use super::*;
use crate::client::Client;

/// Translates the servers of a file of tests/import.
fn translated(client: &str, name: &str) -> Vec<Result<ProgramServer, String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import");
    of_text(client, name, fs::read_to_string(folder.join(name)).unwrap())
}

fn of_text(client: &str, name: &str, text: String) -> Vec<Result<ProgramServer, String>> {
    let config = Config::of_text(Client::named(client).unwrap(), Path::new(name), text).unwrap();
    let machine =
        Machine { home: "/home/ada".into(), config: "/home/ada/.config".into(), project: "/work/app".into() };
    let environment = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
    config.servers.iter().map(|server| ProgramServer::of(&config, server, &machine, &environment)).collect()
}

/// The values of a server, as `NAME=TEXT` or `NAME<PLACE`.
fn values(server: &ProgramServer) -> Vec<String> {
    let value = |(name, value): &(String, TextOrSecret)| match value {
        TextOrSecret::Text(text) => format!("{name}={text}"),
        TextOrSecret::Secret(SecretSource::Env(variable)) => format!("{name}<{variable}"),
        TextOrSecret::Secret(source) => format!("{name}<{}", source.file().unwrap().display()),
    };
    server.values.iter().map(value).collect()
}

#[test]
fn variables_become_places_of_secrets_or_their_values() {
    let servers = translated("claude", "claude.json");
    let filesystem = servers[0].as_ref().unwrap();
    assert_eq!(filesystem.command.last().unwrap(), "/home/ada/notes");
    let github = servers[1].as_ref().unwrap();
    assert_eq!(
        values(github),
        ["GITHUB_PERSONAL_ACCESS_TOKEN<GITHUB_PERSONAL_ACCESS_TOKEN", "LOG_LEVEL=info"]
    );
    assert_eq!(github.notes.len(), 1, "{:?}", github.notes);
    assert_eq!(servers[2].as_ref().unwrap_err(), "its address may contain a key and was not copied");
    let renamed = servers[3].as_ref().unwrap();
    assert_eq!(renamed.name.as_str(), "sequential-thinking");
    let wrapped = servers[5].as_ref().unwrap();
    assert_eq!(wrapped.command, ["uvx", "mcp-server-time"]);
    let all = format!("{servers:?}");
    assert!(!all.contains("ghp_SECRET"), "{all}");
}

#[test]
fn each_client_has_its_own_references() {
    let servers = translated("gemini", "gemini.json");
    let python = servers[0].as_ref().unwrap();
    assert_eq!(python.command[0], "/home/ada/.venv/bin/python");
    assert_eq!(values(python), ["DATABASE_URL<DB_URL", "API_KEY<TEAM_KEY"]);
    assert_eq!(
        python.notes,
        ["its working directory was `./tools`; servers of program.toml start in its folder"]
    );
    let servers = translated("cursor", "cursor.json");
    let local = servers[0].as_ref().unwrap();
    assert_eq!(local.command, ["/work/app/bin/server", "--root", "/work/app", "--home", "/home/ada"]);
    assert_eq!(values(local), ["API_TOKEN<TEAM_TOKEN"]);
    assert!(
        local.notes[0].starts_with("the variables of `${workspaceFolder}/.env` are not known"),
        "{local:?}"
    );
    let servers = translated("vscode", "vscode.json");
    let perplexity = servers[0].as_ref().unwrap();
    assert_eq!(values(perplexity), ["PERPLEXITY_API_KEY<PERPLEXITY_API_KEY", "PORT=3000"]);
    assert!(perplexity.notes[0].contains("VS Code asks for it as `perplexity-key`"), "{perplexity:?}");
    let database = servers[1].as_ref().unwrap_err();
    assert!(
        database.starts_with("its command line contains a secret; pass the secret in a variable first"),
        "{database}"
    );
    let servers = translated("opencode", "opencode.json");
    let everything = servers[0].as_ref().unwrap();
    assert_eq!(values(everything), ["MY_KEY<MY_KEY", "OTHER_KEY<~/keys/other"]);
    assert!(!everything.enabled);
    let servers = translated("codex", "codex.toml");
    assert_eq!(
        values(servers[1].as_ref().unwrap()),
        ["GIT_PAGER=cat", "GIT_AUTHOR_NAME<GIT_AUTHOR_NAME", "GIT_TOKEN<GIT_TOKEN"]
    );
    assert_eq!(
        values(servers[3].as_ref().unwrap()),
        ["X-Figma-Region=us-east-1", "X-Team<FIGMA_TEAM", "Authorization<FIGMA_AUTHORIZATION"]
    );
}

#[test]
fn a_header_that_is_put_together_is_one_secret() {
    let text = r#"{"mcpServers": {"sentry": {"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer ${T_TOKEN}"}}}}"#;
    let sentry = of_text("claude", "x", text.to_owned()).remove(0).unwrap();
    assert_eq!(values(&sentry), ["Authorization<SENTRY_AUTHORIZATION"]);
    assert!(
        sentry.notes[0].contains("it must contain the whole value, which is combined in `"),
        "{sentry:?}"
    );
}

#[test]
fn a_command_line_without_its_variables_is_not_written() {
    let text = |word: &str| format!(r#"{{"mcpServers": {{"a": {{"command": "b", "args": ["{word}"]}}}}}}"#);
    for (word, why) in [
        ("${ROOT_OF_ALL}/x", "its command line contains the variable `ROOT_OF_ALL`, which is not set"),
        ("--as=${MY_TOKEN}", "its command line contains the secret `MY_TOKEN`"),
        ("${input:key}", "its command line contains `key`, an input of the client"),
    ] {
        let error = of_text("claude", "x", text(word)).remove(0).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
}
