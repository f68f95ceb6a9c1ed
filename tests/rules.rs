//! Rules for calls: `allow`, `ask`, `deny` and `otherwise` of `[agent]`, in every verb that makes calls.

use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::hostile;
use crate::serve::Stage;
use crate::serve::peer::{Peer, text};
use crate::sessions::{Model, Says};

const RULES: &str = "\n[builtins]\nshell_confirm = true\n[agent]\nallow = [\"bash(echo *)\", \"guest__echo\"]\n\
    ask = [\"bash(echo ask*)\", \"guest__sleep\"]\ndeny = [\"bash(touch *)\"]\n";

fn run(command: &str) -> Value {
    json!({"name": "bash", "arguments": {"command": command}})
}

/// The rules apply to an MCP client's calls; haft asks by elicitation, and only if a rule or a setting requires it.
#[test]
fn a_client_is_asked_as_the_rules_say() {
    let stage = Stage::new(RULES);
    let mut peer = Peer::session(&stage, "2025-11-25", &json!({"elicitation": {}}));
    let echoed = peer.request("tools/call", run("echo 'a; b'"))["result"].take();
    assert_eq!(text(&echoed), "a; b\n", "allowed, though `shell_confirm` asks: {echoed}");
    for command in
        ["echo x; touch ran", "touch ran", "sh -c 'touch ran'", "echo $(touch ran)", "echo x\ntouch ran"]
    {
        let refused = peer.request("tools/call", run(command))["result"].take();
        let expected = "`bash` did not run: the rule `bash(touch *)` in `deny` of `[agent]` (program.toml:";
        assert!(text(&refused).starts_with(expected), "{command}: {refused}");
    }
    for (params, shown, runs) in [
        (run("echo ask me"), "`bash` needs your approval.\n\nRun: echo ask me", "ask me\n"),
        (run("echo x > /dev/null"), "`bash` needs your approval.\n\nRun: echo x > /dev/null", ""),
        (run("echo x; pwd >&2; exit"), "`bash` needs your approval.\n\nRun: echo x; pwd >&2; exit", "x\n"),
        (
            json!({"name": "guest__sleep", "arguments": {"ms": 1}}),
            "`guest__sleep` needs your approval.\n\nCall: guest__sleep ms=1",
            "",
        ),
    ] {
        let call = peer.ask("tools/call", params);
        let question = peer.await_one(|message| message["method"] == "elicitation/create");
        assert_eq!(question["params"]["message"], shown);
        let yes = json!({"action": "accept", "content": {"approve": true}});
        peer.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
        let result = peer.answer(call)["result"].take();
        assert!(result["isError"] == false && text(&result).starts_with(runs), "{result}");
    }
    assert_eq!(peer.call("guest__echo", json!({"text": "hi"}))["isError"], false);
    assert!(!stage.path("ran").exists());
}

