//! The bounds of an agent: its caller's rights, its time limit, and its caller's user.

use std::io::Read;
use std::process::{Child, Stdio};

use serde_json::json;

use super::{COMMON, LEAD_KEY, Team, WORKER_KEY, delegates, ended, runs};
use crate::backends::host_context::{processes, unusual};
use crate::common::wait::until;
use crate::sessions::{Model, Says, answers};

/// An agent's own file cannot give it more rights to write than its caller has.
#[test]
fn an_agent_writes_only_where_its_caller_may() {
    let rwx = "[sandbox]\nmode = \"rwx\"\nworkspace = \"..\"\n";
    let command = "echo in > inside; (echo out > $HOME/outside) 2>&1; (echo '#' >> reviewer/program.toml) 2>&1; cat inside";
    let team = Team::new(delegates("agent__reviewer"), runs(command), ["", "", rwx]);
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains("\nin"), "{text}");
    assert_eq!(std::fs::read_to_string(team.home.work().join("inside")).unwrap(), "in\n");
    assert!(!team.home.work().join("../outside").exists(), "{text}");
    let journal = team.journal();
    let bash = journal.iter().find(|record| record["tool"] == "bash").unwrap();
    let write = bash["grant"]["write"].as_array().unwrap();
    assert!(!write.contains(&json!("/")) && !write.is_empty(), "{bash}");
    let check = team.haft(&["check"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert!(
        check.stderr.contains("agent `reviewer`: tools of this agent (`[sandbox]`) may not write `/`"),
        "{}",
        check.stderr
    );
    // Without a caller the agent's program has this right.
    let alone = team.haft(&[
        "call",
        "-p",
        "reviewer/program.toml",
        "bash",
        "--arg",
        "command=echo out > $HOME/outside",
    ]);
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    assert!(team.home.work().join("../outside").exists());
}

/// A caller cannot write the program file of its agent.
#[test]
fn the_file_of_an_agent_is_closed_to_its_caller() {
    let team = Team::new(delegates("agent__reviewer"), runs("true"), ["", "", ""]);
    let answer = team.haft(&["call", "bash", "--arg", "command=echo '#' >> reviewer/program.toml"]);
    assert_ne!(answer.code, 0, "{}", answer.stdout);
    let text = std::fs::read_to_string(team.home.work().join("reviewer/program.toml")).unwrap();
    assert!(!text.ends_with("#\n"));
}

/// An agent cannot reach a host that its caller cannot reach.
#[test]
fn an_agent_reaches_only_what_its_caller_reaches() {
    let worker = Model::start(|messages| match answers(messages).as_slice() {
        [] => Says::call("fetch_url", json!({ "url": "http://127.0.0.1:9/" })),
        [.., (_, _, answer)] => Says::text(answer.clone()),
    });
    let fetch = "[builtins]\nfetch = true\nfetch_allow = [\"http://127.0.0.1:9\"]\n";
    let team = Team::new(delegates("agent__reviewer"), worker, ["", "", fetch]);
    let events = team.run(&["look"]);
    let fetched = team.journal().into_iter().find(|record| record["tool"] == "fetch_url").unwrap();
    assert!(fetched["grant"]["hosts"].is_null(), "{fetched}");
    assert!(ended(&events)["text"].as_str().unwrap().contains("127.0.0.1:9"), "{events:?}");
    assert!(team.haft(&["check"]).stderr.contains("reach `http://127.0.0.1:9`"));
}

/// An agent and its caller both stop when the caller's budget is used up.
#[test]
fn an_agent_spends_what_its_caller_may_and_no_more() {
    // The lead's first turn and the agent's first turn have 15 tokens each.
    let team =
        Team::new(delegates("agent__reviewer"), runs("true"), ["[agent]\nmax_tokens_total = 25\n", "", ""]);
    let events = team.run(&["look"]);
    let end = ended(&events);
    assert_eq!((&end["end"], &end["agents"]["reviewer"]["turns"]), (&json!("budget"), &json!(1)), "{end}");
    let answer = events.iter().rfind(|event| event["event"] == "completed").unwrap();
    let text = answer["result"]["content"].as_str().unwrap();
    assert!(
        text.contains("after 1 turn: ") && text.contains("the budget of the calling run is used up"),
        "{text}"
    );
}

/// The caller's rules apply to the agent's calls.
#[test]
fn what_the_caller_s_rules_refuse_the_agent_does_not_do() {
    let deny = "[agent]\ndeny = [\"bash(touch *)\"]\n";
    let team = Team::new(
        delegates("agent__reviewer"),
        runs("touch here"),
        [deny, "", "[agent]\nallow = [\"bash\"]\n"],
    );
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains("the rule `bash(touch *)` in `deny`"), "{text}");
    assert!(!team.home.work().join("here").exists());
}

