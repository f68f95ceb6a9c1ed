//! `capture-pane` and `send-keys` on panes of every kind.

use serde_json::{Value, json};

use super::host_context::{Bed, all, local_tmux, unusual, with_panes};
use crate::common::wait::{eventually, eventually_some, within};

async fn capture(bed: &Bed, arguments: Value) -> String {
    bed.call("capture-pane", arguments).await.unwrap_or_else(|e| panic!("{}: {e}", bed.kind.name)).content
}

/// Waits until a command reports that it reads.
async fn ready(bed: &Bed, number: usize) {
    eventually("the command reads", || {
        bed.person(&["capture-pane", "-p", "-t", bed.session()]).contains(&format!("ready for {number}."))
    })
    .await;
}

/// TM01: a backend has a screen if it has a pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_there_where_a_pane_is() {
    for kind in all() {
        let bed = Bed::new(&kind).await;
        assert_eq!(bed.backend.has_pane(), kind.choice.tmux == Some(true), "{}", kind.name);
        bed.backend.close().await;
    }
}

/// TM02, TM05: each flag has tmux's effect; the answer says if the alternate screen is not active.
#[tokio::test(flavor = "multi_thread")]
async fn flags_show_what_tmux_shows() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run(r"seq 100; printf '\033[31mred\033[0m   \nlong '; head -c 300 /dev/zero | tr '\0' x; echo")
            .await;
        let screen = capture(&bed, json!({})).await;
        assert!(
            screen.contains("red") && !screen.contains('\x1b') && !screen.lines().any(|line| line == "20")
        );
        let x = "x".repeat(300);
        assert!(screen.contains(&x), "{}: wrapped lines are joined", kind.name);
        assert!(!capture(&bed, json!({ "join_wrapped_lines": false })).await.contains(&x));
        assert!(
            capture(&bed, json!({ "start": "-" })).await.lines().any(|line| line == "20"),
            "{}",
            kind.name
        );
        assert!(capture(&bed, json!({ "include_escape_sequences": true })).await.contains("\x1b[31mred"));
        assert!(
            capture(&bed, json!({ "preserve_trailing_spaces": true, "join_wrapped_lines": false }))
                .await
                .contains("red   ")
        );
        let octal =
            capture(&bed, json!({ "include_escape_sequences": true, "escape_non_printable": true })).await;
        assert!(octal.contains(r"\033[31mred"), "{octal}");
        assert_eq!(capture(&bed, json!({ "start": 0, "end": 0 })).await.lines().count(), 1);
        let other = capture(&bed, json!({ "include_alternate_screen": true })).await;
        assert!(
            other.ends_with("[notice] alternate screen was not active; captured main pane instead."),
            "{other}"
        );
        let pane = bed.person(&["list-panes", "-t", bed.session(), "-F", "#{pane_id}"]);
        assert!(capture(&bed, json!({ "target": pane.trim() })).await.contains("red"));
        let odd = bed.call("capture-pane", json!({ "start": "x" })).await.unwrap_err().to_string();
        assert!(odd.contains("expected a line number or `-`"), "{odd}");
        bed.backend.close().await;
    }
}

/// TM03, TM04: a delay has two forms, not both at once; of a long screen the answer has the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_has_two_forms_and_the_end_is_kept() {
    let Some(kind) = local_tmux() else { return };
    let bed = Bed::new(&kind).await;
    bed.run("seq 10000 13000").await;
    for arguments in [json!({ "delay": "600ms", "start": "-" }), json!({ "delay_ms": 600, "start": "-" })] {
        let screen = capture(&bed, arguments).await;
        assert!(screen.starts_with("[truncated ") && screen.contains("chars from start]\n"), "{screen}");
        assert!(screen.chars().count() == 8000 && screen.contains("\n13000\n"));
    }
    let both =
        bed.call("capture-pane", json!({ "delay": "1s", "delay_ms": 1 })).await.unwrap_err().to_string();
    assert!(both.contains("provide either `delay` or `delay_ms`, not both"), "{both}");
    bed.backend.close().await;
}

