//! `haft self-update`, of a haft that is installed in a folder of the test, from releases that the test makes and signs,
//! over HTTP on loopback and from a folder. What is refused leaves the two programs and their folder as they were.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod place;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::place::{Fault, Installed, NEW, Publisher, Release};
use crate::common::outside;
use crate::http::server::Server;
use crate::workspace::eventually;

/// What this haft calls itself.
const CURRENT: &str = env!("CARGO_PKG_VERSION");

#[test]
fn the_newest_release_takes_the_place_of_both_programs() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    let release = publisher.release(NEW);
    let server = release.serve();
    let from = ["--from", &server.url(), "--key", &publisher.word()];
    let check = installed.update(&[&from[..], &["--check"]].concat());
    assert_eq!(check.good(), format!("haft {NEW} is there; this is {CURRENT}\n"));
    assert!(installed.is_untouched());
    assert!(!server.seen().concat().contains("tar.gz"), "{:?}", server.seen());
    // A link leads to the program itself, and its folder is the one that counts.
    let link = installed.folder().with_file_name("link");
    std::os::unix::fs::symlink(installed.haft(), &link).unwrap();
    let said = installed.run(&link, &from).good();
    assert_eq!(said, format!("updated haft {CURRENT} to {NEW}\n"));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(installed.version(), format!("haft {NEW}\n"));
    assert_eq!(installed.names(), ["haft", "haft-confine"]);
    assert_eq!(fs::read_to_string(installed.folder().join("haft-confine")).unwrap(), release.helper());
}

#[test]
fn a_folder_serves_as_well_and_by_its_variable() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    let release = publisher.release(NEW);
    let key = installed.folder().with_file_name("key.pub");
    fs::write(&key, format!("untrusted comment: of the test\n{}\n", publisher.word())).unwrap();
    let mut update = installed.command(&installed.haft(), &["--json", "--key", key.to_str().unwrap()]);
    let said = place::Said::from(update.env("HAFT_UPDATE_FROM", release.folder()).output().unwrap()).good();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let expected = serde_json::json!({ "current": CURRENT, "found": NEW, "newer": true, "installed": true });
    assert_eq!(said, expected);
    assert_eq!(installed.version(), format!("haft {NEW}\n"));
}

#[test]
fn what_is_not_the_publishers_release_is_refused() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    for (fault, expected) in [
        (Fault::Unsigned, "`SHA256SUMS` is not trusted: it is not signed"),
        (Fault::SumsChanged, "it is not a signature of this file"),
        (Fault::OtherSigner, "it is not a signature of this file"),
        (Fault::TarballChanged, "is not what SHA256SUMS says"),
        (Fault::TarballCut, "cannot unpack"),
        (Fault::NoHelper, "has no `haft-confine` in it"),
        (Fault::OtherVersion, "the new haft does not run on this machine: it says `haft 1.0.0`"),
        (Fault::Fails, "the new haft does not run on this machine: it ended with"),
        (Fault::NoTarball, "the release has no haft for "),
    ] {
        let release = publisher.faulty(NEW, fault);
        let server = release.serve();
        let said = installed.update(&["--from", &server.url(), "--key", &publisher.word()]);
        said.fails(expected);
        assert!(installed.is_untouched(), "{fault:?}");
    }
    // The connection breaks in the middle of the tarball.
    let release = publisher.release(NEW);
    let server = release.serve_cut();
    installed.update(&["--from", &server.url(), "--key", &publisher.word()]).fails("cannot fetch");
    assert!(installed.is_untouched());
    let release = publisher.release(NEW);
    let said = installed.update(&["--from", release.folder().to_str().unwrap()]);
    if option_env!("HAFT_MINISIGN_PUBLIC_KEY").is_none() {
        said.fails("no key is known");
        installed.update(&["--key", &publisher.word()]).fails("knows no address of releases");
    }
    let plain = installed.update(&["--from", "http://haft.test/", "--key", &publisher.word()]);
    plain.fails("expected `https://`");
    assert!(installed.is_untouched());
}

