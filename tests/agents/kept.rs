//! The saved sessions of agents, and their locations.

use serde_json::Value;

use super::{Team, delegates, runs};

/// An agent's conversation is a session of its own, which `haft session list` shows only with `--agents`.
#[test]
fn the_conversation_of_an_agent_is_kept_apart() {
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen"), ["", "", ""]);
    team.run(&["look"]);
    let listed = |arguments: &[&str]| -> Vec<Value> {
        let answer = team.haft(&[&["session", "list", "--json"], arguments].concat());
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (own, all) = (listed(&[]), listed(&["--agents"]));
    assert_eq!((own.len(), all.len()), (1, 2));
    let agent = all.iter().find(|session| session["agent"] == "reviewer").unwrap();
    let call = team.journal().into_iter().find(|record| record["tool"] == "agent__reviewer").unwrap();
    assert_eq!(
        (&agent["parent"], &agent["state"], &agent["program"]),
        (&call["id"], &"done".into(), &"worker".into())
    );
    let id = agent["id"].as_str().unwrap();
    assert!(team.haft(&["session", "show", id]).stdout.contains("echo seen"));
    // A person cannot resume an agent's session.
    assert_ne!(team.haft(&["run", "--resume", id, "more"]).code, 0);
    assert_eq!(team.haft(&["run", "--resume", "last", "more"]).code, 0);
    assert_eq!(team.haft(&["session", "remove", id]).code, 0);
    assert_eq!(listed(&["--agents"]).len(), 1);
}

/// Without a journal an agent works, and haft saves neither sessions nor calls.
#[test]
fn without_a_journal_an_agent_works_and_nothing_is_kept() {
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen"), ["", "", ""]);
    let answer = team.haft(&["run", "--no-journal", "look"]);
    assert!(answer.stdout.starts_with("it says: found seen"), "{} {}", answer.stdout, answer.stderr);
    assert!(answer.stderr.contains("reviewer ✓ bash"), "{}", answer.stderr);
    let kept = team.kept();
    assert!(!kept.contains("sessions/") && !kept.contains("journal/"), "{kept}");
}

/// `haft call` calls an agent as any tool.
#[test]
fn an_agent_is_called_from_a_terminal() {
    let team = Team::new(delegates("agent__reviewer"), runs("echo seen"), ["", "", ""]);
    let answer = team.haft(&["call", "agent__reviewer", "{\"task\":\"look\"}"]);
    assert!(
        answer.code == 0 && answer.stdout.starts_with("found seen"),
        "{} {}",
        answer.stdout,
        answer.stderr
    );
    let refused = team.haft(&["call", "agent__reviewer", "{}"]);
    assert!(refused.code != 0 && refused.stderr.contains("task"), "{}", refused.stderr);
    assert!(team.haft(&["tools"]).stdout.contains("agent__reviewer"));
    assert!(team.haft(&["doctor"]).stdout.contains("agent reviewer"));
}
