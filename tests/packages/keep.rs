//! Installed content stays unmodified: verified, refused after a change, protected from tools, from kills of haft and
//! from other content.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::place::{Answer, Place, program, saying, words};

/// Changes the last byte of a file of any mode.
fn flip(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// PR08, WA06: `haft verify` finds a changed byte, a call refuses the component, and `haft add` repairs it.
#[test]
fn a_changed_component_is_refused_and_mended() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "read = [\".\"]");
    place.write("good.wasm", saying("still here"));
    place.haft(&["add", "./text", "--yes"]).good();
    place.haft(&["add", "good.wasm", "--yes"]).good();
    place.haft(&["verify"]).good();
    let package = place.kept().into_iter().find(|path| path.join("tree").exists()).unwrap();
    flip(&package.join("tree/words.wasm"));
    let verify = place.haft(&["verify"]);
    assert_eq!((verify.code, verify.stdout.as_str()), (8, "✗ text: `words.wasm` was changed\n✓ good\n"));
    let call = place.haft(&["call", "words__count", "-a", "path=x"]);
    assert!(call.stderr.contains("the component differs from its pin in program.lock"), "{}", call.stderr);
    assert_eq!(place.haft(&["call", "good__tiny"]).good().stdout, "still here\n");
    place.haft(&["add"]).good().ends(0, "fetched `text`");
    place.haft(&["verify"]).good();
    assert!(place.tools().contains(&"words__count".to_owned()));
}

/// PR08: a change of any file of a package is refused: program.toml, commands and other files.
#[test]
fn a_changed_file_of_any_kind_is_refused() {
    let place = Place::new();
    let tool = "[[tools]]\nname = \"run\"\ndescription = \"d\"\ncommand = \"./bin/run\"\n";
    place.write("own/program.toml", program("own", "1.0.0", tool));
    place.write("own/bin/run", "#!/bin/sh\n. \"$(dirname \"$0\")/../library.sh\"\n");
    place.write("own/library.sh", "echo fine\n");
    place.haft(&["add", "./own", "--yes"]).good();
    let tree = place.kept()[0].join("tree");
    for name in ["program.toml", "bin/run", "library.sh"] {
        assert_eq!(place.haft(&["call", "program:own:run"]).good().stdout, "fine\n");
        flip(&tree.join(name));
        let call = place.haft(&["call", "program:own:run"]);
        assert_eq!(call.code, 1, "{name}");
        assert!(
            call.stderr.contains("package `own` has changed since its installation"),
            "{name}: {}",
            call.stderr
        );
        place.haft(&["verify"]).ends(8, "hint");
        place.haft(&["add"]).good();
    }
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join("added"), "").unwrap();
    assert!(place.haft(&["verify"]).stdout.contains("`added` was added"));
    let files = tree.join("../files");
    fs::set_permissions(&files, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(files, "haft-tree-1\n").unwrap();
    assert!(place.haft(&["verify"]).stdout.contains("the list of its files was changed"));
}

/// WA06: a component in its own folder is also checked against its pin.
#[test]
fn a_component_beside_the_program_is_pinned() {
    let place = Place::new();
    place.write("a.wasm", saying("first"));
    place.haft(&["add", "a.wasm", "--yes"]).good();
    assert!(place.kept().is_empty());
    place.write("a.wasm", saying("second"));
    let call = place.haft(&["call", "a__tiny"]);
    assert!(call.stderr.contains("the component differs from its pin in program.lock"), "{}", call.stderr);
    assert!(call.stderr.contains("`haft update a`"), "{}", call.stderr);
    place.haft(&["verify"]).ends(8, "haft update NAME");
    place.haft(&["add"]).ends(5, "`a` has changed since its installation");
    place.haft(&["update"]).ends(7, "its code changed; its tool definitions did not");
    place.haft(&["update", "--yes"]).good().ends(0, "updated `a`");
    // WA06: haft does not use the compiled code of the old component for the new one.
    assert_eq!(place.haft(&["call", "a__tiny"]).good().stdout, "second\n");
}

/// haft refuses a program.lock of a later version and a damaged program.lock.
#[test]
fn a_lock_that_cannot_be_understood_stops_everything() {
    let place = Place::new();
    place.write("a.wasm", saying("first"));
    place.haft(&["add", "a.wasm", "--yes"]).good();
    for (text, said) in [("version = 99\n", "has version 99"), ("version = 1\npin = 3\n", "is damaged")] {
        place.write("program.lock", text);
        place.haft(&["tools"]).ends(3, said).ends(3, "hint: ");
        place.haft(&["add", "a.wasm", "--yes"]).ends(5, said);
        place.haft(&["cache", "clean"]).ends(5, "nothing was removed: the references of `");
        assert_eq!(place.read("program.lock"), text);
    }
}

