//! A program that changes while it is served.

use serde_json::{Value, json};

use super::eras::modern;
use super::peer::{Peer, text};
use super::{Stage, WRITES_HERE};
use crate::common::wait::until;

pub(crate) fn names(peer: &mut Peer) -> Vec<String> {
    let tools = peer.request("tools/list", json!({}))["result"]["tools"].take();
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Programs with one more command.
const SAY: &str = "\n[[tools]]\nname = \"say\"\ndescription = \"Says it\"\ncommand = \"echo\"\n";
const TELL: &str = "\n[[tools]]\nname = \"tell\"\ndescription = \"Says it\"\ncommand = \"echo\"\n";

const CHANGED: &str = "notifications/tools/list_changed";

pub(crate) fn hears_of_it(peer: &mut Peer) -> Value {
    peer.await_one(|message| message["method"] == CHANGED)
}

/// haft serves a changed program.toml without dropping a running call, and an invalid program.toml changes nothing.
#[test]
fn another_program_is_served_without_dropping_a_call() {
    let stage = Stage::new(WRITES_HERE);
    for text in [SAY, TELL] {
        stage.agree_to(text);
    }
    let mut peer = Peer::open(&stage);
    assert!(!names(&mut peer).contains(&"program__stage__say".to_owned()));
    let slow = peer.ask("tools/call", json!({"name": "guest__hold", "arguments": stage.hold("call")}));
    stage.await_held("call");
    stage.program(SAY);
    hears_of_it(&mut peer);
    assert!(names(&mut peer).contains(&"program__stage__say".to_owned()));
    assert_eq!(text(&peer.call("program__stage__say", json!({"args": ["new"]}))), "new\n");
    stage.release();
    let answer = peer.answer(slow);
    assert_eq!(text(&answer["result"]), "held to the end", "{answer}");
    stage.program("\n[[tools]]\nname = \"say\"\nno_such_key = 1\n");
    let said = peer.says("the previous program is still served");
    assert!(said.contains("no_such_key"), "{said}");
    assert!(names(&mut peer).contains(&"program__stage__say".to_owned()));
    // The same tools again: no notification.
    stage.program(&format!("{SAY}# the same\n"));
    peer.says("program loaded again");
    // A notification for the same tools would come before the one for other tools.
    stage.program(TELL);
    peer.says("program loaded again");
    hears_of_it(&mut peer);
    assert!(names(&mut peer).contains(&"program__stage__tell".to_owned()));
    assert!(!peer.aside.iter().any(|message| message["method"] == CHANGED), "{:?}", peer.aside);
}

/// A right that was removed from program.toml is missing in the next call.
#[test]
fn rights_change_with_the_program() {
    let stage = Stage::new("");
    let folder = stage.path("granted");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "here").unwrap();
    let grant = format!("[plugins.grant]\nread = [{folder:?}]\n");
    let mut peer = Peer::open(&stage);
    let open = json!({"path": folder.join("file")});
    assert_eq!(peer.call("guest__open", open.clone())["isError"], true);
    stage.program(&grant);
    peer.says("program loaded again");
    assert_eq!(peer.call("guest__open", open.clone())["isError"], false);
    stage.program("");
    peer.says("program loaded again");
    assert_eq!(peer.call("guest__open", open)["isError"], true);
}

/// haft serves a plugin's new component. It serves a plugin that it has never seen once its tools are known, and
/// `tools/list` waits for them.
#[test]
fn another_component_is_served() {
    let stage = Stage::new("");
    let built = |name: &str| crate::common::repository().join(format!("plugins/built/{name}.wasm"));
    let put = |name: &str| {
        std::fs::copy(built(name), stage.path("new.wasm")).unwrap();
        std::fs::rename(stage.path("new.wasm"), stage.path("own.wasm")).unwrap();
    };
    put("hello");
    stage.program("\n[[plugins]]\nname = \"own\"\ncomponent = \"own.wasm\"\n");
    let mut command = stage.command(&["serve"]);
    // Only the records of built-in plugins are known with this cache.
    command.env("XDG_CACHE_HOME", crate::common::own_cache(stage.home()));
    let mut peer = Peer::of(command);
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    // If the lookup takes too long, the list comes without the tools, and a notification follows.
    while !names(&mut peer).contains(&"own__hello".to_owned()) {
        hears_of_it(&mut peer);
    }
    put("wordcount");
    // The first notification may still belong to the first list.
    let now = loop {
        hears_of_it(&mut peer);
        let now = names(&mut peer);
        if now.contains(&"own__count".to_owned()) {
            break now;
        }
    };
    assert!(!now.contains(&"own__hello".to_owned()), "{now:?}");
}

/// A client of a later revision gets the changes that it subscribes to.
#[test]
fn a_subscriber_is_told() {
    let stage = Stage::new("");
    stage.agree_to(SAY);
    let mut peer = Peer::start(&stage, &[]);
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    peer.send(&modern("subscriptions/listen", "s", filter));
    let acknowledged =
        peer.await_one(|message| message["method"] == "notifications/subscriptions/acknowledged");
    let accepted = &acknowledged["params"]["notifications"];
    assert_eq!(accepted["toolsListChanged"], true, "{acknowledged}");
    assert_ne!(accepted["promptsListChanged"], true, "{acknowledged}");
    stage.program(SAY);
    let report = hears_of_it(&mut peer);
    assert_eq!(report["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s", "{report}");
    assert_eq!(peer.hang_up(), Some(0));
}

/// X6, X7: a change of program.toml widens no right by itself; a person's consent does, at once.
#[test]
fn a_reload_widens_no_right_by_itself() {
    let stage = Stage::new("");
    let outside = crate::common::outside();
    let mut peer = Peer::open(&stage);
    let wider = format!("\n[sandbox]\nworkspace = \".\"\nwrite = [{:?}]\n", outside.path());
    let write = |peer: &mut Peer, name: &str| {
        let command = format!("echo x > {}", outside.path().join(name).display());
        peer.call("bash", json!({"command": command}))["isError"] == false
    };
    assert!(!write(&mut peer, "before"));
    stage.program(&wider);
    peer.says("left out, because you have not agreed to:");
    peer.says("sandbox    writes");
    peer.says("program loaded again");
    assert!(!write(&mut peer, "changed"));
    assert!(stage.command(&["trust", "--yes"]).status().unwrap().success());
    until("the right holds", || write(&mut peer, "agreed"));
}
