//! Files of targets, byte by byte, and the refusal of special files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use haft::backend::{BackendConfig, Place};
use haft::limit::Limits;
use haft::tool::{Caller, Client, Context, Notes, Session, Whole};
use serde_json::json;

use super::host_context::{Bed, Kind, all, container, ssh};

/// FL01: `write_file` and `read_file` write, read, overwrite and truncate a target's file, with their messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_read_replaced_and_cut() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let path = place(&bed, "a file.txt").await;
        let written = bed.call("write_file", json!({ "path": path, "content": "one\ttwo" })).await.unwrap();
        assert_eq!(written.content, format!("Wrote 7 bytes to {path}"), "{}", kind.name);
        assert_eq!(bed.call("read_file", json!({ "path": path })).await.unwrap().content, "one\ttwo");
        bed.call("write_file", json!({ "path": path, "content": "ж".repeat(9000) })).await.unwrap();
        let read = bed.call("read_file", json!({ "path": path })).await.unwrap().content;
        assert_eq!(read, format!("{}...[truncated]", "ж".repeat(8000)), "{}", kind.name);
        let rest = bed.call("read_file", json!({ "path": path, "offset": 16_000 })).await.unwrap().content;
        assert_eq!(rest, "ж".repeat(1000), "{}", kind.name);
        let none =
            bed.call("read_file", json!({ "path": format!("{path}.none") })).await.unwrap_err().to_string();
        assert!(none.contains("there is no such file"), "{none}");
        bed.backend.close().await;
    }
}

/// C12: `write_file` creates missing directories, as `write` does, and none at places that tools must not write to.
#[tokio::test(flavor = "multi_thread")]
async fn missing_directories_are_made() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let folder = place(&bed, "").await;
        let folder = folder.trim_end_matches('/');
        for name in ["one/two/a file", "it's/-new/\n/x", "dots/.//./x", "one/three"] {
            let path = format!("{folder}/{name}");
            let written = bed.call("write_file", json!({ "path": path, "content": name })).await;
            assert!(written.is_ok(), "{}: {name}: {written:?}", kind.name);
            let read = bed.call("read_file", json!({ "path": path })).await.unwrap().content;
            assert_eq!(read, name, "{}", kind.name);
        }
        let none = bed.call("read_file", json!({ "path": format!("{folder}/none/x") })).await.unwrap_err();
        assert!(none.to_string().contains("its directory does not exist or cannot be entered"), "{none}");
        if kind.choice.place != Place::Local {
            for path in ["/etc/haft-none-4711/x", "~/.kube/haft-none/x"] {
                let home = String::from_utf8(bed.run("printf %s ~").await.output).unwrap();
                let path = path.replace('~', &home);
                let refused =
                    bed.call("write_file", json!({ "path": path, "content": "x" })).await.unwrap_err();
                assert!(
                    refused.to_string().contains("which tools must not write"),
                    "{}: {refused}",
                    kind.name
                );
            }
            let left = bed.run("ls -d /etc/haft-none-4711 ~/.kube/haft-none").await.output;
            assert_eq!(String::from_utf8_lossy(&left), "", "{}: nothing was made", kind.name);
        }
        bed.backend.close().await;
    }
}

/// A writable path on the target.
async fn place(bed: &Bed, name: &str) -> String {
    if bed.kind.choice.place == Place::Local {
        return bed.work().join(name).to_str().unwrap().to_owned();
    }
    let made = bed.run("mktemp -d").await.output;
    format!("{}/{name}", String::from_utf8(made).unwrap().trim())
}

/// FL02: a file has the same bytes on both sides, for any content and any name.
#[tokio::test(flavor = "multi_thread")]
async fn files_are_the_same_byte_by_byte() {
    let (limits, notes, session) = (Limits::default(), Notes::default(), Session::default());
    let all_bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let lines: String = (0..3000).map(|line| format!("{line}\t\x1b[31m  \r\n")).collect();
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let context = Context {
            grant: &bed.grant,
            limits: &limits,
            events: &bed.events,
            cancel: &bed.cancel,
            notes: &notes,
            whole: &Whole::default(),
            client: Client::default(),
            caller: Caller::new(&session),
            approved: false,
        };
        for (name, content) in [
            ("no end of line", b"a\tb\n\n  c".to_vec()),
            ("", Vec::new()),
            ("binary", all_bytes.clone()),
            ("lines", lines.clone().into_bytes()),
            ("it's \"quoted\" $HOME `id` \\n *", b"x".to_vec()),
            ("line\nbreak\n", b"y".to_vec()),
            ("-rf", b"z".to_vec()),
            ("жö", vec![0xff, 0]),
        ] {
            let path = place(&bed, &format!("x{name}")).await.replace("/x-", "/-");
            bed.backend
                .write(&path, content.clone(), &context)
                .await
                .unwrap_or_else(|e| panic!("{}: {e}", kind.name));
            let read = bed.backend.read(&path, 0, 1 << 20, &context).await.unwrap();
            assert!(
                read.bytes == content,
                "{}: {name:?}: {} bytes of {}",
                kind.name,
                read.bytes.len(),
                content.len()
            );
            assert_eq!(read.total, content.len() as u64);
        }
        let path = place(&bed, "base64").await;
        let encoded = STANDARD.encode(&all_bytes[..256]);
        bed.call("write_file", json!({ "path": path, "content": encoded, "encoding": "base64" }))
            .await
            .unwrap();
        let read = bed.call("read_file", json!({ "path": path, "encoding": "base64" })).await.unwrap();
        assert_eq!(read.content, encoded, "{}", kind.name);
        bed.backend.close().await;
    }
}