/// WA08: tools cannot write the store or program.lock, even if they can write all directories around them.
#[test]
fn tools_write_neither_the_store_nor_the_lock() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.haft(&["add", "./text", "--yes"]).good();
    let grown = format!(
        "{}\n[sandbox]\nworkspace = \"..\"\nwrite = [\"{}\"]\n",
        place.read("program.toml"),
        place.home().display()
    );
    place.write("program.toml", grown);
    let before = place.everything();
    let store = place.store().display().to_string();
    let lock = place.work().join("program.lock").display().to_string();
    let script = format!(
        "echo x > {lock}; rm -f {lock}; mv {lock} {lock}.old; chmod -R u+w {store}; \
         echo x > {store}/new; rm -rf {store}/*; mv {store} {store}.old; cat {store}/*/tree/program.toml"
    );
    let bash = place.haft(&["call", "bash", "-a", &format!("command={script}")]);
    assert!(bash.stdout.contains("name = \"text\""), "it can be read: {}{}", bash.stdout, bash.stderr);
    assert_eq!(place.everything(), before);
    for path in [lock, format!("{store}/new")] {
        let write = serde_json::json!({ "file_path": path, "content": "x" }).to_string();
        assert_eq!(place.haft(&["call", "write", &write]).code, 1, "{path}");
    }
    assert_eq!(place.everything(), before);
}

/// The names of unfinished content in the store.
fn incoming(place: &Place) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(place.store()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".incoming"))
}

/// PR08: a killed installation leaves a working program, and `haft cache clean` removes its remains.
#[test]
fn a_killed_install_leaves_nothing_half_done() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.write("text/large", vec![7; 24 << 20]);
    let has_begun = || incoming(&place).next().is_some();
    let is_kept = || !place.kept().is_empty();
    let is_pinned = || !place.read("program.lock").is_empty();
    let is_entered = || !place.read("program.toml").is_empty();
    let points: [&dyn Fn() -> bool; 6] = [&|| true, &has_begun, &is_kept, &is_pinned, &is_entered, &|| false];
    let mut stages = std::collections::BTreeSet::new();
    for point in points {
        place.killed(&["add", "./text", "--yes"], point);
        let (program, lock) = (place.read("program.toml"), place.read("program.lock"));
        stages.insert((!place.kept().is_empty(), !lock.is_empty(), !program.is_empty()));
        // The present parts are complete: a pin has its content, and an entry has its pin.
        assert!(program.is_empty() || lock.contains("name = \"text\""), "{program}{lock}");
        assert!(lock.is_empty() || !place.kept().is_empty());
        let tools = place.haft(&["tools"]).good();
        assert!(program.is_empty() || tools.stdout.contains("words__count"), "{}", tools.stderr);
        if !program.is_empty() {
            place.haft(&["verify"]).good();
            break;
        }
    }
    if place.read("program.toml").is_empty() {
        place.haft(&["add", "./text", "--yes"]).good();
    }
    place.haft(&["cache", "clean"]).good();
    let left: Vec<_> = incoming(&place).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(place.kept().len(), 1, "{stages:?}");
    place.haft(&["verify"]).good();
}

/// PR08: concurrent installations all succeed, in both files, and the store has each content once.
#[test]
fn concurrent_installs_do_not_disturb_each_other() {
    let place = Place::new();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        let tool = "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"echo x\"\n";
        place.write(&format!("{name}/program.toml"), program(name, "1.0.0", tool));
    }
    let same = |folder: &Place| words(folder, "text", "1.0.0", "");
    same(&place);
    let mut running: Vec<_> = names
        .iter()
        .map(|name| place.command(&["add", &format!("./{name}"), "--yes"]).spawn().unwrap())
        .collect();
    // Two processes install this package at the same time.
    running.extend((0..2).map(|_| place.command(&["add", "./text", "--yes"]).spawn().unwrap()));
    let codes: Vec<_> = running.into_iter().map(|mut child| child.wait().unwrap().code().unwrap()).collect();
    assert_eq!(codes[..5], [0; 5]);
    // The second process finds the package installed, before the question or before the write.
    assert!(codes[5..].contains(&0) && codes[5..].iter().all(|code| [0, 5].contains(code)), "{codes:?}");
    let listed = place.haft(&["--json", "list"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 6);
    place.haft(&["verify"]).good();
    assert_eq!(place.kept().len(), 6);
}

