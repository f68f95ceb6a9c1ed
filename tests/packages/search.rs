//! `haft search`: the marketplaces and registries in a person's configuration, their answers and their failures.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::place::{Answer, Place};
use crate::http::server::{Server, ok, with};

/// A person's machine with a separate cache.
struct Person(Place);

impl Person {
    fn new(sources: &str) -> Self {
        let place = Place::new();
        fs::create_dir_all(place.home().join(".config/haft")).unwrap();
        fs::write(place.home().join(".config/haft/sources.toml"), sources).unwrap();
        Self(place)
    }

    fn names(&self, sources: &str) {
        fs::write(self.0.home().join(".config/haft/sources.toml"), sources).unwrap();
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        let mut command = self.0.command(arguments);
        command.env("XDG_CACHE_HOME", self.0.home().join("cache")).env("no_proxy", "127.0.0.1");
        Answer::from(command.output().unwrap())
    }

    fn finds(&self, words: &[&str]) -> Value {
        self.haft(&[&["--json", "search"], words].concat()).json()
    }

    /// Makes every cached answer older by `seconds`.
    fn ages(&self, seconds: u64) {
        for entry in fs::read_dir(self.0.home().join("cache/haft/search")).unwrap() {
            let path = entry.unwrap().path();
            let mut kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            kept["at"] = json!(kept["at"].as_u64().unwrap() - seconds);
            fs::write(&path, kept.to_string()).unwrap();
        }
    }
}

fn names(found: &Value) -> Vec<&str> {
    found["results"].as_array().unwrap().iter().map(|offer| offer["name"].as_str().unwrap()).collect()
}

/// A repository with a marketplace; `None` without `git`.
fn repository(place: &Place, market: &Value) -> Option<String> {
    place.write("repository/.claude-plugin/marketplace.json", market.to_string());
    place.write("repository/notes/skills/note/SKILL.md", "---\nname: note\ndescription: Notes.\n---\nNote.");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(place.work().join("repository"));
        git.args(arguments).env("HOME", place.home()).output()
    };
    if git(&["init", "--quiet"]).is_err() {
        eprintln!("SKIPPED: there is no `git` on this machine");
        return None;
    }
    for arguments in [&["add", "-A"][..], &["commit", "-qm", "one"]] {
        assert!(git(arguments).unwrap().status.success());
    }
    Some(format!("git+file://{}", place.work().join("repository").display()))
}

/// A registry that searches names as the published registry does while `up` is true.
fn registry(up: &Arc<AtomicBool>) -> Server {
    let up = up.clone();
    Server::answering(move |head| {
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let word = target.strip_prefix("/v0.1/servers?search=");
        let word = word.and_then(|rest| rest.strip_suffix("&version=latest&limit=100"));
        let Some(word) = word.filter(|_| up.load(Ordering::SeqCst)) else {
            return with("503 Service Unavailable", "", "");
        };
        let server = |(name, status): (&str, &str)| {
            json!({
                "server": { "name": name, "version": "1.0.0", "description": "Keeps \u{1b}[31mnotes\u{202e}" },
                "_meta": { "io.modelcontextprotocol.registry/official": { "status": status } },
            })
        };
        let all =
            [("io.test/notes", "active"), ("io.test/old-notes", "deleted"), ("no name notes", "active")];
        let mut servers: Vec<_> =
            all.into_iter().filter(|(name, _)| name.contains(word)).map(server).collect();
        servers.push(json!("no server"));
        ok(&json!({ "servers": servers, "metadata": { "count": servers.len() } }).to_string())
    })
}

#[test]
fn nobody_is_asked_who_was_not_named() {
    let person = Person::new("");
    person.haft(&["search", "x"]).ends(5, "haft has no default").ends(5, "add them to `");
    person.names("marketplaces = ['./m']");
    person.haft(&["search", "x"]).ends(5, "expected `git+https://…` or a folder");
    person.names("markets = []");
    person.haft(&["search", "x"]).ends(5, "unknown field `markets`");
    person.haft(&["search", " "]).ends(5, "expected 1 to 8 words");
    // The `sources.toml` of a folder has no effect.
    person.0.write("sources.toml", "registries = ['http://127.0.0.1:1']");
    person.names("");
    person.haft(&["search", "x"]).ends(5, "haft has no default");
    // haft does not read the folder's program.toml either, which could open credential stores for git.
    person.0.write("program.toml", "x =");
    person
        .haft(&["search", "x"])
        .ends(5, "no marketplace or registry is configured, and haft has no default");
}

