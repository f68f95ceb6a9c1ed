//! Whole tasks at an editor: its updates, the cancellation of a task, and the continuation of a session.

use std::fs;

use serde_json::{Value, json};

use super::{Editor, Place, begin, lives, prompt, sleeping};
use crate::common::wait::until;
use crate::sessions::{Says, answers, asked};

/// Reads a file, edits it, copies it by a command, and repeats the command's output.
fn script(messages: &[Value]) -> Says {
    let done = answers(messages);
    match (asked(messages), done.len()) {
        ("what next?", _) => Says::text(format!("Nothing after {} calls.", done.len())),
        (_, 0) => Says {
            text: "I look.".into(),
            calls: vec![("read", json!({ "file_path": "a.txt" }))],
            ..Says::default()
        },
        (_, 1) => {
            Says::call("edit", json!({ "file_path": "a.txt", "old_string": "alpha", "new_string": "omega" }))
        }
        (_, 2) => Says::call("bash", json!({ "command": "cat a.txt > b.txt; cat b.txt" })),
        _ => Says::text(format!("It says {}", done[2].2.trim())),
    }
}

fn place() -> Place {
    let place = Place::new(script);
    place.home.write("a.txt", "alpha\n");
    place
}

/// The editor receives the updates of a task with three calls, one of which needs approval.
#[test]
fn a_whole_task_is_seen_as_it_happens() {
    let place = place();
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let answer = editor.ask("session/prompt", prompt(&session, "change it"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!((editor.said().as_str(), editor.questions()), ("I look.It says omega", 1));
    assert_eq!(fs::read_to_string(place.folder().join("b.txt")).unwrap(), "omega\n");
    let updates = editor.updates();
    let usage = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "usage_update")
        .expect("how full the window is");
    assert!(usage["used"].as_u64().unwrap() > 0 && usage["size"].is_u64(), "{usage}");
    let begun: Vec<_> = updates.iter().filter(|update| update["sessionUpdate"] == "tool_call").collect();
    let kinds: Vec<_> = begun.iter().map(|call| call["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["read", "edit", "execute"]);
    let path = place.folder().canonicalize().unwrap().join("a.txt");
    assert_eq!(begun[0]["locations"][0]["path"], json!(path));
    assert_eq!(begun[0]["rawInput"], json!({ "file_path": "a.txt" }));
    let diff = json!({ "type": "diff", "path": path, "oldText": "alpha", "newText": "omega" });
    assert_eq!(begun[1]["content"][0], diff);
    for call in begun {
        let of_call = updates.iter().filter(|update| update["toolCallId"] == call["toolCallId"]);
        let states: Vec<_> = of_call.filter_map(|update| update["status"].as_str()).collect();
        assert_eq!(states, ["in_progress", "completed"], "{call}");
    }
    let titles: Vec<_> = updates.iter().filter_map(|update| update["title"].as_str()).collect();
    assert!(titles.contains(&"change it"), "{titles:?}");
    assert_eq!(editor.leave(), 0);
    let own = place.home.haft(&["session", "list", "--json"]).stdout;
    assert!(own.contains(&session) && own.contains("\"done\""), "{own}");
    place.model.assert_content();
}

/// PL20: a cancellation during a command stops the command, and the conversation can continue.
#[test]
fn a_task_is_stopped_in_the_middle_of_a_call() {
    let (command, words) = sleeping();
    let place = Place::new(move |messages| match asked(messages) {
        "go on" => Says::text("Gladly."),
        _ => Says::call("bash", json!({ "command": command })),
    });
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let id = editor.send("session/prompt", prompt(&session, "wait"));
    editor.until(|message| message["params"]["update"]["content"].to_string().contains("begun"));
    until("the command runs", || lives(&words));
    // A session accepts one prompt at a time.
    let second = editor.ask("session/prompt", prompt(&session, "go on"));
    assert_eq!(second["error"]["code"], -32600, "{second}");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    until("the command is gone", || !lives(&words));
    let last = editor.updates().into_iter().rfind(|update| update["status"].is_string()).unwrap();
    assert_eq!(last["status"], "failed");
    let answer = editor.ask("session/prompt", prompt(&session, "go on"));
    assert_eq!((&answer["result"]["stopReason"], editor.said().as_str()), (&json!("end_turn"), "Gladly."));
    place.model.assert_content();
}

/// `$/cancel_request` cancels a prompt as any other request.
#[test]
fn a_prompt_is_taken_back_by_its_request() {
    let (command, words) = sleeping();
    let place = Place::new(move |_| Says::call("bash", json!({ "command": command })));
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let id = editor.send("session/prompt", prompt(&session, "wait"));
    wait_until_begun(&mut editor);
    editor.notify("$/cancel_request", json!({ "requestId": id }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    until("the command is gone", || !lives(&words));
}

fn wait_until_begun(editor: &mut Editor) {
    editor.until(|message| message["params"]["update"]["content"].to_string().contains("begun"));
}

/// If an editor disappears during a call, haft ends with all its processes.
#[test]
fn an_editor_that_is_gone_leaves_no_process() {
    let (command, words) = sleeping();
    let place = Place::new(move |_| Says::call("bash", json!({ "command": command })));
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    editor.send("session/prompt", prompt(&session, "wait"));
    wait_until_begun(&mut editor);
    assert_eq!(editor.leave(), 0);
    until("the command is gone", || !lives(&words));
    let kept = place.home.haft(&["session", "list", "--json"]).stdout;
    assert!(kept.contains(&session) && kept.contains("\"cancelled\""), "{kept}");
}

/// Another process loads a session with its whole history, and the model continues it.
#[test]
fn a_session_is_loaded_with_all_that_was_said() {
    let place = place();
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    editor.ask("session/prompt", prompt(&session, "change it"));
    assert_eq!(editor.leave(), 0);

    let mut editor = place.editor();
    let listed = editor.ask("session/list", json!({ "cwd": place.folder() }));
    let listed = &listed["result"]["sessions"][0];
    assert_eq!((&listed["sessionId"], &listed["title"]), (&json!(session), &json!("change it")));
    let elsewhere = editor.ask("session/list", json!({ "cwd": "/" }));
    assert_eq!(elsewhere["result"]["sessions"], json!([]));
    let opening = json!({ "sessionId": session, "cwd": place.folder(), "mcpServers": [] });
    assert!(editor.ask("session/load", opening.clone())["error"].is_null());
    let kinds: Vec<_> =
        editor.updates().iter().map(|update| update["sessionUpdate"].as_str().unwrap().to_owned()).collect();
    let call = ["tool_call", "tool_call_update"];
    let expected = [
        vec!["user_message_chunk", "agent_message_chunk"],
        [call, call, call].concat(),
        vec!["agent_message_chunk"],
    ];
    assert_eq!(kinds, expected.concat());
    assert_eq!(editor.said(), "I look.It says omega");
    let answer = editor.ask("session/prompt", prompt(&session, "what next?"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(editor.said().ends_with("Nothing after 3 calls."), "{}", editor.said());
    // `session/resume` shows no history; a deleted session is deleted everywhere.
    let before = editor.seen.len();
    assert!(editor.ask("session/resume", opening.clone())["error"].is_null());
    assert_eq!(editor.seen.len(), before + 1);
    let kept = place.folder().join("../.local/share/haft/answers").join(&session);
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("1-0.txt"), "all of a long answer").unwrap();
    assert!(editor.ask("session/delete", json!({ "sessionId": session }))["error"].is_null());
    assert!(!kept.exists(), "what was kept of its answers goes with it");
    assert_eq!(editor.ask("session/load", opening)["error"]["code"], -32002);
    assert_eq!(place.home.haft(&["session", "list", "--json"]).stdout, "");
}

/// Two concurrent sessions with different folders and programs share nothing.
#[test]
fn sessions_have_folders_and_histories_of_their_own() {
    let place = Place::new(|messages| match answers(messages).as_slice() {
        [] => Says::call("read", json!({ "file_path": "own.txt" })),
        [(_, _, answer)] => Says::text(format!("{}: {}", asked(messages), answer.trim())),
        _ => Says::text("mixed up"),
    });
    let mut editor = place.editor();
    let mut sent = Vec::new();
    for name in ["one", "two"] {
        let folder = place.program(name, "");
        fs::write(folder.join("own.txt"), format!("of {name}\n")).unwrap();
        let session = begin(&mut editor, &folder);
        sent.push((name, session.clone(), editor.send("session/prompt", prompt(&session, name))));
    }
    for (_, _, id) in &sent {
        // The answers may arrive in any order.
        while !editor.seen.iter().any(|message| message["id"] == *id && message.get("method").is_none()) {
            editor.read();
        }
    }
    for (name, session, _) in sent {
        let own = editor.seen.iter().filter(|message| message["params"]["sessionId"] == session);
        let said: String =
            own.filter_map(|message| message["params"]["update"]["content"]["text"].as_str()).collect();
        assert_eq!(said, format!("{name}: of {name}"));
    }
    place.model.assert_content();
}

/// Sessions over the limit are suspended, the longest idle first, and continue at their next prompt.
#[test]
fn sessions_that_rest_go_on() {
    let place = Place::new(|messages| {
        let said = messages.iter().filter(|message| message["role"] == "user").count();
        Says::text(format!("{said}. "))
    });
    let mut editor = place.editor();
    let first = begin(&mut editor, &place.folder());
    editor.ask("session/prompt", prompt(&first, "hello"));
    let unspoken = begin(&mut editor, &place.folder());
    for _ in 0..9 {
        begin(&mut editor, &place.folder());
    }
    for session in [&first, &unspoken] {
        let answer = editor.ask("session/prompt", prompt(session, "and now?"));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    assert_eq!(editor.said(), "1. 2. 1. ");
}

/// The editor's MCP servers are tools of the agent, in the sandbox as those of program.toml.
#[test]
fn the_editor_s_mcp_servers_are_tools() {
    let place = Place::new(|messages| match answers(messages).as_slice() {
        [] => Says::call("mcp__my-tools__echo", json!({ "text": "4711" })),
        [(_, _, answer), ..] => Says::text(format!("{answer} ")),
    });
    let mut editor = place.editor();
    let (mut words, like) = (crate::mcp::fake::command(), json!({}).to_string());
    let command = words.remove(0);
    let env = json!([{ "name": crate::mcp::fake::LIKE, "value": like }]);
    let servers = json!([
        { "name": "My Tools", "command": command, "args": words, "env": env },
        { "type": "http", "name": "far", "url": "https://example.org/mcp", "headers": [] },
    ]);
    let opened = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": servers }));
    let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    let answer = editor.ask("session/prompt", prompt(&session, "echo"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert!(editor.said().contains("4711"), "{}", editor.said());
}

/// CL04: no message to an editor contains a key that haft knows.
#[test]
fn no_secret_is_shown() {
    let place = Place::new(|messages| match answers(messages).len() {
        0 => Says {
            text: format!("I say {} ", crate::cli::SECRET),
            calls: vec![("bash", json!({ "command": format!("echo {}", crate::cli::SECRET) }))],
            ..Says::default()
        },
        _ => Says::text("Done."),
    });
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let answer = editor.ask("session/prompt", prompt(&session, "tell me"));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let all = Value::from(editor.seen.clone()).to_string();
    assert!(!all.contains(crate::cli::SECRET) && all.contains("***"), "{all}");
}

/// If the model cannot be used, the user gets the reason and the way to correct it.
#[test]
fn what_keeps_a_model_from_answering_is_told() {
    let place = Place::new(|_| Says::default());
    let folder = place.folder().join("none");
    fs::create_dir(&folder).unwrap();
    let mut editor = place.editor();
    let none = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
    let text = none["error"]["message"].as_str().unwrap();
    assert!(text.contains("no model provider") && text.contains("--provider"), "{text}");
    fs::write(folder.join("program.toml"), "[progrem]\n").unwrap();
    let broken = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
    let text = broken["error"]["message"].as_str().unwrap();
    assert!(text.contains("progrem") && text.contains("program.toml:1"), "{text}");
    let dead = place.program("dead", "");
    let program = fs::read_to_string(dead.join("program.toml")).unwrap();
    let port = program.replace(&place.model.base_url(), "http://127.0.0.1:9/v1") + "max_retries = 0\n";
    fs::write(dead.join("program.toml"), port).unwrap();
    let session = begin(&mut editor, &dead);
    let failed = editor.ask("session/prompt", prompt(&session, "hello"));
    assert!(failed["error"]["message"].as_str().unwrap().contains("127.0.0.1:9"), "{failed}");
}

/// A18: haft reports omitted parts of a session, as a notice if the editor supports notices, and otherwise as a
/// message. The session's commands are offered and executed.
#[test]
fn what_is_left_out_is_told_and_commands_are_done() {
    let servers = json!([
        { "name": "gone", "command": "/no/such/server", "args": [], "env": [] },
        { "type": "http", "name": "far", "url": "http://127.0.0.1:1/", "headers": [] },
        { "name": "…", "command": "/no/such/server", "args": [], "env": [] },
    ]);
    for (capabilities, kind) in
        [(json!({}), "agent_message_chunk"), (json!({ "session": { "notices": {} } }), "notice")]
    {
        let place = place();
        let mut command = place.home.command(&["acp"]);
        command.current_dir("/");
        let mut editor = Editor::silent(command);
        editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        let opened = editor.ask("session/new", json!({ "cwd": place.folder(), "mcpServers": servers }));
        let session = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        editor.until(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
        editor.ask("session/prompt", prompt(&session, "change it"));
        let updates = editor.updates();
        let told: Vec<_> = updates
            .iter()
            .filter(|update| update["sessionUpdate"] == kind)
            .map(ToString::to_string)
            .filter(|update| update.contains("left out") || update.contains("no/such/server"))
            .collect();
        assert_eq!(told.len(), 3, "{kind}: {updates:#?}");
        assert_eq!(fs::read_to_string(place.folder().join("a.txt")).unwrap(), "omega\n");
        let answer = editor.ask("session/prompt", prompt(&session, "/undo"));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(fs::read_to_string(place.folder().join("a.txt")).unwrap(), "alpha\n");
        let answer = editor.ask("session/prompt", prompt(&session, "/undo twice"));
        assert!(answer["error"]["message"].as_str().is_some_and(|why| why.contains("twice")), "{answer}");
    }
}

/// The model sees a skill of an installed Agent Plugin by its name, and reads its text on demand.
#[test]
fn a_skill_of_a_plugin_is_told_by_name_and_read_on_demand() {
    let place = Place::new(|messages| {
        let is_told = messages[0].to_string().contains("- probe: Probes things.");
        match answers(messages).first() {
            None if is_told => Says::call("read_skill", json!({ "name": "probe" })),
            None => Says::text("I know no skill."),
            Some(read) => Says::text(format!("It says {}", read.2.trim())),
        }
    });
    fs::create_dir_all(place.folder().join("acme/skills/probe")).unwrap();
    let schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
    place.home.write("acme/plugin.json", &json!({ "$schema": schema, "name": "acme" }).to_string());
    let skill = "---\nname: probe\ndescription: Probes things.\n---\nProbe twice.\n";
    place.home.write("acme/skills/probe/SKILL.md", skill);
    assert_eq!(place.home.haft(&["add", "./acme", "--yes"]).code, 0);
    let mut editor = place.editor();
    let session = begin(&mut editor, &place.folder());
    let answer = editor.ask("session/prompt", prompt(&session, "probe it"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), "It says Probe twice.");
}