/// C15: a path of a file with a slash at its end is refused on a target too.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_slash_is_no_file() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let path = place(&bed, "a.txt").await;
        let folder = path.trim_end_matches("/a.txt").to_owned();
        bed.call("write_file", json!({ "path": path, "content": "one" })).await.unwrap();
        for (path, why) in [
            (format!("{path}/"), "a part of the path is a file, not a directory"),
            (format!("{path}/."), "a part of the path is a file, not a directory"),
            (format!("{folder}/"), "it is a directory, not a file"),
        ] {
            for (tool, arguments) in [
                ("read_file", json!({ "path": path })),
                ("write_file", json!({ "path": path, "content": "two" })),
            ] {
                let refused = bed.call(tool, arguments).await.unwrap_err().to_string();
                assert!(refused.contains(why), "{}: {tool} {path}: {refused}", kind.name);
            }
        }
        assert_eq!(bed.call("read_file", json!({ "path": path })).await.unwrap().content, "one");
        bed.backend.close().await;
    }
}

/// FL03: haft refuses protected paths through any link, and checks them on the target.
#[tokio::test(flavor = "multi_thread")]
async fn keys_and_the_system_s_own_are_not_touched_through_any_link() {
    for kind in [container(), ssh()].into_iter().flatten() {
        let bed = Bed::new(&kind).await;
        let folder = place(&bed, "").await;
        let folder = folder.trim_end_matches('/');
        bed.run(&format!(
            "cd {folder}; ln -s /etc etc; ln -s /etc/haft-test-4711 leaf; ln -s . here; ln -s loop loop; mkdir -p ~/.ssh; \
             ln -s ~/.ssh keys; mkfifo pipe; ln -s leaf twice"
        ))
        .await;
        for path in [
            "/etc/haft-test-4711",
            "etc/haft-test-4711",
            "leaf",
            "twice",
            "here/here/leaf",
            "keys/haft-test-4711",
            "etc/../etc/x",
        ] {
            let path = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
            let refused = bed
                .call("write_file", json!({ "path": path, "content": "x" }))
                .await
                .unwrap_err()
                .to_string();
            assert!(refused.contains("which tools must not write"), "{}: {path}: {refused}", kind.name);
            assert!(
                refused.contains("hint: haft proposes no line to allow it") && !refused.contains("files = ["),
                "{refused}"
            );
        }
        for (path, why) in [
            ("loop", "too many links"),
            ("pipe", "a device, a pipe or a socket"),
            ("here", "a directory"),
            ("loop/x", "its directory does not exist or cannot be entered"),
            ("none/../x", "its directory does not exist or cannot be entered"),
            ("pipe/x", "its directory does not exist or cannot be entered"),
        ] {
            let path = format!("{folder}/{path}");
            let refused = bed
                .call("write_file", json!({ "path": path, "content": "x" }))
                .await
                .unwrap_err()
                .to_string();
            assert!(refused.contains(why), "{}: {path}: {refused}", kind.name);
        }
        bed.run("echo key > ~/.ssh/haft-test-4711").await;
        let refused = bed.call("read_file", json!({ "path": format!("{folder}/keys/haft-test-4711") })).await;
        bed.run("rm ~/.ssh/haft-test-4711").await;
        assert!(refused.unwrap_err().to_string().contains("which tools must not read"), "{}", kind.name);
        // A file that tools must not write is readable.
        assert!(bed.call("read_file", json!({ "path": "/etc/passwd" })).await.is_ok(), "{}", kind.name);
        bed.backend.close().await;
        only_what_is_named(&kind, folder).await;
    }
}

/// FL03: with `files` in `[backend]`, tools write in these directories alone.
async fn only_what_is_named(kind: &Kind, folder: &str) {
    let choice =
        BackendConfig { files: Some(vec![folder.to_owned(), "/var/lib".into()]), ..kind.choice.clone() };
    let bed = Bed::new(&Kind { name: kind.name, choice }).await;
    bed.call("write_file", json!({ "path": format!("{folder}/in"), "content": "x" })).await.unwrap();
    for path in
        ["/tmp/haft-outside-4711".to_owned(), format!("{folder}/../haft-outside"), format!("{folder}/leaf")]
    {
        let refused =
            bed.call("write_file", json!({ "path": path, "content": "x" })).await.unwrap_err().to_string();
        assert!(
            refused.contains("it is outside the directories of `files` in `[backend]`"),
            "{path}: {refused}"
        );
    }
    bed.backend.close().await;
}

/// FL03, T01: on this machine the sandbox refuses a write outside, also through a link.
#[tokio::test(flavor = "multi_thread")]
async fn on_this_machine_the_sandbox_judges() {
    let bed = Bed::new(&super::host_context::local()).await;
    let elsewhere = crate::common::outside();
    let outside = elsewhere.path().join("new");
    std::os::unix::fs::symlink(&outside, bed.work().join("link")).unwrap();
    for path in [outside.to_str().unwrap(), "link"] {
        let refused =
            bed.call("write_file", json!({ "path": path, "content": "x" })).await.unwrap_err().to_string();
        assert!(refused.contains("permission denied"), "{refused}");
        assert!(!outside.exists());
    }
}
