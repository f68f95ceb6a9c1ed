//! A pane shared with a user who watches it, types into it and returns to it.

use std::time::Duration;

use haft::backend::{BackendConfig, BackendError, CommandEnd};

use super::host_context::{Bed, Kind, container_tmux, local_tmux, processes, run, unusual, wake, with_panes};
use crate::common::wait::eventually;

/// MK08: concurrent calls run one after the other, each with its own output; a call that waits too long gets `Busy`.
#[tokio::test(flavor = "multi_thread")]
async fn calls_at_one_time_take_turns() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        let job = |word: &'static str| {
            let bed = &bed;
            async move { bed.run(&format!("for i in 1 2 3; do echo {word}; sleep 0.1; done")).await.output }
        };
        let (a, b, c) = tokio::join!(job("a"), job("b"), job("c"));
        assert_eq!(
            [a, b, c],
            [b"a\na\na\n".to_vec(), b"b\nb\nb\n".to_vec(), b"c\nc\nc\n".to_vec()],
            "{}",
            kind.name
        );
        let (time, mark) = (unusual(), "the long one begins");
        let long = format!("echo {mark}; sleep {time}; true");
        let impatient = async {
            eventually(mark, || bed.has_written(mark)).await;
            let impatient = bed.run_within("echo never", Duration::from_millis(300)).await;
            wake(&time).await;
            impatient
        };
        let (long, impatient) = tokio::join!(bed.run(&long), impatient);
        assert_eq!(long.how, CommandEnd::Exited(0));
        assert!(matches!(impatient, Err(BackendError::Busy(_))), "{impatient:?}");
        bed.backend.close().await;
    }
}

/// BE06: a later haft uses the session's pane again; another shell gets another pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_used_again() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        let panes = |bed: &Bed| bed.person(&["list-panes", "-s", "-t", bed.session(), "-F", "#{pane_id}"]);
        let first = panes(&bed);
        let again = haft::backend::connect(&kind.choice, &bed.host_context).await.unwrap();
        assert_eq!(panes(&bed), first, "{}", kind.name);
        again.close().await;
        // Another shell gets another pane.
        let choice = BackendConfig { shell: Some("sh".into()), ..kind.choice.clone() };
        let other = haft::backend::connect(&choice, &bed.host_context).await.unwrap();
        assert!(panes(&bed).lines().count() > first.lines().count(), "{}", kind.name);
        other.close().await;
        bed.backend.close().await;
    }
}

/// MK01: a user sees the command, its output and its exit code in the pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_watches_sees_the_command_and_its_output() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run("echo seen $((40 + 2)); echo trouble >&2; exit 3").await;
        for line in
            ["haft$ echo seen $((40 + 2)); echo trouble >&2; exit 3", "seen 42", "trouble", "(exit code: 3)"]
        {
            let what = format!("{}: {line:?} is seen", kind.name);
            eventually(&what, || bed.screen().lines().any(|shown| shown == line)).await;
        }
        bed.backend.close().await;
    }
}

/// MK01, MK07: a user types while the agent works. A half-typed line does not run with the agent's command. Input
/// during a command reaches the command alone. The user's own command delays the agent, and copy mode does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_types_while_the_agent_works() {
    let Some(kind) = local_tmux() else { return };
    let bed = Bed::new(&kind).await;
    bed.run("true").await;
    let person = Person::attach(&bed);
    eventually("the person sees the pane", || person.sees("haft$ true")).await;
    // A half-typed line.
    person.types("touch half-a-line");
    eventually("it stands there", || bed.screen().contains("touch half-a-line")).await;
    let done = bed.run("echo agent; ls").await;
    assert_eq!((done.output, done.how), (b"agent\n".to_vec(), CommandEnd::Exited(0)));
    // Input during a command.
    let work = async {
        eventually("the command is shown", || bed.screen().contains("ready for 42")).await;
        person.types("an answer");
        person.presses("Enter");
    };
    let (done, ()) =
        tokio::join!(bed.run("echo ready for $((40 + 2)) >&2; read answer; echo \"heard $answer\""), work);
    assert_eq!(done.output, b"heard an answer\n");
    // A command of the user.
    person.types("cat");
    person.presses("Enter");
    let runs = || bed.person(&["display-message", "-p", "-t", bed.session(), "#{pane_current_command}"]);
    eventually("`cat` runs", || runs().trim() == "cat").await;
    let refused = bed.run_within("echo typed", Duration::from_secs(20)).await;
    let Err(BackendError::Busy(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("`cat` runs in the pane"), "{why}");
    person.presses("C-c");
    eventually("`cat` has ended", || runs().trim() != "cat").await;
    // Copy mode.
    bed.person(&["copy-mode", "-t", bed.session()]);
    assert_eq!(bed.run("echo after all").await.output, b"after all\n");
    assert_eq!(bed.run("ls").await.output, b"", "half a line was run");
    bed.backend.close().await;
}

/// A user at a separate terminal, attached to the session.
struct Person {
    socket: String,
}

