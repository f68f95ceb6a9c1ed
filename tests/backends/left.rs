//! No process remains after a time limit, a cancellation or the kill of haft.

use std::time::Duration;

use haft::backend::{CommandEnd, Place};

use super::host_context::{Bed, Kind, all, processes, unusual};
use crate::cli::Home;
use crate::common::wait::eventually;

/// A command that starts several processes; one of them has its own session.
fn many(time: &str) -> String {
    format!("(sleep {time} &) ; setsid sleep {time} & sleep {time} & echo begun; sleep {time}")
}

async fn begun(kind: &Kind, time: &str) {
    eventually(&format!("{}: everything has begun", kind.name), || {
        processes(&format!("sleep {time}")).len() >= 4
    })
    .await;
}

async fn gone(time: &str, what: &str) {
    eventually(what, || processes(&format!("sleep {time}")).is_empty()).await;
}

/// C11: on every backend haft stops a command's background processes at its end, and reports that.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_in_the_background_is_told() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let time = unusual();
        let done = bed.run(&format!("sleep {time} & echo begun")).await;
        let is_told =
            done.notices.iter().any(|notice| notice.contains("its background processes were stopped"));
        assert!(is_told, "{}: {done:?}", kind.name);
        gone(&time, &format!("{}: what was left is gone", kind.name)).await;
        let quiet = bed.run("sleep 0.01 & wait; echo done").await;
        assert!(quiet.notices.is_empty(), "{}: {quiet:?}", kind.name);
        bed.backend.close().await;
    }
}

/// BE05, RS03: at its time limit a command is stopped with all its processes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_a_time_out() {
    for kind in all().into_iter().filter(|kind| kind.choice.tmux != Some(true)) {
        let bed = Bed::new(&kind).await;
        let time = unusual();
        let done = bed.run_within(&many(&time), Duration::from_secs(2)).await.unwrap();
        assert!(matches!(done.how, CommandEnd::TimedOut(_)), "{}: {done:?}", kind.name);
        gone(&time, &format!("{}: nothing is left after a time-out", kind.name)).await;
        bed.backend.close().await;
    }
}

/// MK07: a cancelled command is stopped with all its processes, in a pane too.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_a_cancel() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        let time = unusual();
        let cancel = async {
            begun(&kind, &time).await;
            bed.cancel.cancel();
        };
        let command = many(&time);
        let (done, ()) = tokio::join!(bed.run(&command), cancel);
        assert_eq!(done.how, CommandEnd::Cancelled, "{}", kind.name);
        gone(&time, &format!("{}: nothing is left after a cancel", kind.name)).await;
        bed.backend.close().await;
    }
}

/// MK07: a command that stayed in its pane after its time limit ends with haft.
#[tokio::test(flavor = "multi_thread")]
async fn what_kept_its_pane_ends_with_haft() {
    for kind in all().into_iter().filter(|kind| kind.choice.tmux == Some(true)) {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        let time = unusual();
        let done = bed.run_within(&many(&time), Duration::from_secs(2)).await.unwrap();
        assert!(matches!(done.how, CommandEnd::Running(_)), "{}: {done:?}", kind.name);
        begun(&kind, &time).await;
        bed.backend.close().await;
        gone(&time, &format!("{}: nothing is left when haft has ended", kind.name)).await;
    }
}

/// haft's options for a backend.
fn options(kind: &Kind, home: &Home) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    match &kind.choice.place {
        Place::Local => home.write("program.toml", "[backend]\ntarget_tools = true\n"),
        Place::Container { name, .. } => options.extend(["--container".into(), name.clone()]),
        Place::Ssh { target, config } => {
            let config = config.as_ref().unwrap().display();
            home.write(
                "program.toml",
                &format!("[backend]\nssh = \"{target}\"\nssh_config = \"{config}\"\n"),
            );
        }
    }
    match &kind.choice.session {
        Some(session) => options.push(format!("--tmux={session}")),
        None if kind.choice.place == Place::Local => {}
        None => options.push("--no-tmux".into()),
    }
    options
}

/// BE04, MK07: after a kill of haft no process is left: not here, not in the container, not on the host.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_haft_is_killed() {
    for kind in all() {
        let home = Home::new();
        let time = unusual();
        let options = options(&kind, &home);
        let arguments = serde_json::json!({ "command": many(&time) }).to_string();
        let words: Vec<&str> =
            options.iter().map(String::as_str).chain(["call", "run_shell", arguments.as_str()]).collect();
        let mut child = home.command(&words).stdout(std::process::Stdio::null()).spawn().unwrap();
        begun(&kind, &time).await;
        child.kill().unwrap();
        child.wait().unwrap();
        gone(&time, &format!("{}: nothing is left when haft was killed", kind.name)).await;
        let state = home.state().display().to_string();
        kind.end_session(&home.state());
        eventually("no messenger is left", || !is_running(&state)).await;
    }
}

/// Whether a process has this text in its command line.
fn is_running(text: &str) -> bool {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_str() != Some(own.as_str())).any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}