/// Sets the modification time of content to an hour ago.
fn age(path: &Path) {
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
}

#[test]
fn gc_removes_what_no_program_refers_to() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.haft(&["add", "./text", "--yes"]).good();
    // Another program with this package uses the stored content too.
    fs::create_dir(place.work().join("other")).unwrap();
    let in_other = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        Answer::from(command.current_dir(place.work().join("other")).output().unwrap())
    };
    in_other(&["add", "../text", "--yes"]).good();
    let kept = place.kept();
    assert_eq!(kept.len(), 1);
    age(&kept[0]);
    place.haft(&["remove", "text"]).good();
    assert_eq!(place.haft(&["--json", "cache", "clean"]).json()["used"], 1);
    in_other(&["remove", "text"]).good();
    let report = place.haft(&["--json", "cache", "clean", "--dry-run"]).json();
    assert_eq!(report["removed"].as_array().unwrap().len(), 1);
    assert!(report["size"].as_u64().unwrap() > 10_000);
    assert!(kept[0].exists());
    place.haft(&["cache", "clean"]).good();
    assert!(place.kept().is_empty());
}

/// A cloned program uses stored content, and `haft cache clean` keeps that content.
#[test]
fn gc_keeps_what_a_cloned_program_uses() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.haft(&["add", "./text", "--yes"]).good();
    for file in ["program.toml", "program.lock"] {
        place.write(&format!("clone/{file}"), place.read(file).replace("./text", "../text"));
    }
    let in_clone = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        Answer::from(command.current_dir(place.work().join("clone")).output().unwrap())
    };
    in_clone(&["add"]).good().ends(0, "everything is installed");
    age(&place.kept()[0]);
    place.haft(&["remove", "text"]).good();
    place.haft(&["cache", "clean"]).good();
    in_clone(&["verify"]).good();
}

/// S04: if program.toml is a link, program.lock is beside the link.
#[test]
fn a_linked_program_has_its_lock_beside_the_link() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    place.write("kept/program.toml", "# Kept.\n[sandbox]\nworkspace = \"../work\"\n");
    fs::create_dir(place.work().join("work")).unwrap();
    fs::create_dir(place.work().join("used")).unwrap();
    std::os::unix::fs::symlink("../kept/program.toml", place.work().join("used/program.toml")).unwrap();
    let in_used = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        Answer::from(command.current_dir(place.work().join("used")).output().unwrap())
    };
    in_used(&["add", "../text", "--yes"]).good();
    assert!(place.read("kept/program.toml").contains("[[packages]]"));
    assert!(
        place.work().join("used/program.toml").is_symlink()
            && !place.work().join("kept/program.lock").exists()
    );
    let tools = in_used(&["tools"]).good();
    assert!(tools.stdout.contains("words__count"), "{}", tools.stderr);
    in_used(&["update"]).good().ends(0, "`text` is up to date");
    in_used(&["remove", "text"]).good();
    assert!(!place.read("used/program.lock").contains("text"));
}

/// If stored content is missing, `haft add` fetches it again from its source by its pin, also after an entry that cannot
/// be fetched.
#[test]
fn what_is_pinned_is_fetched_again() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    let tool = "[[tools]]\nname = \"run\"\ndescription = \"d\"\ncommand = \"echo\"\n";
    place.write("more/program.toml", program("more", "1.0.0", tool));
    place.haft(&["add", "./text", "--yes"]).good();
    place.haft(&["add", "./more", "--yes"]).good();
    fs::remove_dir_all(place.store()).unwrap();
    let tools = place.haft(&["tools"]).good();
    assert!(tools.stderr.contains("`text` is not installed on this machine"), "{}", tools.stderr);
    assert!(tools.stderr.contains("hint: `haft add` installs"), "{}", tools.stderr);
    place.haft(&["verify"]).ends(8, "haft add");
    place.haft(&["add"]).good().ends(0, "fetched `text`");
    place.haft(&["verify"]).good();
    // Content that differs from the pin is refused.
    fs::remove_dir_all(place.store()).unwrap();
    place.write("text/words.wasm", saying("something else"));
    let refused = place.haft(&["add"]).ends(5, "`text` was not installed: ");
    refused.ends(5, "; expected sha256:").ends(5, "fetched `more`");
    assert_eq!(place.kept().len(), 1);
}
