//! Failures of backends end within their bound and report the reason.

use std::time::Duration;

use haft::backend::{BackendError, CommandEnd};

use super::host_context::{Bed, Done, all, container_to_stop, run, ssh, ssh_tmux, with_panes};
use crate::common::HANG;
use crate::common::wait::{eventually, eventually_some, within};

/// A command that does not end by itself.
const ENDLESS: &str = "echo begun; sleep 7777";

/// MK04, MK06: no output or terminal control of a command counts as its end.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_shows_is_never_taken_for_its_end() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        for (command, expected, code) in [
            ("printf '\\033[2J\\033[H'; clear >/dev/null 2>&1; echo after", "after\n", 0),
            ("exit 7", "", 7),
            ("exec true", "", 0),
            ("set -e; false; echo never", "", 1),
            // The alternate screen, entered and not left.
            ("printf '\\033[?1049h'; echo on the other screen; exit 5", "on the other screen\n", 5),
            (
                "cat /proc/self/stat >/dev/null; for w in ended started end late stop; do echo $w; done",
                "ended\nstarted\nend\nlate\nstop\n",
                0,
            ),
        ] {
            let Done { how, output, .. } = bed.run(command).await;
            let text = String::from_utf8_lossy(&output).into_owned();
            assert_eq!(how, CommandEnd::Exited(code), "{}: `{command}`", kind.name);
            assert!(text.ends_with(expected), "{}: `{command}`: {text:?}", kind.name);
        }
        // The pane takes the next command, whatever it shows.
        assert_eq!(bed.run("echo next").await.output, b"next\n", "{}", kind.name);
        bed.backend.close().await;
    }
}

/// MK06: a full-screen program ends by itself or at its time limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_for_a_whole_screen_is_bounded() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let full = bed.run_within("top 2>/dev/null || vi /tmp/none </dev/null; cat", Duration::from_secs(2));
        let done = within("it ends", full).await.unwrap();
        assert!(
            matches!(done.how, CommandEnd::TimedOut(_) | CommandEnd::Running(_) | CommandEnd::Exited(_)),
            "{}: {:?}",
            kind.name,
            done.how
        );
        bed.backend.close().await;
    }
}

/// MK06, BE06: if a pane is killed during a command, the command ends as lost, and the next command gets a new pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_pane_ends_its_command_and_is_made_again() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        assert_eq!(bed.run("echo one").await.output, b"one\n");
        let work = async {
            eventually("it has begun", || bed.has_written("begun\n")).await;
            bed.person(&["kill-session", "-t", bed.session()]);
        };
        let (done, ()) = tokio::join!(bed.run(ENDLESS), work);
        let CommandEnd::Lost(why) = done.how else { panic!("{}: {done:?}", kind.name) };
        assert!(
            why.contains("was closed or its shell ended") && why.contains("the next command gets a new pane"),
            "{why}"
        );
        assert_eq!(done.output, b"begun\n", "{}", kind.name);
        let again = bed.run("echo two").await;
        assert_eq!(again.output, b"two\n", "{}", kind.name);
        bed.backend.close().await;
    }
}

/// BE06, MK06: after the user typed `exit` in the pane, the next command gets a new pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_pane_whose_shell_was_left_is_made_again() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        bed.person(&["send-keys", "-t", bed.session(), "exit", "Enter"]);
        eventually("the session is gone", || !bed.person(&["ls"]).contains(bed.session())).await;
        let done = bed.run("echo two").await;
        assert_eq!(done.output, b"two\n", "{}", kind.name);
        bed.backend.close().await;
    }
}

