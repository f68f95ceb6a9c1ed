//! Updates: no new version, a newer version, a version that requests more rights.

use super::place::{Place, program, saying, words};

fn asked(place: &Place) -> serde_json::Value {
    place.haft(&["--json", "list"]).json()[0]["asked"].clone()
}

/// PR10: `haft update` changes nothing for an unchanged package, and installs a newer version with the user's
/// settings unchanged.
#[test]
fn the_same_is_a_no_op_and_the_newer_takes_its_place() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\".\"]");
    place.write("docs/a.txt", "one");
    place.haft(&["add", "./text", "--yes", "--grant", "read=./docs"]).good();
    let before = place.everything();
    place.haft(&["update"]).good().ends(0, "`text` is up to date");
    assert_eq!(place.everything(), before);
    let mine = "# A comment.\nname = \"text\" # and another\nenabled = false";
    let program = place.read("program.toml").replace("name = \"text\"", mine);
    place.write("program.toml", &program);
    words(&place, "text", "1.1.0", "read = [\".\"]");
    place.haft(&["update", "text", "--yes"]).good().ends(0, "updated `text` 1.0.0 → 1.1.0");
    // program.toml is unchanged to the last byte, including `enabled` and the grant.
    assert_eq!(place.read("program.toml"), program);
    let listed = place.haft(&["--json", "list"]).json();
    assert_eq!((&listed[0]["version"], &listed[0]["enabled"]), (&"1.1.0".into(), &false.into()));
    assert_eq!(listed[0]["granted"], serde_json::json!(["read=./docs"]));
    place.haft(&["verify"]).good();
}

/// PR10: haft orders versions by semantic versioning, and asks before it installs an older version.
#[test]
fn versions_are_ordered_as_semver_has_it() {
    for (old, new, said) in [
        ("1.0.0-beta.2", "1.0.0-beta.11", None),
        ("1.0.0-beta", "1.0.0", None),
        ("0.9.9", "0.10.0", None),
        ("1.0.0", "1.0.0-rc.1", Some("is older: 1.0.0-rc.1, and 1.0.0 is installed")),
        ("2.0.0", "1.9.9", Some("is older: 1.9.9, and 2.0.0 is installed")),
    ] {
        let place = Place::new();
        let tool = "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"echo x\"\n";
        place.write("own/program.toml", program("own", old, tool));
        place.haft(&["add", "./own", "--yes"]).good();
        place.write("own/program.toml", program("own", new, tool));
        let answer = place.haft(&["update"]);
        match said {
            None => drop(answer.ends(7, "`own` differs from what you agreed to")),
            Some(said) => drop(answer.ends(7, said)),
        }
        assert!(place.read("program.lock").contains(&format!("version = \"{old}\"")));
        let answer = place.haft(&["update", "--yes"]).good();
        assert!(answer.stderr.contains(&format!("{old} → {new}")), "{}", answer.stderr);
        assert!(place.read("program.lock").contains(&format!("version = \"{new}\"")), "{old} {new}");
    }
}

