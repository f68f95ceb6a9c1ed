//! Packages from remote sources: a server of the test, and git.

use std::process::Command;
use std::sync::{Arc, Mutex};

use super::place::{Answer, Place, saying, words};
use crate::http::server::{Server, with};

/// A server that sends the current `content`; `/on` redirects to another path of the server.
fn server(content: &Arc<Mutex<Vec<u8>>>) -> Server {
    let content = content.clone();
    Server::at("127.0.0.1:0", move |head, stream| {
        let bytes = content.lock().unwrap().clone();
        let answer = if head.starts_with("GET /on") {
            with("302 Found", "location: /there.wasm\r\n", "")
        } else {
            [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len()).into_bytes(), bytes]
                .concat()
        };
        let _ = stream.write_all(&answer);
    })
}

fn archive(place: &Place, folder: &str) -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    builder.append_dir_all(format!("{folder}-1.0"), place.work().join(folder)).unwrap();
    builder.into_inner().unwrap().finish().unwrap()
}

/// PR07: haft fetches a component by its URL, pins its digest, stores it and uses the stored copy.
#[test]
fn a_component_is_fetched_from_a_server() {
    let place = Place::new();
    let content = Arc::new(Mutex::new(saying("from afar")));
    let server = server(&content);
    let url = format!("{}/on?x=1", server.url());
    let answer = place.haft(&["--json", "add", &url, "--as", "far", "--yes"]);
    assert!(answer.stderr.contains("fetching http://127.0.0.1"), "{}", answer.stderr);
    let added = answer.json();
    assert_eq!(place.kept().len(), 1);
    let asked = server.seen().len();
    assert_eq!(place.haft(&["call", "far__tiny"]).good().stdout, "from afar\n");
    place.haft(&["verify"]).good();
    assert_eq!(server.seen().len(), asked, "offline");
    // The expected digest, as a publisher states it.
    let digest = added["digest"].as_str().unwrap().to_owned();
    place.haft(&["add", &url, "--as", "again", "--digest", &digest, "--yes"]).good();
    let other = digest.replace(['0', '1'], "2");
    place.haft(&["add", &url, "--as", "third", "--digest", &other, "--yes"]).ends(5, "; expected sha256:");
    // The URL now has other content.
    *content.lock().unwrap() = saying("another");
    std::fs::remove_dir_all(place.store()).unwrap();
    place.haft(&["add"]).ends(5, "; expected sha256:");
    assert!(place.kept().is_empty());
}

/// PR10, PR07: haft fetches an archive and updates it; changed content with an unchanged version needs consent.
#[test]
fn an_archive_is_fetched_and_updated() {
    let place = Place::new();
    words(&place, "text", "1.0.0", "");
    let content = Arc::new(Mutex::new(archive(&place, "text")));
    let server = server(&content);
    place.haft(&["add", &format!("{}/text.tar.gz", server.url()), "--yes"]).good();
    let lock = place.read("program.lock");
    assert!(lock.contains("tree = \"sha256:") && lock.contains("digest = \"sha256:"), "{lock}");
    assert!(place.tools().contains(&"words__count".to_owned()));
    place.write("text/more", "x");
    *content.lock().unwrap() = archive(&place, "text");
    place.haft(&["update"]).ends(7, "has the same version 1.0.0 but other content");
    words(&place, "text", "1.0.1", "");
    *content.lock().unwrap() = archive(&place, "text");
    let answer = place.haft(&["update"]).ends(7, "`text` differs from what you agreed to");
    assert!(answer.stderr.contains("-version = \"1.0.0\"") && answer.stderr.contains("+version = \"1.0.1\""));
    place.haft(&["update", "--yes"]).good();
    place.haft(&["verify"]).good();
}

/// C12: git receives the certificates and the proxy of the environment, and no other variable of haft's environment.
#[test]
fn git_is_told_how_this_machine_reaches_others() {
    let place = Place::new();
    // A directory that tools cannot write.
    place.write(
        "../bin/git",
        "#!/bin/sh\necho \"<$GIT_SSL_CAINFO|$https_proxy|$GIT_SSH_COMMAND|$API_TOKEN>\" >&2\nexit 1\n",
    );
    let path = std::env::join_paths([place.home().join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
    let mut add = place.command(&["add", "git+https://a.test/b", "--yes"]);
    add.env("PATH", path).env("GIT_SSL_CAINFO", "/etc/own.pem").env("https_proxy", "http://proxy.test:1");
    add.env("GIT_SSH_COMMAND", "evil").env("API_TOKEN", "not-for-git");
    let answer = Answer::from(add.output().unwrap());
    answer.ends(5, "</etc/own.pem|http://proxy.test:1||>");
}

/// PR07: haft fetches a repository at a tag and pins the commit. The test needs `git`.
#[test]
fn a_repository_is_fetched_at_its_commit() {
    let place = Place::new();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]).arg(place.work().join("repository"));
        git.args(arguments).env("HOME", place.home()).output()
    };
    words(&place, "repository", "1.0.0", "");
    if git(&["init", "--quiet"]).is_err() {
        eprintln!("SKIPPED: there is no `git` on this machine");
        return;
    }
    place.write("repository/hook", "#!/bin/sh\ntouch /tmp/never\n");
    for arguments in [&["add", "-A"][..], &["commit", "-qm", "one"], &["tag", "v1"]] {
        assert!(git(arguments).unwrap().status.success());
    }
    let commit = String::from_utf8(git(&["rev-parse", "HEAD"]).unwrap().stdout).unwrap();
    let commit = commit.trim();
    let source = format!("git+file://{}", place.work().join("repository").display());
    let at = |reference: &str| format!("{source}@{reference}");
    place.haft(&["add", &at("none"), "--yes"]).ends(5, "`git fetch` failed");
    let added = place.haft(&["--json", "add", &at("v1"), "--yes"]).json();
    assert_eq!(added["resolved"], commit);
    assert!(place.tools().contains(&"words__count".to_owned()));
    // The tag moves, but haft fetches the pinned commit.
    words(&place, "repository", "2.0.0", "");
    git(&["commit", "-qam", "two"]).unwrap();
    git(&["tag", "-f", "v1"]).unwrap();
    std::fs::remove_dir_all(place.store()).unwrap();
    place.haft(&["add"]).good();
    assert!(place.read("program.lock").contains("version = \"1.0.0\""));
    place.haft(&["update"]).ends(7, "+version = \"2.0.0\"");
    place.haft(&["update", "--yes"]).good().ends(0, "1.0.0 → 2.0.0");
    let tree = place.kept().into_iter().map(|kept| kept.join("tree"));
    assert!(tree.into_iter().all(|tree| !tree.join(".git").exists()));
}
