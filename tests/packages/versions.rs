//! Another version of an installed package, the notice of a newer one, and two packages with plugins of one name.

use std::process::Command;

use haft::package::oci::COMPONENT;
use serde_json::json;

use super::place::{Place, program, saying, words};
use crate::registry::fake::Fake;

/// U7: `haft add` of another version shows the difference and asks, and otherwise acts as an update.
#[test]
fn adding_another_version_shows_the_difference_and_asks() {
    let place = Place::new();
    words(&place, "one", "1.0.0", "read = [\".\"]");
    words(&place, "two", "1.1.0", "read = [\".\"]\nenv = [\"LANG\"]");
    place.haft(&["add", "./one", "--yes", "--grant", "read=./docs"]).good();
    let mine = place
        .read("program.toml")
        .replace("source = \"./one\"", "source = \"./one\" # mine\nenabled = false");
    place.write("program.toml", &mine);
    let before = place.everything();
    let asked = place.haft(&["add", "./two"]).ends(7, "`text` requests more than you agreed to");
    for expected in [
        "text 1.0.0 → 1.1.0",
        "read variable LANG  [new]",
        "+version = \"1.1.0\"",
        "there is no terminal to ask at",
    ] {
        assert!(asked.stderr.contains(expected), "{expected}: {}", asked.stderr);
    }
    assert_eq!(place.everything(), before);
    place.haft(&["add", "./two", "--yes"]).ends(0, "updated `text` 1.0.0 → 1.1.0");
    let text = place.read("program.toml");
    assert!(text.contains("source = \"./two\" # mine\nenabled = false"), "{text}");
    assert!(text.contains("read = [\"./docs\"]") && text.contains("env = [\"LANG\"]"), "{text}");
    place.haft(&["verify"]).good();
    let after = place.everything();
    place.haft(&["add", "./two", "--yes"]).ends(0, "already installed: this version and content");
    assert_eq!(place.everything(), after);
    // The older version again, with a notice.
    place.haft(&["add", "./one"]).ends(7, "`text` is older: 1.0.0, and 1.1.0 is installed");
}

/// U7: a package from another source with an installed name is not a version of the installed package.
#[test]
fn a_thing_of_the_same_name_from_elsewhere_takes_no_place() {
    let place = Place::new();
    let fake = Fake::honest();
    fake.thing("1.0.0", COMPONENT, &saying("registry"));
    place.write("b.wasm", saying("file"));
    place.haft(&["add", "b.wasm", "--yes"]).good();
    let source = fake.reference("a/b:1.0.0").to_string();
    let refused = place.haft(&["add", &source, "--yes"]).ends(5, "already has an entry `b`");
    assert!(
        refused.stderr.contains(
            "to keep both, use `haft add … --as NAME`; to replace the other, run `haft remove NAME` first"
        ),
        "{}",
        refused.stderr
    );
    place.haft(&["add", &source, "--yes", "--as", "c"]).good();
    assert_eq!(place.haft(&["call", "c__tiny"]).good().stdout, "registry\n");
    assert_eq!(place.haft(&["call", "b__tiny"]).good().stdout, "file\n");
}

/// U7: `haft update --check` finds a newer version in a registry's tags, and prints the command that installs it.
#[test]
fn a_registry_is_asked_for_newer_versions() {
    let place = Place::new();
    let fake = Fake::honest();
    let source = |tag: &str| fake.reference(&format!("a/b:{tag}")).to_string();
    for tag in ["1.0.0", "latest"] {
        fake.thing(tag, COMPONENT, &saying("one"));
    }
    place.haft(&["add", &source("1.0.0"), "--yes", "--as", "words"]).good();
    place.haft(&["add", &source("latest"), "--yes", "--as", "other"]).good();
    place.write("file.wasm", saying("file"));
    place.haft(&["add", "file.wasm", "--yes"]).good();
    let check = || place.haft(&["update", "--check"]);
    let same = check().ends(0, "`words` is the latest");
    assert!(same.stderr.contains("`file`: `file.wasm` has no list of versions"), "{}", same.stderr);
    assert!(place.haft(&["update"]).good().stderr.contains("`haft update --check` looks for later versions"));
    for tag in ["1.10.0", "1.9.0", "latest", "2.0.0-rc.1"] {
        fake.thing(tag, COMPONENT, &saying(&format!("new {tag}")));
    }
    let before = place.everything();
    let command = format!("haft add {} --as words", source("1.10.0"));
    let found = check();
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert_eq!(
        found.stdout,
        format!("words → 1.10.0: `{command}`\nother → another content: `haft update other`\n")
    );
    let data: serde_json::Value =
        serde_json::from_str(&place.haft(&["update", "--check", "words", "--json"]).stdout).unwrap();
    assert_eq!(
        data["newer"],
        json!([{ "name": "words", "installed": null, "version": "1.10.0", "command": command }])
    );
    assert_eq!(place.everything(), before, "asking changes nothing");
    let arguments: Vec<&str> = command.split(' ').skip(1).chain(["--yes"]).collect();
    place.haft(&arguments).good();
    assert_eq!(place.haft(&["call", "words__tiny"]).good().stdout, "new 1.10.0\n");
    assert!(check().stdout.starts_with("other → "), "the one is the latest now");
    place.haft(&["update", "--check", "--yes"]).ends(2, "cannot be used with");
}

