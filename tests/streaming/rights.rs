//! The rights of a component of WASI 0.3: exactly those of its grant, as for WASI 0.2.

use std::fs;
use std::os::unix::fs::symlink;

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use serde_json::json;

use super::{guest, within};
use crate::common::grant;
use crate::http::server::Server;

/// WA02: without a grant a guest opens no file; with a grant it opens no file outside of it.
#[tokio::test]
async fn files_are_those_of_the_grant() {
    let directory = tempfile::tempdir().unwrap();
    let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(inside.join("a.txt"), "a").unwrap();
    fs::write(outside.join("b.txt"), "secret").unwrap();
    symlink("../out/b.txt", inside.join("link")).unwrap();
    let nothing = guest(Grant::none()).await;
    for tool in ["read", "entries", "both"] {
        nothing.fails(tool, json!({ "path": inside.join("a.txt") })).await;
    }
    let reader = guest(grant(&[&inside], &[])).await;
    assert_eq!(reader.says("read", json!({ "path": inside.join("a.txt") })).await, "a");
    assert_eq!(reader.says("both", json!({ "path": inside.join("a.txt") })).await, "[\"a\",\"a\"]");
    assert_eq!(reader.says("entries", json!({ "path": inside })).await, "[\"a.txt\",\"link\"]");
    for path in ["link", "../out/b.txt", "../../etc/passwd"] {
        let failed = reader.fails("read", json!({ "path": inside.join(path) })).await;
        assert!(!failed.contains("secret"), "{failed}");
    }
    let refused = reader.fails("read", json!({ "path": outside.join("b.txt") })).await;
    assert!(refused.contains("hint: ") && refused.contains("read = ["), "{refused}");
    for (tool, arguments) in [
        ("write", json!({ "path": inside.join("new"), "bytes": "x" })),
        ("append", json!({ "path": inside.join("a.txt"), "text": "x" })),
        ("change", json!({ "how": "make", "path": inside.join("d"), "other": "" })),
        ("change", json!({ "how": "remove", "path": inside.join("a.txt"), "other": "" })),
        ("change", json!({ "how": "rename", "path": inside.join("a.txt"), "other": inside.join("c") })),
        ("change", json!({ "how": "link", "path": inside.join("a.txt"), "other": inside.join("c") })),
        ("change", json!({ "how": "symlink", "path": inside.join("s"), "other": "a.txt" })),
    ] {
        reader.fails(tool, arguments).await;
    }
    let names: Vec<_> = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(fs::read_to_string(inside.join("a.txt")).unwrap(), "a");
}

/// WA02, S17: a guest writes in its granted folders, up to its disk limit.
#[tokio::test]
async fn what_is_written_is_written_there_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::resolve(std::path::Path::new("/"), directory.path()).unwrap();
    let rights = grant(&[], &[directory.path()]).with_workspace(root);
    let writer = within(rights, Limits { disk: 1 << 20, ..Limits::default() }).await;
    let path = |name: &str| directory.path().join(name);
    let text = "x".repeat(200_000);
    assert_eq!(writer.says("write", json!({ "path": path("a"), "bytes": text })).await, "200000");
    assert_eq!(fs::read_to_string(path("a")).unwrap(), text);
    assert_eq!(writer.says("append", json!({ "path": path("a"), "text": "end" })).await, "200003");
    let too_much = writer.fails("write", json!({ "path": path("b"), "bytes": "x".repeat(2_000_000) })).await;
    assert!(too_much.contains("disk"), "{too_much}");
    assert!(fs::metadata(path("b")).map_or(0, |found| found.len()) <= 1 << 20);
    for (how, name, other) in
        [("make", "d", "d"), ("rename", "a", "c"), ("link", "c", "e"), ("remove", "c", "c")]
    {
        let arguments = json!({ "how": how, "path": path(name), "other": path(other) });
        assert_eq!(writer.says("change", arguments).await, how);
    }
    let arguments = json!({ "how": "symlink", "path": path("s"), "other": "/etc/passwd" });
    writer.fails("change", arguments).await;
    assert!(path("d").is_dir() && path("e").is_file() && !path("c").exists());
}

/// WA02, WA05: requests reach granted hosts alone, by the checks of WASI 0.2.
#[tokio::test]
async fn requests_go_to_granted_hosts() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let authority = server.url().trim_start_matches("http://").to_owned();
    let get = json!({ "authority": authority, "path": "/a" });
    let refused = guest(Grant::none()).await.fails("get", get.clone()).await;
    assert!(refused.contains("HttpRequestDenied") && refused.contains("add `hosts = ["), "{refused}");
    assert!(server.seen().is_empty());
    let granted = guest(Grant::none().with_host(server.url().parse().unwrap())).await;
    assert_eq!(granted.says("get", get).await, "hello");
    let other = json!({ "authority": "127.0.0.1:1", "path": "/" });
    assert!(granted.fails("get", other).await.contains("HttpRequestDenied"));
    let tunnel = json!({ "authority": authority, "path": "/", "method": "CONNECT" });
    granted.fails("get", tunnel).await;
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].to_lowercase().contains(&format!("host: {authority}")), "{seen:?}");
    // A granted name does not permit a loopback address.
    let named = guest(Grant::none().with_host("http://localhost".parse().unwrap())).await;
    let arguments = json!({ "authority": "localhost", "path": "/" });
    named.fails("get", arguments).await;
}

/// WA05: without a grant sockets can neither connect nor listen, send datagrams or resolve names.
#[tokio::test]
async fn sockets_connect_to_granted_addresses_alone() {
    let server = Server::saying("127.0.0.1:0", "hello");
    let to = json!({ "address": [127, 0, 0, 1], "port": server.port() });
    let none = guest(Grant::none()).await;
    assert!(none.fails("connect", to).await.contains("AccessDenied"));
    assert!(none.fails("listen", json!({ "port": 0 })).await.contains("AccessDenied"));
    assert!(none.fails("listen", json!({ "port": 4711 })).await.contains("AccessDenied"));
    assert!(none.fails("datagrams", json!({})).await.contains("AccessDenied"));
    assert!(none.fails("look-up", json!({ "name": "localhost" })).await.contains("PermanentResolverFailure"));
}

/// WA02: a guest has the environment variables of its grant alone.
#[tokio::test]
async fn variables_are_those_of_the_grant() {
    assert_eq!(guest(Grant::none()).await.says("environment", json!({})).await, "");
    let granted = guest(Grant::none().with_env("CARGO_MANIFEST_DIR")).await;
    assert!(granted.says("environment", json!({})).await.starts_with("CARGO_MANIFEST_DIR="));
}