impl Person {
    fn attach(bed: &Bed) -> Self {
        let socket = format!("{}-person", bed.tmux_socket());
        let attach = format!("tmux -S '{}' attach -t {}", bed.tmux_socket(), bed.session());
        let words = [
            "tmux",
            "-u",
            "-f",
            "/dev/null",
            "-S",
            &socket,
            "new-session",
            "-d",
            "-x",
            "200",
            "-y",
            "50",
            "-s",
            "person",
            "env",
            "-u",
            "TMUX",
            "sh",
            "-c",
            &attach,
        ];
        run(&words.map(str::to_owned));
        Self { socket }
    }

    fn tmux(&self, words: &[&str]) -> String {
        let own = ["tmux", "-S", &self.socket].into_iter().chain(words.iter().copied());
        run(&own.map(str::to_owned).collect::<Vec<_>>())
    }

    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "person", "-l", "--", text]);
    }

    fn presses(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "person", key]);
    }

    fn sees(&self, text: &str) -> bool {
        self.tmux(&["capture-pane", "-p", "-t", "person"]).contains(text)
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// BE06, T01: a local pane is in the sandbox, for the agent's commands and for typed keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_pane_is_in_the_sandbox_whoever_types() {
    let Some(kind) = local_tmux() else { return };
    let bed = Bed::new(&kind).await;
    let elsewhere = crate::common::outside();
    let outside = elsewhere.path().join("new");
    let socket = bed.tmux_socket();
    let done = bed
        .run(&format!(
            "touch {} 2>/dev/null || echo refused; cat {socket} 2>/dev/null || echo hidden",
            outside.display()
        ))
        .await;
    assert_eq!(String::from_utf8_lossy(&done.output), "refused\nhidden\n");
    let line = format!("touch {}; echo done-$((1+1))", outside.display());
    bed.backend.send(None, &line, &[], true).await.unwrap();
    eventually("it was tried", || bed.screen().contains("done-2")).await;
    // A command in the pane cannot make tmux's server run commands outside.
    let done = bed
        .run(&format!("tmux -S {socket} run-shell 'touch {}' 2>/dev/null; echo $?", outside.display()))
        .await;
    assert_ne!(done.output, b"0\n");
    assert!(!outside.exists());
    bed.backend.close().await;
}

/// C11: a pane in a container has the PATH of a command without a pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_pane_in_a_container_has_its_path() {
    let Some(pane) = container_tmux() else { return };
    let plain = Kind {
        name: "the same, no pane",
        choice: BackendConfig { tmux: Some(false), ..pane.choice.clone() },
    };
    let mut paths = Vec::new();
    for kind in [plain, pane] {
        let bed = Bed::new(&kind).await;
        paths.push(bed.run("printf '%s\\n' \"$PATH\"").await.output);
        bed.backend.close().await;
    }
    assert!(paths[0] == paths[1] && paths[0].len() > 1, "{:?}", String::from_utf8_lossy(&paths.concat()));
}

/// haft with its own home; its pane ends with this.
struct OneCall(tempfile::TempDir);

impl OneCall {
    fn new() -> Option<Self> {
        local_tmux().map(|_| Self(tempfile::tempdir().unwrap()))
    }

    /// The output of `haft call` of `run_shell` in a pane, with these variables.
    fn run_shell(&self, variables: &[&str], arguments: &str) -> String {
        let (folder, home) = (self.0.path().to_str().unwrap(), format!("HOME={}", self.0.path().display()));
        let mut words = vec!["env", "-u", "XDG_STATE_HOME", "-C", folder, &home];
        words.extend(variables);
        words.extend(["sh", "-c", "exec \"$@\" 2>&1", "sh", env!("CARGO_BIN_EXE_haft")]);
        words.extend(["call", "--tmux", "run_shell", arguments]);
        run(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }
}

impl Drop for OneCall {
    fn drop(&mut self) {
        let socket = self.0.path().join(".local/state/haft/tmux");
        run(&["tmux", "-S", socket.to_str().unwrap(), "kill-server"].map(str::to_owned));
    }
}

/// BE06: a user without a login shell (`nologin`, as services have) gets a pane with a shell that haft finds.
#[test]
fn a_user_without_a_shell_has_a_pane() {
    let Some(haft) = OneCall::new() else { return };
    let answer = haft.run_shell(&["SHELL=/bin/false"], r#"{"command": "echo in-$((40+2))"}"#);
    assert!(answer.contains("in-42"), "{answer}");
}

/// C11: `haft call` stops a command at its time limit, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_leaves_nothing_in_its_pane() {
    let Some(haft) = OneCall::new() else { return };
    let time = unusual();
    let answer = haft.run_shell(&[], &format!(r#"{{"command": "sleep {time}", "wait": "1s"}}"#));
    let report = "after 1s; it was stopped, because this haft ends with the call: use a longer `wait`";
    assert!(answer.contains(report), "{answer}");
    eventually("it is stopped", || processes(&format!("sleep {time}")).is_empty()).await;
    // A command with `wait: false` outlives haft, like a typed one.
    let time = unusual();
    let left = haft.run_shell(&[], &format!(r#"{{"command": "sleep {time}", "wait": false}}"#));
    assert!(left.contains("command dispatched to tmux pane"), "{left}");
    eventually("it runs on", || !processes(&format!("sleep {time}")).is_empty()).await;
}
