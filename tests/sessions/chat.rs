//! `haft chat` at a terminal: the user types, reads, approves, denies, stops, leaves and returns.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Place;
use super::model::{Model, Says, answers, asked};
use super::terminal::Terminal;
use crate::common::wait::until;

/// Whether the test saw the first words before the last one was sent.
static SEEN: AtomicBool = AtomicBool::new(false);

/// A prompt that makes a tool sleep for a duration that no other process uses, because other tests may run
/// concurrently.
fn nap(test: u32) -> String {
    format!("nap 61.{test}{}", std::process::id())
}

/// Runs the command of the prompt, and reports a tool's answer.
fn script(messages: &[Value]) -> Says {
    if messages.last().is_some_and(|message| message["role"] == "tool") {
        let (_, _, answer) = answers(messages).pop().unwrap();
        return Says::text(format!("The tool said: **{}**.", answer.trim()));
    }
    let bash = |command: String| Says::call("bash", json!({ "command": command }));
    let asked = asked(messages);
    let last = asked.rsplit("\n\n").next().unwrap_or_default();
    if let Some(seconds) = last.strip_prefix("nap ") {
        return bash(format!("sleep {seconds}; echo slept"));
    }
    match last {
        "count" => Says {
            text: "# Counting\none two three four five six seven eight nine ten".into(),
            before_last: Some(|| until("the first words are seen", || SEEN.load(Ordering::Relaxed))),
            ..Says::default()
        },
        "first" => {
            let first = messages.iter().find(|message| message["role"] == "user").unwrap();
            Says::text(format!("You began with `{}`.", first["content"].as_str().unwrap()))
        }
        other => bash(format!("echo {other}-$((4700 + 11))")),
    }
}

/// Whether a process sleeps for the duration of [`nap`].
fn somebody_naps(nap: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let sleeps = format!("{}\0", nap.replacen("nap ", "sleep\0", 1));
    lines.into_iter().any(|line| String::from_utf8_lossy(&line) == sleeps)
}

/// RS06, RS09, PL20: a user streams, approves, denies, stops, allows, leaves and resumes a conversation.
#[test]
fn a_conversation_at_a_terminal() {
    let place = Place::new(Model::start(script), "shell_confirm = true\n");
    let Some(terminal) = Terminal::start(&place, "chat", &["chat"]) else { return };
    terminal.sees("with 4 tools", 1);
    streams(&terminal);
    approves_and_denies(&terminal);
    stops(&terminal);
    allows(&terminal);
    terminal.enter("/save said.md");
    terminal.sees("written to `said.md`", 1);
    assert!(place.read("said.md").contains("**bash** `echo yes-$((4700 + 11))`"));
    terminal.waits_for_input();
    terminal.key("C-d");
    terminal.sees("ended with 0", 1);
    let id = place.listed()[0]["id"].as_str().unwrap().to_owned();
    assert!(terminal.screen().contains(&format!("haft chat --resume {id}")));
    drop(terminal);
    let Some(terminal) = Terminal::start(&place, "back", &["chat", "--resume"]) else { return };
    comes_back(&terminal, &id);
    place.model.assert_content();
    assert_eq!(place.listed().len(), 1);
}

/// The terminal shows words as they arrive, as Markdown.
fn streams(terminal: &Terminal) {
    terminal.enter("count");
    let early = terminal.sees("one two", 1);
    assert!(!early.contains("nine ten"), "{early}");
    SEEN.store(true, Ordering::Relaxed);
    let screen = terminal.sees("nine ten", 1);
    assert!(screen.contains("\nCounting\n"), "the mark of a heading is not shown:\n{screen}");
    terminal.sees("input tokens", 1);
}

/// A question shows the exact call; the call runs after a yes and not after a no, and one line reports its result.
fn approves_and_denies(terminal: &Terminal) {
    terminal.enter("yes");
    let asked = terminal.sees("[y/N/always]", 1);
    assert!(asked.contains("  Run: echo yes-$((4700 + 11)) [y/N/always]"), "{asked}");
    assert!(!asked.contains("yes-4711"), "{asked}");
    terminal.enter("y");
    let screen = terminal.sees("The tool said: yes-4711.", 1);
    assert!(screen.contains("✓ bash echo yes-$((4700 + 11)) ("), "{screen}");
    terminal.sees("input tokens", 2);
    terminal.enter("no");
    terminal.sees("[y/N/always]", 2);
    terminal.enter("n");
    let screen = terminal.sees("Command execution denied by user.", 2);
    assert!(screen.contains("✗ bash") && !screen.contains("no-4711"), "{screen}");
    terminal.sees("input tokens", 3);
}