/// haft reads at most 5 pages of a registry and reports that results are missing.
#[test]
fn a_registry_of_many_pages_is_read_to_a_bound() {
    let server = Server::answering(|head| {
        let page = head.split(' ').nth(1).and_then(|url| url.split("&cursor=").nth(1)).unwrap_or("0");
        let page: usize = page.parse().unwrap();
        let server = json!({ "server": { "name": format!("io.test/notes{page}") } });
        let next = json!({ "nextCursor": (page + 1).to_string() });
        ok(&json!({ "servers": [server], "metadata": next }).to_string())
    });
    let person = Person::new("");
    person.names(&format!("registries = ['{}']", server.url()));
    let found = person.finds(&["notes"]);
    assert_eq!((names(&found).len(), server.seen().len()), (5, 5));
    assert_eq!(found["sources"][0]["is_cut"], true);
}

/// `haft search` shows only results that `haft add` accepts, without control characters, with the best match first.
#[test]
fn what_is_found_can_be_added() {
    let up = Arc::new(AtomicBool::new(true));
    let (person, server) = (Person::new(""), registry(&up));
    let plugin = |name: &str, source: Value| json!({ "name": name, "source": source, "description": "Takes notes\u{7}", "keywords": ["paper"] });
    let near = json!({ "source": "url", "url": "https://10.0.0.1/b.git" });
    let market = json!({ "name": "m", "plugins": [
        plugin("my-notes", json!("./notes")), plugin("notes", json!("./notes")), plugin("paper", json!("./notes")),
        plugin("near", near), plugin("a b#c", json!("./notes")), plugin("up-notes", json!("../notes")), "none",
    ] });
    let Some(source) = repository(&person.0, &market) else { return };
    person.names(&format!("marketplaces = ['{source}']\nregistries = ['{}']", server.url()));
    let found = person.finds(&["notes"]);
    assert_eq!(names(&found), ["io.test/notes", "notes", "my-notes", "paper"]);
    let first = &found["results"][0];
    assert_eq!((&first["kind"], &first["place"]), (&json!("mcp-server"), &json!("mcp:io.test/notes")));
    assert_eq!(first["source"], format!("{}/", server.url()));
    assert_eq!(found["sources"][0]["left_out"], 4);
    assert_eq!(names(&person.finds(&["Paper", "TAKES"])), ["paper", "my-notes", "notes"]);
    let text = person.haft(&["search", "notes"]).good();
    assert!(!text.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", text.stdout);
    assert!(
        text.stdout.contains("io.test/notes (MCP server): Keeps \u{fffd}[31mnotes\u{fffd}"),
        "{}",
        text.stdout
    );
    assert!(text.stderr.contains("has 4 plugins at addresses that `haft add` refuses"), "{}", text.stderr);
    let line = format!("haft add '{source}#notes'");
    assert!(text.stdout.contains(&line), "{line}: {}", text.stdout);
    person.0.haft(&["add", found["results"][1]["place"].as_str().unwrap(), "--yes"]).good();
    // `haft add mcp:` uses the first registry; results of another registry have its address.
    person.haft(&["add", "mcp:io.test/notes", "--yes"]).ends(5, &server.url());
    person.names(&format!("registries = ['http://127.0.0.1:1', '{}']", server.url()));
    let second = person.haft(&["--json", "search", "notes"]).ends(5, "could not be asked again");
    let found: Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!(found["results"][0]["registry"], format!("{}/", server.url()));
}

/// A cached answer is used for an hour without a request, and for a month if the registry does not answer.
#[test]
fn what_was_answered_is_kept_for_a_while() {
    let up = Arc::new(AtomicBool::new(true));
    let server = registry(&up);
    let person = Person::new(&format!("registries = ['{}']", server.url()));
    person.haft(&["search", "notes", "--offline"]).ends(5, "it is not in the cache");
    assert_eq!(server.seen().len(), 0);
    let found = person.finds(&["notes"]);
    assert_eq!((names(&found), &found["sources"][0]["age_seconds"]), (vec!["io.test/notes"], &Value::Null));
    person.ages(1800);
    assert_eq!(names(&person.finds(&["notes"])), ["io.test/notes"]);
    assert_eq!(server.seen().len(), 1);
    person.ages(3 * 3600);
    let offline = person.haft(&["search", "notes", "--offline"]).good();
    assert!(offline.stderr.contains("is searched in its state of 3 h ago"), "{}", offline.stderr);
    assert_eq!(server.seen().len(), 1);
    up.store(false, Ordering::SeqCst);
    let silent = person.haft(&["search", "notes"]).good();
    assert!(
        silent.stderr.contains("answered 503") && silent.stdout.contains("io.test/notes"),
        "{}",
        silent.stderr
    );
    // haft asks the registry only for the first word.
    let before = server.seen().len();
    person.haft(&["search", "notes", "other"]).ends(5, "answered 503");
    assert_eq!(server.seen().len(), before + 1);
    person.ages(31 * 24 * 3600);
    let gone = person.haft(&["search", "notes"]).ends(5, "answered 503");
    assert_eq!(gone.stdout, "");
    up.store(true, Ordering::SeqCst);
    assert_eq!(names(&person.finds(&["notes"])), ["io.test/notes"]);
}
