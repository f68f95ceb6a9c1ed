//! Hooks: components that see the calls of tools, and can refuse them.

use std::fs;

use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::{hostile, repository};
use crate::serve::Stage;
use crate::serve::peer::{Peer, text};
use crate::sessions::{Model, Says};

/// A hook whose behaviour the arguments of a call choose.
fn guard() -> String {
    let component = repository().join("tests/guests/built/hook.wasm");
    format!("[[plugins]]\nname = \"guard\"\ncomponent = {:?}\n", component.display().to_string())
}

fn home(hooks: &str, more: &str) -> Home {
    let home = Home::new();
    let guard = guard();
    home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{guard}hooks = [{hooks}]\n{more}"));
    home
}

/// A call that the hook refuses does not run, and the error shows the hook as its source, never haft.
#[test]
fn a_hook_sees_calls_and_refuses_some() {
    let home = home("\"bash\"", "");
    assert_eq!(home.call("bash", &json!({"command": "echo 1"})).stdout, "1\n");
    let refused = home.call("bash", &json!({"command": "touch ran # hook-refuse"})).stderr;
    let expected = "`bash` did not run: the hook `guard` refuses the call: bash of built in with \
        {\"command\":\"touch ran # hook-refuse\"} is not wanted";
    assert!(refused.contains(expected), "{refused}");
    assert!(!home.work().join("ran").exists());
    let forged = home.call("bash", &json!({"command": "true # hook-forge"})).stderr;
    assert!(!forged.lines().any(|line| line.starts_with("hint: run `haft add evil`")), "{forged}");
    assert!(!forged.lines().any(|line| line.starts_with("Tool error (haft)")), "{forged}");
    let long = home.call("bash", &json!({"command": "true # hook-long"})).stderr;
    assert!(long.len() < 5000, "{}", long.len());
    assert_eq!(home.call("time", &json!({})).code, 0, "it does not see others");
}

/// If the hook traps, spins or is missing, haft refuses the call.
#[test]
fn what_gives_no_answer_refuses() {
    let home = home("\"*\"", "");
    for what in ["hook-trap", "hook-spin"] {
        let refused = home.call("bash", &json!({"command": format!("touch ran # {what}")})).stderr;
        assert!(refused.contains("the hook `guard` did not answer"), "{refused}");
        assert!(!home.work().join("ran").exists());
    }
    let component = hostile().display().to_string();
    for (component, why) in
        [("nowhere.wasm", "cannot be loaded"), (component.as_str(), "exports no `haft:plugin/hooks`")]
    {
        let plugin =
            format!("[[plugins]]\nname = \"guard\"\ncomponent = {component:?}\nhooks = [\"bash\"]\n");
        home.write("program.toml", &format!("[sandbox]\nworkspace = \".\"\n{plugin}"));
        let refused = home.call("bash", &json!({"command": "touch ran"})).stderr;
        assert!(
            refused.contains("`bash` did not run: the hook `guard`") && refused.contains(why),
            "{refused}"
        );
        assert_eq!(home.haft(&["check"]).code, 3);
    }
    assert!(!home.work().join("ran").exists());
}

/// A hook has only the rights that program.toml grants.
#[test]
fn a_hook_may_do_what_it_is_granted() {
    let home = home("\"bash\"", "");
    let refused = home.call("bash", &json!({"command": "true # hook-read"})).stderr;
    assert!(refused.contains("the hook `guard` refuses the call"), "{refused}");
    assert!(!home.work().join("seen.txt").exists());
    let work = home.work().display().to_string();
    let granted = format!("[plugins.grant]\nwrite = [{work:?}]\n");
    let home_program = format!("[sandbox]\nworkspace = \".\"\n{}hooks = [\"bash\"]\n{granted}", guard());
    home.write("program.toml", &home_program);
    home.call("bash", &json!({"command": "echo seen"}));
    home.call("bash", &json!({"command": "true # hook-refuse"}));
    home.call("bash", &json!({"command": "echo trap-''after"}));
    let seen = fs::read_to_string(home.work().join("seen.txt")).unwrap_or_default();
    let lines: Vec<_> = seen.lines().collect();
    assert!(lines[0] == "bash false true 5" && lines[1].starts_with("bash true true "), "{seen}");
    assert_eq!(home.call("bash", &json!({"command": "printf trap-''after"})).stdout, "trap-after\n");
}