/// Ctrl-C stops a question and a running tool, and leaves no process.
fn stops(terminal: &Terminal) {
    terminal.enter("hm");
    terminal.sees("[y/N/always]", 3);
    terminal.key("C-c");
    terminal.sees("[cancelled]", 1);
    terminal.sees("input tokens", 4);
    let nap = nap(1);
    terminal.enter(&nap);
    terminal.sees("[y/N/always]", 4);
    terminal.enter("y");
    until("the tool never ran", || somebody_naps(&nap));
    terminal.key("C-c");
    terminal.sees("[cancelled]", 2);
    until("the tool goes on", || !somebody_naps(&nap));
    terminal.sees("input tokens", 5);
}

/// `always` applies to the session, and `/deny` withdraws it.
fn allows(terminal: &Terminal) {
    terminal.enter("again");
    terminal.sees("[y/N/always]", 5);
    terminal.enter("always");
    terminal.sees("to allow this call permanently, add \"", 1);
    terminal.sees("The tool said: again-4711.", 1);
    terminal.sees("input tokens", 6);
    terminal.enter("more");
    terminal.sees("The tool said: more-4711.", 1);
    terminal.sees("input tokens", 7);
    terminal.enter("/allow");
    terminal.sees("allowed in this session: bash", 1);
    terminal.enter("/deny bash");
    terminal.sees("`bash` needs approval again", 1);
    // C08: `/allow` and `/deny` refuse an unknown tool, and suggest the right name.
    terminal.enter("/allow bsah");
    terminal.sees("there is no tool `bsah`; did you mean `bash`?", 1);
    terminal.enter("/deny bsah");
    terminal.sees("there is no tool `bsah`; did you mean `bash`?", 2);
}

/// `/allow --save` shows a rule and writes it only after a yes; the rule applies at once and in later sessions.
#[test]
fn a_rule_is_kept_once_it_was_shown() {
    let place = Place::new(Model::start(script), "shell_confirm = true # mine\n");
    let Some(terminal) = Terminal::start(&place, "keep", &["chat"]) else { return };
    terminal.sees("with 4 tools", 1);
    let before = place.read("program.toml");
    terminal.enter("/allow --save bash(echo kept-$((4700 + 11)))");
    terminal.sees("  + allow = [\"bash(echo kept-$((4700 + 11)))\"]", 1);
    terminal.sees("write this? [y/N]", 1);
    terminal.enter("n");
    terminal.sees("nothing was written", 1);
    assert_eq!(place.read("program.toml"), before);
    terminal.enter("/allow --save bash(echo kept-$((4700 + 11)))");
    terminal.sees("write this? [y/N]", 2);
    terminal.enter("y");
    terminal.sees("` is now allowed", 1);
    let after = place.read("program.toml");
    assert!(after.contains("shell_confirm = true # mine\n"), "{after}");
    assert!(after.contains("allow = [\"bash(echo kept-$((4700 + 11)))\"]"), "{after}");
    terminal.enter("kept");
    terminal.sees("The tool said: kept-4711.", 1);
    terminal.enter("other");
    terminal.sees("[y/N/always]", 1);
    terminal.enter("n");
    terminal.sees("Command execution denied by user.", 1);
    terminal.enter("/quit");
    terminal.sees("ended with 0", 1);
    let Some(terminal) = Terminal::start(&place, "kept", &["chat"]) else { return };
    terminal.enter("kept");
    terminal.sees("The tool said: kept-4711.", 1);
}

/// A resumed session has all messages, and no approvals.
fn comes_back(terminal: &Terminal, id: &str) {
    terminal.sees(&format!("continuing session {id}"), 1);
    terminal.enter("first");
    terminal.sees("You began with count.", 1);
    terminal.sees("input tokens", 1);
    terminal.enter("later");
    terminal.sees("[y/N/always]", 1);
    terminal.enter("");
    terminal.sees("Command execution denied by user.", 1);
    terminal.sees("input tokens", 2);
    terminal.enter("/quit");
    terminal.sees("ended with 0", 1);
}