#[test]
fn nothing_is_downgraded_unless_the_version_is_named() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    let (same, old) = (publisher.release(CURRENT), publisher.release("0.0.1"));
    let update = |release: &Release, more: &[&str]| {
        let from = ["--from", release.folder().to_str().unwrap(), "--key", &publisher.word()];
        installed.update(&[&from[..], more].concat())
    };
    assert_eq!(update(&same, &[]).good(), format!("haft {CURRENT} is what there is\n"));
    assert_eq!(update(&same, &["--check"]).good(), format!("haft {CURRENT} is what there is\n"));
    let said = update(&old, &[]).good();
    assert!(said.starts_with(&format!("haft 0.0.1 is older than this one, {CURRENT}")), "{said}");
    assert!(installed.is_untouched());
    update(&old, &["--version", "0.0.2"]).fails("the release has no haft 0.0.2 for");
    assert!(installed.is_untouched());
    assert_eq!(update(&old, &["--version", "v0.0.1"]).good(), format!("updated haft {CURRENT} to 0.0.1\n"));
    assert_eq!(installed.version(), "haft 0.0.1\n");
}

/// Each channel by what it leaves on the disk; the packages' own marker is what `.ci/package` writes.
#[test]
fn another_installers_haft_is_left_to_it() {
    let publisher = Publisher::new();
    let release = publisher.release(NEW);
    for (file, content, who, command) in [
        ("bin/haft.installed-by", "dpkg\n`dpkg -i` the next package\n", "dpkg", "`dpkg -i` the next package"),
        (
            "lib/python3.13/site-packages/haft_tools-0.1.0.dist-info/RECORD",
            "",
            "pip",
            "pip install --upgrade",
        ),
        (".crates.toml", "[v1]\n\"haft 0.1.0 (path+file:///haft)\" = [\"haft\"]\n", "cargo", "`--force`"),
    ] {
        let installed = Installed::new();
        installed.write(file, content);
        let names = installed.names();
        let from = ["--from", release.folder().to_str().unwrap(), "--key", &publisher.word()];
        let said = installed.update(&from);
        assert!(said.stderr.contains(command), "{}", said.stderr);
        said.fails(&format!("was installed by {who}, which has to update it"));
        assert_eq!(installed.names(), names);
        // What there is is told all the same, with the right way to it.
        let check = installed.update(&[&from[..], &["--check"]].concat());
        assert!(check.stderr.contains(&format!("{who} installed this haft")), "{}", check.stderr);
        assert!(check.good().contains(NEW));
    }
}

/// Confined to writing elsewhere, which holds root too.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let elsewhere = outside();
    let (installed, publisher) = (Installed::within(elsewhere.path()), Publisher::new());
    let release = publisher.release(NEW);
    let haft = installed.haft();
    let words = [haft.to_str().unwrap(), "self-update", "--from", release.folder().to_str().unwrap()];
    let key = publisher.word();
    let confined = [&["exec", "--"][..], &words, &["--key", &key]].concat();
    let said = installed.haft_with(&confined);
    said.fails(&format!("cannot write in `{}`", installed.folder().display()));
    assert!(installed.is_untouched());
}

/// Killed while the tarball arrives: nothing has changed, nobody else may begin meanwhile, and the next one
/// clears away what was left.
#[tokio::test]
async fn a_killed_update_changes_nothing_and_the_next_one_is_whole() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    let release = publisher.release(NEW);
    let held = Arc::new(AtomicBool::new(true));
    let server: Server = release.serve_held(held.clone());
    let words = ["--from", &server.url(), "--key", &publisher.word()];
    let mut killed = installed.command(&installed.haft(), &words).spawn().unwrap();
    eventually("the tarball is asked for", || server.seen().concat().contains("tar.gz")).await;
    installed.update(&words).fails("another `haft self-update` is at work");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(installed.names().len(), 3, "{:?}", installed.names());
    held.store(false, Ordering::Relaxed);
    assert_eq!(installed.update(&words).good(), format!("updated haft {CURRENT} to {NEW}\n"));
    assert_eq!(installed.names(), ["haft", "haft-confine"]);
    assert_eq!(installed.version(), format!("haft {NEW}\n"));
}

/// Killed between the two: the new helper lies beside the old haft, which does without it and can go on.
#[test]
fn a_helper_of_another_version_is_no_obstacle() {
    let (installed, publisher) = (Installed::new(), Publisher::new());
    let release = publisher.release(NEW);
    fs::remove_file(installed.folder().join("haft-confine")).unwrap();
    installed.write("bin/haft-confine", &release.helper());
    let said = installed.update(&["--from", release.folder().to_str().unwrap(), "--key", &publisher.word()]);
    assert_eq!(said.good(), format!("updated haft {CURRENT} to {NEW}\n"));
    assert_eq!(installed.version(), format!("haft {NEW}\n"));
}

/// The wait of a stalled server ends with the test, whatever becomes of it.
const STALLED: Duration = Duration::from_secs(20);