/// A hook offers no tools, and `hooks` must name existing tools.
#[test]
fn a_hook_offers_no_tools() {
    let home = home("\"bash\", \"raed\"", "");
    let answer = home.haft(&["check"]);
    let both = answer.stdout + &answer.stderr;
    assert!(both.contains("`hooks` of plugin `guard`: there is no tool `raed`"), "{both}");
    assert!(both.contains("did you mean `read`?"), "{both}");
    let home = self::home("\"bash\", \"time\"", "");
    let answer = home.haft(&["check"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("the hook `guard` sees the calls of 2 tools"), "{}", answer.stderr);
    assert!(!home.haft(&["tools"]).stdout.contains("before-call"));
    home.write("program.toml", &guard());
    let answer = home.haft(&["check"]);
    let both = answer.stdout + &answer.stderr;
    assert!(both.contains("plugin `guard` is a hook without calls") && answer.code == 3, "{both}");
}

/// `haft list`, `haft doctor` and `haft tools` name the hooks of a program.
#[test]
fn what_lists_plugins_and_tools_names_the_hooks() {
    let home = home("\"bash\", \"time\"", "");
    let listed = home.haft(&["list", "--long"]).stdout;
    assert!(listed.contains("guard") && listed.contains("hook of  bash, time"), "{listed}");
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&home.haft(arguments).stdout).unwrap() };
    assert_eq!(json(&["list", "--json"])[0]["hooks"], json!(["bash", "time"]));
    let doctor = home.haft(&["doctor"]).stdout;
    let line = doctor.lines().find(|line| line.contains("hook guard")).unwrap_or_else(|| panic!("{doctor}"));
    assert!(line.contains("sees the calls of 2 tools"), "{doctor}");
    assert_eq!(
        json(&["doctor", "--json"])["program"]["hooks"],
        json!([{ "name": "guard", "tools": 2, "absent": false }])
    );
    let tools = json(&["tools", "--json"]);
    let of = |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!((&of("bash")["hooks"], &of("read")["hooks"]), (&json!(["guard"]), &json!([])));
    let program = fs::read_to_string(home.work().join("program.toml")).unwrap();
    home.write("program.toml", &program.replace("hook.wasm", "none.wasm"));
    let doctor = home.haft(&["doctor"]).stdout;
    assert!(doctor.contains("is not available: the calls of 2 tools are refused"), "{doctor}");
    home.write("program.toml", "[sandbox]\nworkspace = \".\"\n");
    assert!(!home.haft(&["doctor"]).stdout.contains("hook "));
}

/// A hook sees the calls of an MCP client, also before the client lists the tools.
#[test]
fn a_client_s_calls_are_seen() {
    let stage = Stage::new(&format!("{}hooks = [\"guest__echo\", \"bash\"]\n", guard()));
    let mut peer = Peer::open(&stage);
    let refused = peer.call("guest__echo", json!({"text": "hook-refuse"}));
    assert!(text(&refused).contains("the hook `guard` refuses the call"), "{refused}");
    assert_eq!(text(&peer.call("guest__echo", json!({"text": "hi"}))), "hi");
}

/// A hook sees a model's calls; the journal names the hook and does not contain the program's secrets.
#[test]
fn the_journal_names_the_hook() {
    let script =
        |messages: &[Value]| match messages.iter().filter(|message| message["role"] == "tool").count() {
            0 => Says::call("bash", json!({"command": "echo hunter2-hunter2 hook-refuse"})),
            _ => Says::text("done"),
        };
    let model = Model::start(script);
    let provider = format!(
        "[provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\napi_key = {{ env = \"HOOK_KEY\" }}\n",
        model.base_url()
    );
    let home = home("\"bash\"", &provider);
    let run = home.command(&["run", "do it"]).env("HOOK_KEY", "hunter2-hunter2").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let log = home.haft(&["log", "--json"]).stdout;
    assert!(log.contains("refused by hook `guard`") && !log.contains("hunter2"), "{log}");
}