/// TM06: `send-keys` types the text literally, then keys, then Enter; tmux interprets no part of the text.
#[tokio::test(flavor = "multi_thread")]
async fn text_is_typed_as_it_is() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        let texts =
            ["-x", "a;", r"a\;", ";", "  spaces  ", "$HOME `id` 'q' \"d\"", "Enter", "жö", "#{pane_id}"];
        for (number, text) in texts.into_iter().enumerate() {
            let command =
                format!("echo ready for $(({number} + 0)). >&2; IFS= read -r x; printf '<%s>' \"$x\"");
            let work = async {
                ready(&bed, number).await;
                bed.call("send-keys", json!({ "literal_text": text, "enter": true })).await.unwrap()
            };
            let (done, sent) = tokio::join!(bed.run(&command), work);
            assert_eq!(String::from_utf8_lossy(&done.output), format!("<{text}>"), "{}", kind.name);
            assert!(sent.content.starts_with("sent keys to tmux pane %"), "{}", sent.content);
        }
        // A line break in the text is Enter; keys follow the text.
        let work = async {
            ready(&bed, 99).await;
            bed.call(
                "send-keys",
                json!({ "literal_text": "one\ntwX", "keys": ["BSpace", "o"], "enter": true }),
            )
            .await
            .unwrap()
        };
        let (done, _) =
            tokio::join!(bed.run("echo ready for $((90 + 9)). >&2; read a; read b; echo \"$a-$b\""), work);
        assert_eq!(String::from_utf8_lossy(&done.output), "one-two\n", "{}", kind.name);
        for (arguments, why) in [
            (json!({}), "requires at least one of: keys, literal_text, or enter=true"),
            (json!({ "keys": ["Retrun"] }), "tmux does not know the key `Retrun`"),
            (
                json!({ "enter": true, "target": "%4711" }),
                "`target` is not one of haft's panes; remove it, or write `",
            ),
        ] {
            let refused = bed.call("send-keys", arguments).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        bed.backend.close().await;
    }
}

/// TM06: tools refuse a user's own pane, also in haft's session.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_s_own_pane_is_not_typed_into() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        bed.run("true").await;
        let own = bed.person(&["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", bed.session()]);
        for tool in ["send-keys", "capture-pane"] {
            let mut arguments = json!({ "target": own.trim() });
            if tool == "send-keys" {
                arguments["enter"] = true.into();
            }
            let refused = bed.call(tool, arguments).await.unwrap_err().to_string();
            assert!(
                refused.contains("`target` is not one of haft's panes; remove it, or write `"),
                "{}: {refused}",
                kind.name
            );
        }
        bed.backend.close().await;
    }
}

/// RS05, TM07, TM08: a command that nobody waits for runs in its pane, can be inspected, blocks other commands, and
/// can be interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_left_in_its_pane_looked_at_and_interrupted() {
    for kind in with_panes() {
        let bed = Bed::new(&kind).await;
        let time = unusual();
        let command = format!("echo building; echo half; sleep {time}; echo never");
        let call = bed.call("run_shell", json!({ "command": command, "wait": false }));
        let sent = within("it is not waited for", call).await.unwrap();
        assert!(sent.content.starts_with("command dispatched to tmux pane %"), "{}", sent.content);
        let is_half = async || {
            capture(&bed, json!({ "delay": "100ms" })).await.contains("building\nhalf").then_some(())
        };
        eventually_some("half of it is seen", is_half).await;
        let busy = bed.call("run_shell", json!({ "command": "echo x" })).await.unwrap_err().to_string();
        assert!(busy.contains("runs in the pane of session"), "{busy}");
        bed.call("send-keys", json!({ "keys": ["C-c"] })).await.unwrap();
        let sleeping = format!("sleep {time}");
        eventually("it was interrupted", || super::host_context::processes(&sleeping).is_empty()).await;
        let after = bed.call("run_shell", json!({ "command": "echo free" })).await.unwrap();
        assert_eq!(after.content, "exit code: 0\nstdout:\nfree\nstderr:\n", "{}", kind.name);
        assert!(!capture(&bed, json!({})).await.contains("\nnever"));
        bed.backend.close().await;
    }
}