/// A user enters several lines, recalls the history and completes commands.
#[test]
fn a_line_is_edited_completed_and_found_again() {
    let echo = |messages: &[Value]| {
        Says::text(format!("You said {:?}.", asked(messages).rsplit("\n\n").next().unwrap()))
    };
    let place = Place::new(Model::start(echo), "");
    let Some(terminal) = Terminal::start(&place, "edit", &["chat"]) else { return };
    terminal.sees("with 4 tools", 1);
    terminal.enter("one\\");
    terminal.enter("two");
    terminal.sees("You said \"one\\ntwo\".", 1);
    // Keys before a prompt go to the terminal's own line editing.
    terminal.waits_for_input();
    terminal.enter("three");
    terminal.sees("You said \"three\".", 1);
    terminal.waits_for_input();
    terminal.key("Up");
    terminal.key("Up");
    terminal.enter("!");
    terminal.sees("You said \"one\\ntwo!\".", 1);
    terminal.enter("/to\t");
    terminal.sees("bash", 1);
    terminal.enter("/nonsense");
    terminal.sees("unknown command `/nonsense`", 1);
    // One prompt per line so far, and the current one.
    terminal.prompts(6);
    terminal.key("C-c");
    terminal.prompts(7);
    terminal.key("C-d");
    terminal.sees("ended with 0", 1);
    let history = fs::read_to_string(place.state().join("haft/history")).unwrap();
    assert!(history.contains("\"one\\ntwo\"\n"), "{history}");
}

/// PL20: a second Ctrl-C ends haft at once, and stops the tool.
#[test]
fn two_interrupts_leave() {
    let place = Place::new(Model::start(script), "");
    let nap = nap(2);
    // The tool ends only by SIGKILL.
    let Some(terminal) = Terminal::start(&place, "twice", &["run", &nap]) else { return };
    until("the tool never ran", || !place.files().is_empty() && somebody_naps(&nap));
    terminal.key("C-c");
    terminal.key("C-c");
    terminal.sees("ended with 130", 1);
    until("the tool goes on", || !somebody_naps(&nap));
    assert_eq!(place.listed()[0]["turns"], 1);
}

#[test]
fn a_pipe_is_not_talked_to() {
    let place = Place::new(Model::start(script), "");
    let answer = place.haft(&["chat"]);
    assert_eq!(answer.code, 5);
    assert!(
        answer.stderr.contains("needs a terminal") && answer.stderr.contains("hint: `haft run -`"),
        "{}",
        answer.stderr
    );
}

/// Edits a file, or counts; then ends.
fn changes(messages: &[Value]) -> Says {
    if messages.last().is_some_and(|message| message["role"] == "tool") {
        return Says::text("Done.");
    }
    match asked(messages) {
        text if text.ends_with("edit") => {
            let arguments =
                json!({ "file_path": "plan.md", "old_string": "Buy milk", "new_string": "Buy oat milk" });
            Says::call("edit", arguments)
        }
        _ => Says::call("bash", json!({ "command": "seq 1 30" })),
    }
}

/// U3: the approval of an edit shows its diff; the terminal shows the first lines of an answer, and all of it after
/// Ctrl-O, which keeps the typed text.
#[test]
fn changes_and_answers_are_there_to_read() {
    let place = Place::new(Model::start(changes), "[agent]\nask = [\"edit\"]\n");
    place.home.write("plan.md", "Buy milk\nmend the roof\n");
    let Some(terminal) = Terminal::start(&place, "changes", &["chat"]) else { return };
    terminal.prompts(1);
    terminal.enter("edit");
    let screen = terminal.sees("[y/N/always]", 1);
    for line in ["Call: edit plan.md", "@ -1,2 +1,2", "- Buy milk", "+ Buy oat milk", "  mend the roof"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    terminal.enter("y");
    terminal.sees("✓ edit plan.md +1 -1", 1);
    terminal.prompts(2);
    assert_eq!(place.read("plan.md"), "Buy oat milk\nmend the roof\n");
    terminal.enter("count");
    let screen = terminal.sees("… 26 more lines (Ctrl-O)", 1);
    assert!(
        screen.contains("✓ bash seq 1 30") && screen.contains("\n  4\n") && !screen.contains("\n  5\n"),
        "{screen}"
    );
    terminal.prompts(3);
    terminal.key("t");
    terminal.sees("\n> t", 1);
    terminal.key("C-o");
    let screen = terminal.sees("\n> t", 2);
    assert!(screen.contains("\n  29\n  30\n"), "{screen}");
}

/// U3: a run shows a readable line for each call and the first lines of its answer; with `-v` it shows the whole
/// answer.
#[test]
fn a_run_shows_what_tools_answer() {
    let place = Place::new(Model::start(changes), "");
    let run = place.haft(&["run", "count"]);
    assert!(run.stderr.contains("✓ bash seq 1 30 ("), "{}", run.stderr);
    assert!(run.stderr.contains("\n  4\n  … 26 more lines (-v)\n"), "{}", run.stderr);
    assert_eq!(run.stdout, "Done.\n");
    let run = place.haft(&["-v", "run", "count"]);
    assert!(run.stderr.contains("\n  29\n  30\n") && !run.stderr.contains("more lines"), "{}", run.stderr);
}