/// A rule without a tool prevents the start of a server, and a running server does not adopt it.
#[test]
fn a_server_has_no_rule_that_names_nothing() {
    let stage = Stage::new("[agent]\ndeny = [\"bsah(rm *)\"]\n");
    let refused = stage.command(&["serve"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`deny` in `[agent]`: there is no tool `bsah`"), "{said}");
    assert_eq!(refused.status.code(), Some(3), "{said}");
    stage.program("[agent]\ndeny = [\"guest__echo\"]\n");
    let mut peer = Peer::open(&stage);
    let denied = |peer: &mut Peer| peer.call("guest__echo", json!({"text": "hi"}))["isError"] == true;
    assert!(denied(&mut peer));
    stage.program("[agent]\ndeny = [\"guest__ecko\"]\n");
    peer.says("did you mean `guest__echo`?");
    assert!(denied(&mut peer), "what was served before still is");
}

/// C08: a rule that names no tool is an error with the nearest name, wherever the program is used.
#[test]
fn rules_name_tools_that_there_are() {
    let component = hostile().display().to_string();
    let plugin = format!("[[plugins]]\nname = \"guest\"\ncomponent = {component:?}\n");
    for (rule, said, hint) in [
        ("allow = [\"reed(x)\"]", "`allow` in `[agent]`: there is no tool `reed`", "did you mean `read`?"),
        (
            "ask = [\"guset__*\"]",
            "`ask` in `[agent]`: there is no tool `guset__*`",
            "did you mean `guest__*`?",
        ),
        ("deny = [\"bahs(rm *)\"]", "`deny` in `[agent]`: there is no tool `bahs`", "did you mean `bash`?"),
        ("deny = [\"bash(rm *\"]", "invalid `agent.deny`", "does not end with `)`"),
        ("otherwise = \"never\"", "invalid `agent.otherwise`", "expected one of `allow`, `ask`, `deny`"),
    ] {
        let home = Home::new();
        home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{plugin}[agent]\n{rule}\n"));
        for arguments in [&["check"][..], &["run", "hi"]] {
            let answer = home.haft(arguments);
            let both = answer.stdout + &answer.stderr;
            assert!(both.contains(said) && both.contains(hint) && both.contains("program.toml:"), "{both}");
            assert_eq!(answer.code, 3, "{arguments:?}: {both}");
        }
    }
    let home = Home::new();
    let good = "[agent]\nallow = [\"run_shell(ls)\", \"read(src/*)\"]\ndeny = [\"program:x:y\"]\n[[tools]]\nname = \"y\"\n\
        description = \"y\"\ncommand = \"true\"\n[program]\nname = \"x\"\nversion = \"1.0.0\"\n";
    home.write("program.toml", good);
    let answer = home.haft(&["check"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("not checked: `allow` in `[agent]`: `run_shell`"), "{}", answer.stderr);
}

/// A call that a person types is not subject to `ask`, but `deny` refuses it.
#[test]
fn a_person_s_own_call_is_only_refused() {
    let home = Home::new();
    home.write(
        "program.toml",
        "[sandbox]\nworkspace = \".\"\n[agent]\nask = [\"bash\"]\ndeny = [\"bash(touch *)\"]\notherwise = \"deny\"\n",
    );
    assert_eq!(home.call("bash", &json!({"command": "echo 1"})).stdout, "1\n");
    let refused = home.call("time", &json!({}));
    assert!(refused.stderr.contains("`otherwise = \"deny\"` in `[agent]`"), "{}", refused.stderr);
    let refused = home.call("bash", &json!({"command": "true && touch x"}));
    assert!(refused.stderr.contains("the rule `bash(touch *)` in `deny` of `[agent]`"), "{}", refused.stderr);
    assert!(!home.work().join("x").exists());
    home.write("program.toml", "[agent]\notherwise = \"ask\"\n");
    assert_eq!(home.call("time", &json!({})).code, 0);
}

/// Without a person a model's call that needs approval is refused, and the journal names the rule.
#[test]
fn the_journal_says_which_rule_decided() {
    let script = |messages: &[Value]| {
        let done = messages.iter().filter(|message| message["role"] == "tool").count();
        match ["echo one", "pwd", "touch ran"].get(done) {
            Some(command) => Says::call("bash", json!({ "command": command })),
            None => Says::text("done"),
        }
    };
    let rules = "[agent]\nallow = [\"bash(echo *)\"]\ndeny = [\"bash(touch *)\"]\notherwise = \"ask\"\n";
    let (home, model) = (Home::new(), Model::start(script));
    let provider =
        format!("[provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\n", model.base_url());
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{rules}{provider}"));
    assert_eq!(home.haft(&["run", "do it"]).stdout, "done\n");
    let log = home.haft(&["log", "--json"]).stdout;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let noted = |command: &str| {
        let line = lines.iter().find(|line| line["arguments"]["command"] == command);
        line.map(|line| (line["outcome"].clone(), line["decisions"].to_string())).unwrap()
    };
    let (outcome, decisions) = noted("echo one");
    assert!(outcome == "ok" && decisions.contains("allowed by the rule `bash(echo *)` in `allow`"), "{log}");
    let (outcome, decisions) = noted("pwd");
    assert!(
        outcome == "refused" && decisions.contains("asked because of `otherwise = \\\"ask\\\"`"),
        "{log}"
    );
    let (outcome, decisions) = noted("touch ran");
    assert!(
        outcome == "refused" && decisions.contains("refused by the rule `bash(touch *)` in `deny`"),
        "{log}"
    );
}
