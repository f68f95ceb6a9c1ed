//! Servers that a package runner fetches.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{Session, Stage, forms, yes};

/// A package runner such as `npx` has the network while it fetches the server; the server itself has no network.
#[test]
fn a_server_that_a_runner_fetches_has_the_network_for_that_alone() {
    let stage = Stage::new();
    let server = fs::read_to_string(stage.home.work().join("server.py")).unwrap();
    stage.home.write("npx", &format!("#!/usr/bin/env python3\n{server}"));
    fs::set_permissions(stage.home.work().join("npx"), Permissions::from_mode(0o755)).unwrap();
    let note = stage.place("note").canonicalize().unwrap();
    let words = ["wrap", "fetched", "--", "./npx", "fetched", note.to_str().unwrap()];
    for is_first in [true, false] {
        let mut session = Session::new(&mut stage.command(&words));
        session.begin(&forms());
        if is_first {
            let asked = session.person(&yes());
            assert!(asked.contains("network, until `npx` has fetched it"), "{asked}");
            // The server's own attempt to use the network is another question.
            let question = session.receive();
            let asked = question["params"]["message"].as_str().unwrap();
            assert!(
                asked.contains("\n  service=")
                    && !asked.contains("network")
                    && asked.contains("The server starts without them, but may not work."),
                "{asked}"
            );
            session
                .send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } }));
        } else {
            session.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        }
        let listed = session.receive();
        let found = &listed["result"]["found"];
        assert!(found.is_object(), "{listed}: {}", session.end().errors);
        assert!(found["network"].as_str().unwrap().starts_with("refused"), "{found}");
        assert_eq!(found["note"], "of the person", "{found}");
        // The fetch cannot read the files in the server's arguments.
        let fetch = found["starts"][0].as_str().unwrap().strip_prefix("written").unwrap();
        let fetch: Value = serde_json::from_str(fetch).unwrap();
        assert_eq!(fetch["network"], "connected", "{found}");
        assert!(fetch["note"].as_str().unwrap().starts_with("refused"), "{found}");
        assert_eq!(session.end().status.code(), Some(23));
    }
    assert!(!stage.records()[0].contains("hosts"), "{:?}", stage.records());
}
