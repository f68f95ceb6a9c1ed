//! S07: a hint names an access that haft refused in this call, and proposes the narrowest line that would have
//! allowed it, or none.

use std::fs;
use std::path::Path;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use serde_json::json;

use crate::cli::Home;
use crate::common::{grant, repository};
use crate::guest::Guest;

/// S07: the error of a faulty plugin has no hint, even if its message sounds like a refusal.
#[tokio::test]
async fn a_plain_bug_gets_no_hint() {
    let place = tempfile::tempdir().unwrap();
    let root = Root::resolve(Path::new("/"), place.path()).unwrap();
    let missing = Root::resolve(Path::new("/"), &place.path().join("missing")).unwrap();
    for grant in [
        Grant::none(),
        Grant::none().with_workspace(root.clone()),
        Grant::none().with_workspace(root.clone()).with_read(missing),
    ] {
        let guest = Guest::new(grant).await;
        for message in [
            "cannot read the path /etc/passwd: permission denied",
            "no such file or directory",
            "invalid envelope: file entry",
            "open: bad file number",
        ] {
            let ended = guest.fails("panic", json!({ "message": message })).await;
            assert!(ended.contains(message) && !ended.contains("hint:"), "{ended}");
        }
        let failed = guest.fails("argument", json!({})).await;
        assert!(!failed.contains("hint:"), "{failed}");
    }
    // A missing file in a granted directory is not a refusal.
    let guest = Guest::new(grant(&[place.path()], &[])).await;
    let missing = guest.fails("open", json!({ "path": place.path().join("missing") })).await;
    assert_eq!(missing, "Tool error: No such file or directory (os error 44)");
}

/// S07: the error for a path in a directory that cannot be opened names the directory.
#[tokio::test]
async fn a_granted_directory_that_is_not_there() {
    let place = tempfile::tempdir().unwrap();
    let missing = place.path().join("missing");
    let guest = Guest::new(grant(&[&missing], &[])).await;
    let refused = guest.fails("open", json!({ "path": missing.join("file") })).await;
    assert!(refused.contains("hint: a granted directory cannot be opened: `"), "{refused}");
    let other = guest.fails("open", json!({ "path": place.path().join("file") })).await;
    assert!(!other.contains("cannot be opened"), "{other}");
}

/// S07: a hint proposes the requested directory, not its parent.
#[tokio::test]
async fn the_narrowest_directory_is_proposed() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("a/b")).unwrap();
    fs::write(place.path().join("a/file"), "").unwrap();
    let root = Root::resolve(Path::new("/"), place.path()).unwrap();
    let guest = Guest::new(Grant::none().with_workspace(root)).await;
    for (tool, arguments, right, directory) in [
        ("list_dir", json!({ "path": "a/b" }), "read", "a/b"),
        ("open", json!({ "path": "a/file" }), "read", "a"),
        ("write", json!({ "path": "a/new", "text": "" }), "write", "a"),
        ("write", json!({ "path": "a/new/deep", "text": "" }), "write", "a"),
        ("create", json!({ "path": "a/b/new", "directory": true }), "write", "a/b"),
    ] {
        let refused = guest.fails(tool, arguments.clone()).await;
        let directory = place.path().join(directory);
        let expected = format!(
            "Tool error: Operation not permitted (os error 63)\n\
             hint: to allow it, add `{right} = [\"{}\"]` to `[plugins.grant]` of `guest`",
            directory.display()
        );
        assert_eq!(refused, expected, "{tool} {arguments}");
    }
}

/// S07: the hint escapes a path as program.toml requires.
#[tokio::test]
async fn a_name_cannot_write_a_line_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let odd = place.path().join("a\"]\nhosts = [\"*");
    fs::create_dir(&odd).unwrap();
    let guest = Guest::within(Grant::none(), Limits::default()).await;
    let refused = guest.fails("open", json!({ "path": odd.join("file") })).await;
    let hint = refused.lines().last().unwrap();
    assert!(hint.contains(r#"/a\"]\nhosts = [\"*"]`"#), "{refused}");
    assert!(!refused.lines().any(|line| line.starts_with("hosts")), "{refused}");
}

/// S07: a hint never proposes a home, a system directory or the root directory, and says why.
#[test]
fn what_holds_too_much_is_never_proposed() {
    let home = Home::new();
    let folder = home.work().parent().unwrap().to_owned();
    fs::create_dir(folder.join(".settings")).unwrap();
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("wordcount.wasm")).unwrap();
    home.write(
        "program.toml",
        "[program]\nname = \"notes\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
         [[plugins]]\nname = \"wordcount\"\ncomponent = \"wordcount.wasm\"\n",
    );
    let own = folder.display().to_string();
    for (path, directory) in [
        ("/tmpfoo".to_owned(), "/"),
        ("/etc/passwd".into(), "/etc"),
        ("/usr/lib/x".into(), "/usr/lib"),
        ("~/x".into(), &own),
        (format!("{own}/.settings/id"), &format!("{own}/.settings")),
    ] {
        let counted = home.call("wordcount__count", &json!({ "path": path }));
        let mut refused = vec![counted.stderr];
        if !path.starts_with("/usr") {
            refused.push(home.call("write", &json!({ "file_path": path, "content": "" })).stderr);
        }
        for refused in refused {
            let none = format!("hint: haft proposes no line to allow it: that would grant `{directory}`, ");
            assert!(refused.contains(&none) && !refused.contains("= ["), "{path}: {refused}");
        }
    }
    let log = home.haft(&["log", "-n", "all"]).stdout;
    let counted: Vec<_> = log.lines().filter(|line| line.contains("wordcount__count")).collect();
    let are_refused = counted.iter().all(|line| line.contains(" refused "));
    assert!(
        counted.len() == 5 && are_refused,
        "a plugin's refusals are refusals where no line is proposed too: {log}"
    );
}