/// A path in a rule of the caller is relative to the caller's workspace, also for an agent with another workspace.
#[test]
fn a_path_in_a_rule_of_the_caller_means_the_same_file_to_the_agent() {
    let worker = || {
        Model::start(|messages| match answers(messages).as_slice() {
            [] => Says::call("write", json!({ "file_path": "plan.txt", "content": "mine" })),
            [.., (_, _, answer)] => Says::text(answer.clone()),
        })
    };
    let own = "[sandbox]\nworkspace = \".\"\n[agent]\nallow = [\"*\"]\n";
    for (denied, is_written) in [("plan.txt", true), ("reviewer/plan.txt", false), ("reviewer/*", false)] {
        let deny = format!("[agent]\ndeny = [\"write({denied})\"]\n");
        let team = Team::new(delegates("agent__reviewer"), worker(), [&deny, "", own]);
        let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
        assert_eq!(team.home.work().join("reviewer/plan.txt").exists(), is_written, "{denied}: {text}");
        assert_eq!(text.contains(&format!("the rule `write({denied})` in `deny`")), !is_written, "{text}");
    }
}

/// Approvals and `shell_deny` of the caller's program also apply to the agent's calls, even if the agent's own file
/// allows the calls.
#[test]
fn an_agent_asks_and_denies_where_its_caller_does() {
    let caller = format!("{COMMON}shell_confirm = true\nshell_deny = [\"touch there\"]\n");
    let own = "[agent]\nallow = [\"*\"]\n[[tools]]\nname = \"make\"\ndescription = \"Makes.\"\ncommand = \"touch there\"\n";
    let asked = "`shell_confirm = true` in `[builtins]` of the program that calls this agent";
    for (command, expected) in
        [("touch here", asked), ("touch there", "blocked by shell_deny pattern `touch there`")]
    {
        let team = Team::new(delegates("agent__reviewer"), runs(command), [&caller, "", own]);
        let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
        assert!(text.contains(expected), "{text}");
        assert!(!team.home.work().join("here").exists() && !team.home.work().join("there").exists());
    }
    let worker = Model::start(|messages| match answers(messages).as_slice() {
        [] => Says::call("program__worker__make", json!({})),
        [.., (_, _, answer)] => Says::text(answer.clone()),
    });
    let team = Team::new(delegates("agent__reviewer"), worker, [&caller, "", own]);
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains(asked) && !team.home.work().join("there").exists(), "{text}");
}

/// A rule `allow` of the caller does not replace an approval that the agent's own file requires.
#[test]
fn a_rule_of_the_caller_lifts_nothing_of_the_agent() {
    let allow = "[agent]\nallow = [\"bash(touch *)\", \"agent__*\"]\notherwise = \"ask\"\n";
    let confirm = format!("{COMMON}shell_confirm = true\n");
    let team = Team::new(delegates("agent__reviewer"), runs("touch here"), [allow, "", &confirm]);
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains("needs a person's approval") && text.contains("`shell_confirm = true`"), "{text}");
    assert!(!team.home.work().join("here").exists());
}

/// A tool that needs approval in a program also needs it in a part of the program.
#[test]
fn a_part_asks_where_its_program_does() {
    let part = format!(
        "{COMMON}shell_confirm = true\n[[agents]]\nname = \"part\"\ndescription = \"P.\"\n\
         system_prompt = \"You are a part.\"\ntools = [\"bash\"]\n"
    );
    let lead = Model::start(|messages| {
        let is_part = messages[0]["content"] == "You are a part.";
        match (is_part, answers(messages).as_slice()) {
            (true, []) => Says::call("bash", json!({ "command": "touch here" })),
            (false, []) => Says::call("agent__part", json!({ "task": "touch" })),
            (_, [.., (_, _, answer)]) => Says::text(answer.clone()),
        }
    });
    let team = Team::new(lead, runs("true"), [&part, "", ""]);
    let text = ended(&team.run(&["look"]))["text"].as_str().unwrap().to_owned();
    assert!(text.contains("needs a person's approval"), "{text}");
    assert!(!team.home.work().join("here").exists());
}

