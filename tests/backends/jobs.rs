//! One table of jobs; each backend runs them, and the test compares the results byte by byte.

use haft::backend::CommandEnd;

use super::host_context::{Bed, all};

/// A command, its output on each stream, and its exit code.
type Job = (&'static str, Vec<u8>, Vec<u8>, i32);

fn lines(count: u32) -> Vec<u8> {
    (1..=count).map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn jobs() -> Vec<Job> {
    let text = |text: &str| text.as_bytes().to_vec();
    let none = Vec::new;
    vec![
        ("echo hello", text("hello\n"), none(), 0),
        // MK02: exit codes.
        ("exit 1", none(), none(), 1),
        ("exit 42", none(), none(), 42),
        ("no-such-command-4711 2>/dev/null", none(), none(), 127),
        ("kill -9 $$", none(), none(), 137),
        // MK02: both streams, exactly.
        (r"printf 'a\tb\r\n\n  c  '", text("a\tb\r\n\n  c  "), none(), 0),
        ("printf out; printf err >&2; exit 3", text("out"), text("err"), 3),
        (
            r"printf '\000\001\377\033[2J\033]0;x\007\n'",
            b"\0\x01\xff\x1b[2J\x1b]0;x\x07\n".to_vec(),
            none(),
            0,
        ),
        (r"printf '\377' >&2", none(), vec![0xff], 0),
        ("echo 'жö 🦀'", text("жö 🦀\n"), none(), 0),
        // MK03: several lines.
        ("echo one\necho two\n\necho three", text("one\ntwo\nthree\n"), none(), 0),
        ("cat <<'END'\n$x `y`\n\tz\nEND\necho done", text("$x `y`\n\tz\ndone\n"), none(), 0),
        ("echo a # a comment", text("a\n"), none(), 0),
        ("for i in 1 2 3; do\n  echo $i\ndone | cat", text("1\n2\n3\n"), none(), 0),
        // MK09: endings and beginnings that tmux or a shell could interpret.
        (r"find / -maxdepth 0 -exec echo {} \;", text("/\n"), none(), 0),
        ("echo a;", text("a\n"), none(), 0),
        ("-x-4711 2>/dev/null || echo dash", text("dash\n"), none(), 0),
        (r#"echo 'it'\''s' "$((6 * 7))" $(echo "a b")"#, text("it's 42 a b\n"), none(), 0),
        // MK05: more lines than a history holds.
        ("seq 5000", lines(5000), none(), 0),
        // MK04: output that resembles haft's end marker.
        (
            "echo '[haft 8: 0]'; printf '%032d 0\\n' 0 >&2; echo more",
            text("[haft 8: 0]\nmore\n"),
            { format!("{:032} 0\n", 0).into_bytes() },
            0,
        ),
        // A background process does not delay the end.
        ("sleep 300 & echo started", text("started\n"), none(), 0),
        // The state of one command does not affect the next.
        ("cd /; unset HOME; set -e; PS1=x; alias echo=false; pwd", text("/\n"), none(), 0),
        ("[ -t 0 ] || cat; echo end", text("end\n"), none(), 0),
    ]
}

/// BE01, MK01, MK02, MK03, MK05, MK09: each job has the same bytes and exit code on every backend.
#[tokio::test(flavor = "multi_thread")]
async fn every_backend_does_the_same_jobs() {
    let mut wrong = Vec::new();
    for kind in all() {
        let bed = Bed::new(&kind).await;
        let jobs = jobs();
        for (command, output, errors, code) in &jobs {
            let done = bed.run(command).await;
            if (&done.output, &done.errors, &done.how) != (output, errors, &CommandEnd::Exited(*code)) {
                wrong.push(format!("{}: `{command}`: {done:?}", kind.name));
            }
        }
        eprintln!("{:25} {:50} {} jobs", kind.name, bed.backend.summary(), jobs.len());
        bed.backend.close().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