/// MK06: a stopped container ends its command, and errors say that the container is not running.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_container_ends_its_command_and_is_named() {
    let Some(kind) = container_to_stop() else { return };
    let bed = Bed::new(&kind).await;
    assert_eq!(bed.run("echo one").await.output, b"one\n");
    let haft::backend::Place::Container { name, .. } = &kind.choice.place else { panic!() };
    let words = |verb: &str, more: &[&str]| {
        ["podman", verb]
            .iter()
            .chain(more)
            .chain([&name.as_str()])
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let stop = async {
        eventually("it has begun", || bed.has_written("begun\n")).await;
        let words = words("stop", &["-t", "0"]);
        tokio::task::spawn_blocking(move || run(&words)).await.unwrap();
    };
    let (done, ()) = tokio::join!(bed.run(ENDLESS), stop);
    match &done.how {
        CommandEnd::Lost(why) => assert!(why.contains(name.as_str()) && why.contains("not running"), "{why}"),
        // The signal that stops the container may reach the command first.
        CommandEnd::Exited(code) => assert!(*code > 128, "{done:?}"),
        other => panic!("{other:?}"),
    }
    let next = bed.run_within("echo two", HANG).await.unwrap();
    let CommandEnd::Lost(why) = next.how else { panic!("{next:?}") };
    assert!(why.contains("is not running; `podman start"), "{why}");
    let refused = Bed::tried(&kind).await.err().unwrap().to_string();
    assert!(refused.contains("is not running; `podman start"), "{refused}");
    run(&words("start", &[]));
}

/// BE04, MK06: a lost connection ends its command with an error that names it; the next call connects again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_named_and_made_again() {
    for kind in [ssh(), ssh_tmux()].into_iter().flatten() {
        let bed = Bed::new(&kind).await;
        assert_eq!(bed.run("echo one").await.output, b"one\n");
        let drop = async {
            eventually("it has begun", || bed.has_written("begun\n")).await;
            // The parent of the process that serves this socket's commands.
            super::ssh::drop_connection(&bed.host_context.state);
        };
        let (done, ()) = tokio::join!(bed.run(ENDLESS), drop);
        let CommandEnd::Lost(why) = &done.how else { panic!("{}: {done:?}", kind.name) };
        assert!(why.contains("`box` was lost") && why.contains("connects again"), "{why}");
        let next = bed.run("echo two").await;
        assert_eq!(next.output, b"two\n", "{}", kind.name);
        bed.backend.close().await;
    }
}

/// RS03, MK07: at its time limit a command is stopped, or stays in its pane; haft types nothing into the pane then.
#[tokio::test(flavor = "multi_thread")]
async fn out_of_time_a_command_is_stopped_or_keeps_its_pane() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        // Without a terminal `read` ends at once.
        let call = bed.run_within("echo begun; read x; sleep 7777", Duration::from_secs(10));
        let done = within("its time is over", call).await.unwrap();
        assert_eq!(done.output, b"begun\n", "{}", kind.name);
        if !bed.backend.has_pane() {
            assert!(matches!(done.how, CommandEnd::TimedOut(_)), "{}: {:?}", kind.name, done.how);
            continue;
        }
        assert!(
            matches!(&done.how, CommandEnd::Running(pane) if pane.starts_with('%')),
            "{}: {:?}",
            kind.name,
            done.how
        );
        let refused = bed.run_within("echo typed into it", Duration::from_secs(5)).await;
        let Err(BackendError::Busy(why)) = refused else { panic!("{}: {refused:?}", kind.name) };
        assert!(why.contains("still runs in tmux pane %") && why.contains("`C-c`"), "{why}");
        assert!(!bed.screen().contains("typed into it"), "{}", kind.name);
        // After the interrupt that the message recommends, the pane is free.
        bed.backend.send(None, "", &["C-c".into()], false).await.unwrap();
        eventually_free(&bed).await;
        bed.backend.close().await;
    }
}

async fn eventually_free(bed: &Bed) {
    let free = async || match bed.run_within("echo free", HANG).await {
        Ok(done) => Some(done.output),
        Err(BackendError::Busy(_)) => None,
        Err(error) => panic!("{}: {error}", bed.kind.name),
    };
    assert_eq!(eventually_some("the pane is free", free).await, b"free\n", "{}", bed.kind.name);
}