/// With a budget in dollars, an agent stops after one turn if the price of its model is unknown.
#[test]
fn an_agent_without_a_price_stops_where_its_caller_counts_dollars() {
    let team = Team::new(delegates("agent__reviewer"), runs("true"), ["[agent]\nmax_cost = 100\n", "", ""]);
    let file = team.home.work().join("reviewer/program.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    let unpriced: Vec<&str> = written.lines().filter(|line| !line.starts_with("prices.")).collect();
    std::fs::write(&file, unpriced.join("\n")).unwrap();
    let events = team.run(&["look"]);
    assert_eq!(ended(&events)["agents"]["reviewer"]["turns"], 1, "{events:?}");
    let answer = events.iter().rfind(|event| event["event"] == "completed").unwrap();
    let text = answer["result"]["content"].as_str().unwrap();
    let expected = "`max_cost` of the calling run cannot be enforced: the price of `scripted-1` is unknown";
    assert!(text.contains(expected), "{text}");
}

/// An interrupt stops the processes of an agent.
#[test]
fn a_cancel_stops_what_an_agent_runs() {
    let time = unusual();
    let team = Team::new(delegates("agent__reviewer"), runs(&format!("sleep {time}")), ["", "", ""]);
    let mut command = team.command(&["run", "--json", "look"]);
    let mut haft = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let sleep = format!("sleep {time}");
    until("the agent's command runs", || !processes(&sleep).is_empty());
    let pid = rustix::process::Pid::from_raw(haft.0.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    until("haft ends", || haft.0.try_wait().unwrap().is_some());
    until("nothing is left", || processes(&sleep).is_empty());
    let mut text = String::new();
    haft.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&end["end"], haft.0.wait().unwrap().code()), (&json!("cancelled"), Some(130)), "{text}");
    // The usage before the interrupt counts.
    assert_eq!(end["agents"]["reviewer"]["turns"], 1);
    let bash = team.journal().into_iter().find(|record| record["tool"] == "bash").unwrap();
    assert_eq!(bash["outcome"], "cancelled");
}

/// The time limit of an agent stops its processes, and the caller continues.
#[test]
fn an_agent_that_is_out_of_time_stops_and_says_how_far_it_came() {
    let time = unusual();
    // The limit includes the loading of the agent, which takes time on a busy machine.
    let limit = "timeout = \"15s\"";
    let team = Team::new(delegates("agent__reviewer"), runs(&format!("sleep {time}")), ["", limit, ""]);
    let events = team.run(&["look"]);
    let text = ended(&events)["text"].as_str().unwrap();
    assert!(text.contains("did not finish, after 1 turn: it was stopped after 15s"), "{text}");
    until("nothing is left", || processes(&format!("sleep {time}")).is_empty());
    let record = team.journal().into_iter().find(|record| record["tool"] == "agent__reviewer").unwrap();
    assert_eq!(record["outcome"], "timeout");
}

/// haft asks the caller's user for approval and names the agent.
#[test]
fn a_person_is_told_which_agent_asks() {
    let confirm = "[builtins]\nfetch = false\nshell_confirm = true\n";
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen"), ["", "", confirm]);
    let variables = [("LEAD_KEY", LEAD_KEY), ("WORKER_KEY", WORKER_KEY)];
    let call = ["call", "agent__reviewer", "{\"task\":\"look\"}"];
    let Some(screen) = team.home.at_a_terminal_with(&variables, &call, "y\n") else { return };
    assert!(screen.contains("reviewer: Run: echo seen [y/N]"), "{screen}");
    assert!(screen.contains("found seen"), "{screen}");
    // Without a person the call does not run.
    let text = team.haft(&call).stdout;
    assert!(text.contains("needs a person's approval"), "{text}");
}

/// A haft process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
