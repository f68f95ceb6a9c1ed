//! `haft mcp login`, `status` and `logout` on the command line. The tokens stay in the store alone.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::oauth_fake::{Like, OAuthFake, get, sent_on};
use super::*;
use crate::cli::{Answer, Home};

/// A home without a keyring, whose program has the server `tracker`.
fn home(fake: &OAuthFake, more: &str) -> Arc<Home> {
    let home = Home::new();
    let server = format!("[[mcp_servers]]\nname = \"tracker\"\nurl = \"{}\"\n{more}", fake.url());
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{server}"));
    Arc::new(home)
}

async fn haft(home: &Arc<Home>, arguments: &[&str]) -> Answer {
    let (home, arguments) =
        (home.clone(), arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let run = move || home.haft(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Logs in; the test plays the browser. Standard error, and whether it succeeded.
async fn log_in(home: &Arc<Home>, more: &[&str]) -> (String, bool) {
    let mut command = home.command(&[&["-vvv", "mcp", "login", "tracker"], more].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let (mut stderr, mut said, url) = tokio::task::spawn_blocking(move || {
        let (mut said, mut line) = (String::new(), String::new());
        while stderr.read_line(&mut line).unwrap() > 0 {
            said += &line;
            if line.starts_with("  http://") {
                return (stderr, said, line.trim().to_owned());
            }
            line.clear();
        }
        panic!("no address: {said}");
    })
    .await
    .unwrap();
    assert!(get(&sent_on(&url).await).await.starts_with("HTTP/1.1 200"), "{said}");
    tokio::task::spawn_blocking(move || {
        stderr.read_to_string(&mut said).unwrap();
        (said, child.wait().unwrap().success())
    })
    .await
    .unwrap()
}

/// The files below the home that contain one of `texts`.
fn holders(home: &Home, texts: &[String]) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![home.work().parent().unwrap().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.is_symlink() {
                folders.push(entry);
            } else if let Ok(bytes) = fs::read(&entry) {
                let text = String::from_utf8_lossy(&bytes);
                found.extend(texts.iter().any(|one| text.contains(one)).then_some(entry));
            }
        }
    }
    found
}

/// No output contains a token; one file contains them, and no tool opens it.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_in_its_store_alone() {
    let fake = OAuthFake::start(Like { expires: Some(0), ..Like::default() }).await;
    let home = home(&fake, "");
    let before = haft(&home, &["call", "mcp__tracker__read", "{}"]).await;
    assert!(before.stderr.contains("hint: `haft mcp login tracker` logs in"), "{}", before.stderr);
    let (login, is_done) = log_in(&home, &[]).await;
    assert!(is_done && login.contains("logged in to `tracker`: by http://127.0.0.1:"), "{login}");
    let mut said = vec![login];
    for arguments in [
        &["-vvv", "call", "mcp__tracker__read", "{}"][..],
        &["-vvv", "tools", "--refresh"],
        &["-vvv", "mcp", "status"],
        &["-vvv", "mcp", "status", "tracker", "--json"],
        &["-vvv", "log", "--json"],
        &["-vvv", "check"],
        &["-vvv", "call", "bash", "{\"command\": \"env; cat ~/.local/state/haft/logins/*; true\"}"],
    ] {
        let answer = haft(&home, arguments).await;
        assert_eq!(answer.code, 0, "{arguments:?} {}", answer.stderr);
        said.extend([answer.stdout, answer.stderr]);
    }
    assert_eq!(said[1], "done: read\n");
    let tokens = fake.tokens();
    assert!(tokens.len() >= 6, "{:?}", fake.log());
    let shown: Vec<_> = said.iter().filter(|text| tokens.iter().any(|token| text.contains(token))).collect();
    assert!(shown.is_empty(), "{shown:?}");
    let kept = holders(&home, &tokens);
    let folder = home.state().join("logins");
    assert!(kept.len() == 1 && kept[0].starts_with(&folder), "{kept:?}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept[0]), mode(&folder)), (0o600, 0o700));
    let out = haft(&home, &["mcp", "logout", "tracker"]).await;
    assert!(out.stderr.contains("`: the token is revoked") && !fake.has_login(), "{}", out.stderr);
    assert!(holders(&home, &fake.tokens()).is_empty());
    let status = haft(&home, &["mcp", "status"]).await;
    assert_eq!(status.stdout, "tracker: not logged in\n");
}

/// An error names the command that adds a scope, and a login to an unknown server names the known ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_stepped_up_by_the_line_that_is_told() {
    let fake = OAuthFake::start(Like::default()).await;
    let home = home(&fake, "");
    assert!(log_in(&home, &[]).await.1);
    let refused = haft(&home, &["call", "mcp__tracker__write", "{}"]).await;
    assert!(
        refused.stderr.contains("hint: `haft mcp login tracker --scope 'write'` logs in"),
        "{}",
        refused.stderr
    );
    assert!(log_in(&home, &["--scope", "write"]).await.1);
    let answer = haft(&home, &["call", "mcp__tracker__write", "{}"]).await;
    assert_eq!(answer.stdout, "done: write\n", "{}", answer.stderr);
    let unknown = haft(&home, &["mcp", "login", "nobody"]).await;
    assert!(
        unknown.stderr.contains("`nobody` is not in this program") && unknown.code != 0,
        "{}",
        unknown.stderr
    );
    assert!(unknown.stderr.contains("hint: servers with logins: tracker"), "{}", unknown.stderr);
}

/// The login settings of program.toml are part of the consent, and `client_secret` is a reference, not a value.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_of_a_login_is_agreed_to() {
    let fake = OAuthFake::start(Like::default()).await;
    let home = home(
        &fake,
        "[mcp_servers.oauth]\nclient_id = \"by-hand\"\nclient_secret = { env = \"OPENAI_API_KEY\" }\nscopes = [\"read\", \"write\"]\n",
    );
    let asked = haft(&home, &["trust", "--json"]).await;
    let expected =
        format!("{}; logs in as by-hand with the secret in $OPENAI_API_KEY for read write", fake.url());
    assert!(asked.stdout.contains(&expected), "{}", asked.stdout);
    assert!(log_in(&home, &[]).await.1);
    assert_eq!(fake.count("authorize by-hand read write"), 1, "{:?}", fake.log());
    let written = home.work().join("program.toml");
    let text =
        fs::read_to_string(&written).unwrap().replace("{ env = \"OPENAI_API_KEY\" }", "\"hunter2-hunter2\"");
    fs::write(written, text).unwrap();
    let refused = haft(&home, &["check"]).await;
    assert!(refused.stderr.contains("expected the place of a secret, not the secret"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}
