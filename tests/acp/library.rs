//! The protocol's official client library, which checks every message of haft: `.ci/steps/acp` installs it and passes
//! its location; without that step this test reports that it was skipped.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Place, lives, sleeping};
use crate::common::wait::until;
use crate::common::{repository, same_environment};
use crate::sessions::{Says, answers, asked};

/// The variables with the library's module, and with the node that runs it.
const LIBRARY: &str = "HAFT_ACP_LIBRARY";
const NODE: &str = "HAFT_ACP_NODE";

/// The official client completes a task with an approved call, and cancels a second task.
#[test]
fn a_client_that_nobody_here_wrote_drives_a_whole_task() {
    let (Ok(library), Ok(node)) = (std::env::var(LIBRARY), std::env::var(NODE)) else {
        eprintln!("\nSKIPPED: no third-party client drove haft, since `{LIBRARY}` and `{NODE}` name none\n");
        return;
    };
    let (command, words) = sleeping();
    let place = Place::new(move |messages| match (asked(messages), answers(messages).last()) {
        ("wait", _) => Says::call("bash", json!({ "command": command })),
        (_, None) => Says::call("bash", json!({ "command": "echo 4711 > made; cat made" })),
        (_, Some((_, _, answer))) => Says::text(format!("It says {}", answer.trim())),
    });
    let own = place.home.command(&[]);
    let mut client = Command::new(node);
    client.arg(repository().join("tests/acp/client.mjs"));
    client.args([&library, env!("CARGO_BIN_EXE_haft")]).arg(place.folder()).current_dir("/");
    same_environment(&own, &mut client);
    let output = client.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(report["stops"], json!(["end_turn", "cancelled"]), "{report}");
    assert_eq!(report["asked"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(
        (&report["said"], &report["version"], &report["code"]),
        (&json!("It says 4711"), &json!(1), &json!(0))
    );
    assert_eq!((&report["replayed"], &report["listed"]), (&json!(["write it", "wait"]), &json!([true])));
    let kinds = [
        "agent_message_chunk",
        "available_commands_update",
        "session_info_update",
        "tool_call",
        "tool_call_update",
        "usage_update",
    ];
    assert_eq!(report["kinds"], json!(kinds));
    until("the command is gone", || !lives(&words));
    place.model.assert_content();
}
