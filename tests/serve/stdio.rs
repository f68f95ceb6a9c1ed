//! One client on standard input and output.

use serde_json::{Value, json};

use super::peer::{Peer, text};
use super::{Stage, WRITES_HERE};
use crate::common::wait::ended;

/// MC01: haft supports every revision with a handshake, and answers an unknown one with the latest of them.
#[test]
fn a_session_is_opened_in_every_revision_that_has_them() {
    let stage = Stage::new("");
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut peer = Peer::session(&stage, version, &json!({}));
        assert_eq!(text(&peer.call("guest__echo", json!({"text": version}))), version);
        assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
        assert_eq!(peer.hang_up(), Some(0), "{}", peer.stderr());
    }
    let mut peer = Peer::start(&stage, &[]);
    let answer = peer.initialize("2099-01-01", &json!({}));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
}

/// haft answers a ping before the client has opened its session.
#[test]
fn a_ping_is_answered_before_a_session_is_opened() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
    assert_eq!(peer.initialize("2025-11-25", &json!({}))["result"]["serverInfo"]["name"], "haft");
    assert_eq!(peer.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_server_says_who_it_is_and_what_it_can() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &[]);
    let result = peer.initialize("2025-11-25", &json!({}))["result"].take();
    assert_eq!(result["serverInfo"]["name"], "haft");
    assert_eq!(result["serverInfo"]["title"], "stage");
    assert_eq!(result["capabilities"], json!({"logging": {}, "tools": {"listChanged": true}}));
    let instructions = result["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("For tests.\n\nRelative paths are below `"), "{instructions}");
}

/// TE06: the first list contains all tools, in a stable order, with annotations and schemas.
#[test]
fn the_list_is_whole_and_stable() {
    let stage = Stage::new("\n[[tools]]\nname = \"say\"\ndescription = \"Says it\"\ncommand = \"echo\"\n");
    let list = || Peer::open(&stage).request("tools/list", json!({}))["result"]["tools"].take();
    let tools = list();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "bash");
    assert!(names.contains(&"guest__echo") && names.contains(&"read"), "{names:?}");
    assert_eq!(names.last(), Some(&"program__stage__say"));
    assert_eq!(list(), tools);
    let tool = |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(tool("bash")["annotations"]["destructiveHint"], true);
    assert_eq!(tool("read")["annotations"]["readOnlyHint"], true);
    assert_eq!(tool("guest__structured")["outputSchema"]["type"], "object");
    assert_eq!(tool("guest__echo").get("outputSchema"), None);
    let wrong = Peer::open(&stage).request("tools/list", json!({"cursor": "x"}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

/// (B01) haft serves the tools of a target as `haft tools` lists them, once the target is connected.
#[test]
fn tools_of_a_target_are_served() {
    let stage = Stage::new("\n[backend]\ntarget_tools = true\n");
    let listed = String::from_utf8(stage.command(&["tools"]).output().unwrap().stdout).unwrap();
    let mut peer = Peer::open(&stage);
    for name in ["run_shell", "read_file", "write_file"] {
        assert!(listed.contains(name), "{listed}");
        while !super::reload::names(&mut peer).contains(&name.to_owned()) {
            super::reload::hears_of_it(&mut peer);
        }
    }
    assert!(!super::reload::names(&mut peer).contains(&"bash".to_owned()));
}

/// MC13, for a client: two plugins with a tool of one name are both callable.
#[test]
fn tools_of_one_name_are_both_callable() {
    let component = crate::common::hostile();
    let stage = Stage::new(&format!("\n[[plugins]]\nname = \"other\"\ncomponent = {component:?}\n"));
    let mut peer = Peer::open(&stage);
    for name in ["guest__echo", "other__echo"] {
        assert_eq!(text(&peer.call(name, json!({"text": name}))), name);
    }
}

/// MC03: each kind of result arrives as its own: binary, structured, failed, invalid arguments, unknown tool.
#[test]
fn answers_arrive_as_what_they_are() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let binary = peer.call("guest__binary", json!({}));
    let kinds: Vec<&Value> =
        binary["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "resource"], "{binary}");
    assert_eq!(binary["content"][1]["resource"]["mimeType"], "application/octet-stream");
    let structured = peer.call("guest__structured", json!({"fits": true}));
    assert_eq!(structured["structuredContent"], json!({"answer": 42}), "{structured}");
    assert_eq!(structured["isError"], false);
    let failed = peer.call("guest__panic", json!({"message": "fell"}));
    assert_eq!(failed["isError"], true);
    assert!(text(&failed).contains("`guest__panic` panicked"), "{failed}");
    let wrong = peer.call("guest__echo", json!({}));
    assert_eq!((&wrong["isError"], text(&wrong)), (&json!(true), "invalid arguments: `text` is required"));
    let unknown = peer.request("tools/call", json!({"name": "guest__ecko"}));
    assert_eq!(unknown["error"]["code"], -32602);
    let message = unknown["error"]["message"].as_str().unwrap();
    assert_eq!(message, "Unknown tool: guest__ecko; did you mean `guest__echo`?");
}

/// Progress comes before the answer, and only to a client that asked for it.
#[test]
fn progress_is_told_in_order() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    let arguments = json!({"steps": 5, "ms": 1});
    let meta = json!({"progressToken": "p"});
    let id =
        peer.ask("tools/call", json!({"name": "guest__progress", "arguments": arguments, "_meta": meta}));
    peer.answer(id);
    let progress = |aside: &[Value]| -> Vec<f64> {
        let report = aside.iter().filter(|message| message["method"] == "notifications/progress");
        report.map(|message| message["params"]["progress"].as_f64().unwrap()).collect()
    };
    let steps = progress(&peer.aside);
    assert!(steps.len() >= 5 && steps.is_sorted(), "{:?}", peer.aside);
    assert!(peer.aside.iter().all(|message| message["params"]["progressToken"] == "p"), "{:?}", peer.aside);
    peer.aside.clear();
    peer.call("guest__progress", arguments);
    assert!(progress(&peer.aside).is_empty(), "{:?}", peer.aside);
}

/// A client gets the messages of tools as log notifications, from the level that it sets.
#[test]
fn messages_are_the_client_s_log() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    for (level, expected) in [(None, 3), (Some("error"), 0), (Some("debug"), 3)] {
        if let Some(level) = level {
            assert_eq!(peer.request("logging/setLevel", json!({"level": level}))["result"], json!({}));
        }
        peer.aside.clear();
        peer.call("guest__log", json!({"lines": 3, "bytes": 5}));
        let report = peer.aside.iter().filter(|message| message["method"] == "notifications/message");
        let report: Vec<&Value> = report.collect();
        assert_eq!(report.len(), expected, "{level:?}: {report:?}");
        assert!(report.iter().all(|message| message["params"]["logger"] == "guest__log"), "{report:?}");
    }
    peer.aside.clear();
    peer.call("bash", json!({"command": "echo live"}));
    let live = peer.aside.iter().any(|message| message["params"]["data"]["stdout"] == "live\n");
    assert!(live, "{:?}", peer.aside);
}

/// A guest that prints, a guest that panics and a command that writes to the terminal put no byte on the stream: the
/// client parses every line.
#[test]
fn nothing_but_messages_is_written() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &["-vvv"]);
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    for stderr in [false, true] {
        let printed = peer.call("guest__print", json!({"text": "{\"jsonrpc\":\"3.0\"}\n", "stderr": stderr}));
        assert_eq!(text(&printed), "printed");
    }
    peer.call("guest__flood_stdout", json!({"bytes": 100_000}));
    peer.call("guest__talk_and_panic", json!({"bytes": 1000}));
    peer.call("bash", json!({"command": "echo shouted; echo shouted >&2; echo shouted > /dev/tty"}));
    peer.request("tools/list", json!({}));
    peer.hang_up();
    while peer.message().is_some() {}
    assert!(!peer.stderr().is_empty(), "the log goes to standard error");
}

/// haft answers optional methods and invalid requests, and survives odd notifications.
#[test]
fn odd_requests_are_answered() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    for (method, key) in [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        assert_eq!(peer.request(method, json!({}))["result"][key], json!([]), "{method}");
    }
    for method in ["no/such/method", "resources/subscribe", "roots/list"] {
        let answer = peer.request(method, json!({"uri": "x:y"}));
        assert!(answer["error"]["code"].is_i64(), "{method}: {answer}");
    }
    let wrong = peer.request("tools/call", json!({"name": 1}));
    assert_eq!(wrong["error"]["message"], "invalid parameters of `tools/call`", "{wrong}");
    for nonsense in ["hello", "{", "[]", "{\"jsonrpc\":\"2.0\",\"id\":\"x\"}", "\u{0}"] {
        peer.write(&format!("{nonsense}\n"));
    }
    let meta = json!({"a": "x".repeat(200_000), "progressToken": 1, "b": {"c": [1, 2, 3]}});
    let arguments = json!({"text": "still here"});
    let large =
        peer.request("tools/call", json!({"name": "guest__echo", "arguments": arguments, "_meta": meta}));
    assert_eq!(text(&large["result"]), "still here");
    peer.notify("notifications/cancelled", json!({"requestId": 1, "reason": "long answered"}));
    peer.notify("notifications/roots/list_changed", json!({}));
    peer.notify("no/such/notification", json!({}));
    peer.send(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}}));
    let string_id = json!({"jsonrpc": "2.0", "id": "a string", "method": "ping"});
    peer.send(&string_id);
    assert_eq!(peer.answer("a string")["result"], json!({}));
}

/// Calls run concurrently, and a slow one delays neither calls nor pings.
#[test]
fn calls_run_at_the_same_time() {
    let stage = Stage::new(WRITES_HERE);
    let mut peer = Peer::open(&stage);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let ask =
        |name: &str| peer.ask("tools/call", json!({"name": "guest__hold", "arguments": stage.hold(name)}));
    let calls = names.map(ask);
    for name in names {
        stage.await_held(name);
    }
    peer.request("ping", json!({}));
    assert!(peer.aside.is_empty(), "a ping waits for calls: {:?}", peer.aside);
    stage.release();
    for call in calls {
        assert_eq!(text(&peer.answer(call)["result"]), "held to the end");
    }
}

/// A client that writes everything at once and closes haft's standard input gets the answers.
#[test]
fn what_was_asked_before_hanging_up_is_answered() {
    let stage = Stage::new("");
    Peer::open(&stage).call("guest__echo", json!({"text": "warm"}));
    let client = json!({"name": "pipe", "version": "0"});
    let open = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": open});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    // A file, because its end follows its last byte also on a busy machine.
    std::fs::write(stage.path("requests"), format!("{initialize}\n{list}")).unwrap();
    let requests = std::fs::File::open(stage.path("requests")).unwrap();
    let said = stage.command(&["serve"]).stdin(requests).output().unwrap();
    let answers = String::from_utf8(said.stdout).unwrap();
    let mut answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(answers.find(|answer| answer["id"] == 2).unwrap()["result"]["tools"].is_array());
}

/// haft ends when its client closes the input.
#[test]
fn a_client_that_hangs_up_ends_haft() {
    let stage = Stage::new("");
    let mut peer = Peer::open(&stage);
    peer.request("tools/list", json!({}));
    assert_eq!(peer.hang_up(), Some(0));
    let mut never = Peer::start(&stage, &[]);
    assert_eq!(never.hang_up(), Some(0), "{}", never.stderr());
}

/// After SIGTERM haft finishes its running calls, then ends.
#[test]
fn a_signal_ends_haft_when_the_calls_are_done() {
    let stage = Stage::new(WRITES_HERE);
    let mut peer = Peer::open(&stage);
    let id = peer.ask("tools/call", json!({"name": "guest__hold", "arguments": stage.hold("call")}));
    stage.await_held("call");
    let pid = rustix::process::Pid::from_child(&peer.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    stage.release();
    assert_eq!(text(&peer.answer(id)["result"]), "held to the end");
    assert_eq!(ended(&mut peer.child).code(), Some(0));
}

/// `haft serve` reports an invalid program before a client waits for an answer.
#[test]
fn a_broken_program_is_not_served() {
    let stage = Stage::new("\nno_such_key = 1\n");
    let mut peer = Peer::start(&stage, &[]);
    assert_eq!(peer.hang_up(), Some(3));
    assert!(peer.says("program.toml").contains("no_such_key"));
}

/// `--tools` serves the named tools alone.
#[test]
fn some_tools_can_be_served() {
    let stage = Stage::new("");
    let mut peer = Peer::start(&stage, &["--tools", "guest__e*"]);
    peer.initialize("2025-11-25", &json!({}));
    let tools = peer.request("tools/list", json!({}))["result"]["tools"].take();
    let names: Vec<&Value> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("guest__echo")), "{names:?}");
    assert!(names.iter().all(|name| name.as_str().unwrap().starts_with("guest__e")), "{names:?}");
    assert_eq!(peer.request("tools/call", json!({"name": "bash"}))["error"]["code"], -32602);
}

/// `--plugin` serves one plugin, with the plugin's own tool names.
#[test]
fn one_plugin_can_be_served_by_its_own_names() {
    let stage = Stage::new("");
    let mut peer =
        Peer::start(&stage, &["--plugin", "guest", "--tools", "guest__e*", "--tools", "guest__s*"]);
    peer.initialize("2025-11-25", &json!({}));
    let tools = peer.request("tools/list", json!({}))["result"]["tools"].take();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo") && names.contains(&"structured"), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with('e') || name.starts_with('s')), "{names:?}");
    assert_eq!(text(&peer.call("echo", json!({"text": "own"}))), "own");
    let structured = peer.call("structured", json!({"fits": true}));
    assert_eq!(structured["structuredContent"], json!({"answer": 42}), "{structured}");
    assert_eq!(peer.request("tools/call", json!({"name": "bash"}))["error"]["code"], -32602);
    let mut wrong = Peer::start(&stage, &["--plugin", "gest"]);
    assert_eq!(wrong.hang_up(), Some(5));
    wrong.says("it has `guest`");
}

/// A printed client configuration starts this haft with this program.
#[test]
fn a_client_s_configuration_starts_this_haft() {
    let stage = Stage::new("");
    for client in ["claude", "gemini", "cursor"] {
        let output = stage.command(&["serve", "--print-config", client]).output().unwrap();
        let file: Value = serde_json::from_slice(&output.stdout).unwrap();
        let entry = &file["mcpServers"]["stage"];
        let program = stage.path("program.toml").canonicalize().unwrap();
        assert_eq!(entry["args"], json!(["serve", "--program", program]), "{file}");
        let mut command = std::process::Command::new(entry["command"].as_str().unwrap());
        command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        command.env("HOME", stage.home()).env("XDG_CACHE_HOME", crate::common::cache());
        let mut peer = Peer::of(command);
        assert_eq!(peer.initialize("2025-11-25", &json!({}))["result"]["serverInfo"]["title"], "stage");
        let place = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(place.contains(".json"), "{place}");
    }
    let one = stage.command(&["serve", "--server", "files", "--print-config", "claude"]).output().unwrap();
    let file: Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(
        file["mcpServers"]["stage"]["args"].as_array().unwrap()[3..],
        [json!("--server"), json!("files")]
    );
    let given =
        ["serve", "--tools", "e*", "--allow", "guest:read=notes", "--no-journal", "--print-config", "claude"];
    let output = stage.command(&given).output().unwrap();
    let file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = file["mcpServers"]["stage"]["args"].as_array().unwrap();
    let here = stage.path("program.toml").canonicalize().unwrap().with_file_name("notes");
    let allow = format!("guest:read={}", here.display());
    assert_eq!(
        words[3..],
        [json!("--tools"), json!("e*"), json!("--allow"), json!(allow), json!("--no-journal")]
    );
    // An editor's sessions have their own folders, from which relative paths start.
    let given = ["acp", "--model", "fast", "--allow", "write=.", "--print-config", "zed"];
    let output = stage.command(&given).output().unwrap();
    let file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = json!(["acp", "--model", "fast", "--allow", "write=."]);
    assert_eq!(file["agent_servers"]["haft"]["args"], words, "{file}");
    let output = stage.command(&["serve", "--print-config", "emacs"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