/// U7: `haft update --check` finds newer tags and commits of a git repository. The test needs `git`.
#[test]
fn a_repository_is_asked_for_newer_tags_and_commits() {
    let place = Place::new();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(place.work().join("repository"));
        git.args(arguments).env("HOME", place.home()).output()
    };
    words(&place, "repository", "1.0.0", "");
    if git(&["init", "--quiet"]).is_err() {
        return eprintln!("SKIPPED: there is no `git` on this machine");
    }
    let version = |version: &str, arguments: &[&str]| {
        words(&place, "repository", version, "");
        for arguments in [&["add", "-A"][..], &["commit", "-qm", version], arguments] {
            assert!(git(arguments).unwrap().status.success(), "{arguments:?}");
        }
    };
    version("1.0.0", &["tag", "v1.0.0"]);
    let source = format!("git+file://{}", place.work().join("repository").display());
    place.haft(&["add", &format!("{source}@v1.0.0"), "--yes"]).good();
    place.haft(&["update", "--check"]).ends(0, "`text` 1.0.0 is the latest");
    version("1.1.0", &["tag", "-a", "v1.1.0", "-m", "one"]);
    let found = place.haft(&["update", "--check"]);
    assert_eq!((found.code, found.stdout), (1, format!("text 1.0.0 → 1.1.0: `haft add {source}@v1.1.0`\n")));
    place.haft(&["add", &format!("{source}@v1.1.0"), "--yes"]).ends(0, "updated `text` 1.0.0 → 1.1.0");
    place.haft(&["update", "--check"]).ends(0, "`text` 1.1.0 is the latest");
    // The repository's default branch advances; a pinned commit stays.
    place.haft(&["add", &source, "--yes"]).good();
    place.haft(&["update", "--check"]).ends(0, "is the latest");
    version("1.2.0", &["status"]);
    let moved = place.haft(&["update", "--check"]);
    assert_eq!(
        (moved.code, moved.stdout.as_str()),
        (1, "text 1.1.0 → another content: `haft update text`\n")
    );
    std::fs::remove_dir_all(place.work().join("repository")).unwrap();
    place.haft(&["update", "--check"]).ends(5, "cannot check for a newer `text`");
}

/// U8: with `--as` a second package with a plugin `words` has its plugins under another name.
#[test]
fn a_package_under_another_name_has_plugins_under_another_name() {
    let place = Place::new();
    let package = |name: &str, plugin: &str, version: &str| {
        let parts = format!(
            "[[plugins]]\nname = \"{plugin}\"\ncomponent = \"p.wasm\"\n[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"echo {name}\""
        );
        place.write(&format!("{name}/program.toml"), program(name, version, &parts));
        place.write(&format!("{name}/p.wasm"), saying(&format!("{name} {version}")));
    };
    package("a", "words", "1.0.0");
    package("b", "words", "1.0.0");
    place.haft(&["add", "./a", "--yes"]).good();
    let refused = place
        .haft(&["add", "./b", "--yes"])
        .ends(5, "its plugin `words` has the same name as one of the package `a`");
    assert!(refused.stderr.contains("`--as NAME` installs it under another name"), "{}", refused.stderr);
    let answer = place.haft(&["--json", "add", "./b", "--yes", "--as", "mine"]).json();
    assert_eq!(answer["tools"], json!(["mine-words__tiny", "program__mine__t"]));
    let all = ["words__tiny", "mine-words__tiny", "program__a__t", "program__mine__t"];
    assert!(all.iter().all(|name| place.tools().contains(&(*name).to_owned())), "{:?}", place.tools());
    assert_eq!(place.haft(&["call", "mine-words__tiny"]).good().stdout, "b 1.0.0\n");
    // Updates and another machine use the local name; a package that changes its own name is another package.
    package("b", "words", "1.1.0");
    place.haft(&["update", "mine", "--yes"]).ends(0, "updated `mine` 1.0.0 → 1.1.0");
    assert_eq!(place.haft(&["call", "mine-words__tiny"]).good().stdout, "b 1.1.0\n");
    std::fs::remove_dir_all(place.store()).unwrap();
    place.haft(&["add"]).ends(0, "fetched `mine`");
    std::fs::remove_file(place.work().join("program.lock")).unwrap();
    place.haft(&["add", "--yes"]).ends(0, "installed `mine`");
    place.haft(&["verify"]).good();
    place.write("b/program.toml", place.read("b/program.toml").replace("name = \"b\"", "name = \"c\""));
    place.haft(&["update", "mine", "--yes"]).ends(5, "the package `mine` is now named `c`");
    // A plugin with the name of its package gets the package's local name.
    package("solo", "solo", "1.0.0");
    let answer = place.haft(&["--json", "add", "./solo", "--yes", "--as", "alone"]).json();
    assert_eq!(answer["tools"], json!(["alone__tiny", "program__alone__t"]));
    let long = "a-name-of-as-many-as-thirty-two1";
    package("d", "words", "1.0.0");
    let answer =
        place.haft(&["add", "./d", "--yes", "--as", long]).ends(5, "a name has at most 32 characters");
    assert!(answer.stderr.contains("set a shorter name with `--as NAME`"), "{}", answer.stderr);
}