/// PR10, WA08: an update that requests more rights shows the new rights and changes nothing without consent.
#[test]
fn an_update_that_asks_for_more_stops() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\"./docs\"]\nenv = [\"LANG\"]");
    place.haft(&["add", "./text", "--yes"]).good();
    let before = place.everything();
    words(&place, "text", "2.0.0", "read = [\"./docs\", \"/etc\"]\nhosts = [\"evil.test\"]");
    let answer = place.haft(&["update"]).ends(7, "`text` requests more than you agreed to");
    for expected in [
        "text 1.0.0 → 2.0.0",
        "read /etc  [new]",
        "reach evil.test  [new]",
        "read ./docs\n",
        "no longer: words:env=LANG",
        "nothing was changed: there is no terminal to ask at",
    ] {
        assert!(answer.stderr.contains(expected), "{expected}: {}", answer.stderr);
    }
    let now = place.everything();
    let changed: Vec<_> =
        now.iter().filter(|(path, _)| !path.starts_with(place.work().join("text"))).collect();
    assert!(changed.iter().all(|(path, bytes)| before.get(*path) == Some(bytes)), "{changed:?}");
    // Consent with only a part of the new rights.
    place
        .haft(&["update", "--grant", "host=evil.test"])
        .ends(7, "nothing was changed: there is no terminal to ask at");
    place.haft(&["update", "--grant", "host=evil.test", "--yes"]).good();
    let text = place.read("program.toml");
    assert!(text.contains("read = [\"./docs\"]") && text.contains("hosts = [\"evil.test\"]"), "{text}");
    assert_eq!(
        asked(&place),
        serde_json::json!(["words:read=./docs", "words:read=/etc", "words:host=evil.test"])
    );
    // Rights that the user agreed to before are not new; the changed text still needs consent.
    words(&place, "text", "2.0.1", "read = [\"/etc/ssl\"]\nhosts = [\"evil.test\"]");
    let answer = place.haft(&["update"]).ends(7, "`text` differs from what you agreed to");
    assert!(!answer.stderr.contains("[new]"), "{}", answer.stderr);
    place.haft(&["update", "--yes"]).good();
    words(&place, "text", "3.0.0", "write = [\"/srv\"]");
    place.haft(&["update", "--yes"]).good();
    assert!(place.read("program.toml").contains("write = [\"/srv\"]"));
}

/// PR10: haft refuses an update whose package has another name.
#[test]
fn a_changed_name_is_refused() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.haft(&["add", "./text", "--yes"]).good();
    let lock = place.read("program.lock");
    let renamed = program("texts", "1.1.0", "[[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"");
    place.write("text/program.toml", renamed);
    place.haft(&["update", "--yes"]).ends(5, "the package `text` is now named `texts`");
    place.write(
        "text/program.toml",
        program("text", "1.1.0", "[[plugins]]\nname = \"words\"\ncomponent = \"none.wasm\""),
    );
    place.haft(&["update", "--yes"]).ends(5, "is not a file of the package");
    assert_eq!(place.read("program.lock"), lock);
    assert!(place.tools().contains(&"words__count".to_owned()));
}

/// An entry that a person wrote into program.toml needs consent too.
#[test]
fn a_hand_written_entry_is_installed_once_somebody_agrees() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\".\"]");
    place.write("docs/a.txt", "one two");
    let text =
        "[[packages]]\nname = \"text\" # mine\nsource = \"./text\"\n[packages.grant]\nread = [\"./docs\"]\n";
    place.write("program.toml", text);
    let tools = place.haft(&["tools"]).good();
    assert!(tools.stderr.contains("`text` is not installed on this machine"), "{}", tools.stderr);
    place.haft(&["add"]).ends(7, "nothing was changed: there is no terminal to ask at");
    assert!(place.kept().is_empty());
    place.haft(&["add", "--yes"]).good();
    assert_eq!(place.read("program.toml"), text);
    place.haft(&["verify"]).good();
    // Another source is another package until the user agrees.
    words(&place, "text2", "1.0.0", "read = [\".\"]");
    place.write("program.toml", text.replace("./text", "./text2"));
    let tools = place.haft(&["tools"]).good();
    assert!(tools.stderr.contains("`text` is pinned from another source: `./text`"), "{}", tools.stderr);
    assert!(place.haft(&["verify"]).stdout.contains("program.toml has another source than program.lock: `"));
    place.haft(&["update", "text"]).good();
    place.haft(&["verify"]).good();
}

/// PR10: an unavailable package does not prevent the updates of others.
#[test]
fn updates_are_independent() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.write("a.wasm", saying("first"));
    place.haft(&["add", "./text", "--yes"]).good();
    place.haft(&["add", "a.wasm", "--yes"]).good();
    std::fs::remove_dir_all(place.work().join("text")).unwrap();
    place.write("a.wasm", saying("second"));
    place.haft(&["update", "--yes"]).ends(5, "`text` was not updated");
    assert_eq!(place.haft(&["call", "a__tiny"]).good().stdout, "second\n");
    place.haft(&["update", "text"]).ends(5, "cannot look at");
    assert!(place.tools().contains(&"words__count".to_owned()));
}
