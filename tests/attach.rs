//! Files that a user attaches to a prompt: from the command line to the request, the session and the display.

use std::fs;

use serde_json::{Value, json};

use crate::agent::fake::{Fake, says};
use crate::cli::{Answer, Home};

/// A PNG image of one pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 10, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0, 1, 0,
    0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A home whose program uses `fake` as its provider, with files to attach.
fn home(fake: &Fake, provider: &str) -> Home {
    let home = Home::new();
    let program = format!(
        "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n[provider]\nname = \"{provider}\"\n\
         model = \"m\"\nbase_url = \"{}\"\nstream = false\n",
        fake.base_url()
    );
    home.write("program.toml", &program);
    fs::write(home.work().join("dot.png"), PNG).unwrap();
    fs::write(home.work().join("page.pdf"), b"%PDF-1.4\n").unwrap();
    home.write("notes.txt", "Four thousand.\n");
    home.write("more.txt", "And more.\n");
    home
}

async fn haft(home: &Home, arguments: &[&str]) -> Answer {
    let mut command = home.command(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap().into()
}

async fn good(home: &Home, arguments: &[&str]) -> Answer {
    let answer = haft(home, arguments).await;
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    answer
}

/// The last message of the last request.
fn last(fake: &Fake) -> Value {
    let request = fake.requests().pop().unwrap();
    request["messages"].as_array().unwrap().last().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_reach_the_model_in_order_and_stay_in_the_session() {
    let fake = Fake::start([says("I see"), says("again"), says("both")]).await;
    let home = home(&fake, "openai");
    good(
        &home,
        &["run", "--attach", "notes.txt", "What is it?", "--attach", "dot.png", "--attach", "more.txt"],
    )
    .await;
    let first = last(&fake);
    assert_eq!(first["role"], "user");
    let text = first.to_string();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(at("What is it?") < at("Four thousand."));
    assert!(at("Four thousand.") < at("[dot.png: image/png") && at("[dot.png: image/png") < at("And more."));
    assert!(text.contains("data:image/png;base64,iVBORw0KGgo"), "{text}");
    // The next request of the session contains the attachments unchanged.
    good(&home, &["run", "--resume", "last", "And now?"]).await;
    let requests = fake.requests();
    assert_eq!(requests[1]["messages"][1], first);
    good(&home, &["run", "--resume", "last", "Compare", "--attach", "dot.png"]).await;
    assert!(last(&fake).to_string().contains("data:image/png;base64,iVBORw0KGgo"));
    fake.assert_done();
    let shown = good(&home, &["session", "show"]).await.stdout;
    let expected = format!(
        "What is it?\n\n[notes.txt: text/plain, 15 bytes]\n\n[dot.png: image/png, {} bytes]\n\n[more.txt: \
         text/plain, 10 bytes]",
        PNG.len()
    );
    assert!(shown.contains(&expected), "{shown}");
    let lines = good(&home, &["--json", "replay"]).await.stdout;
    let said: Value = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|line: &Value| line["kind"] == "said")
        .unwrap();
    assert_eq!(
        said["attachments"][2],
        json!({ "name": "more.txt", "media_type": "text/plain", "data": "QW5kIG1vcmUuCg==" })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_attached_is_refused_before_anything_is_asked() {
    let fake = Fake::start([]).await;
    let own = home(&fake, "openai");
    fs::write(own.work().join("x.zip"), b"PK\x03\x04").unwrap();
    for (file, code, expected) in [
        ("none.png", 5, "cannot attach `none.png`: No such file or directory"),
        (
            "x.zip",
            5,
            "hint: convert the file, or write its path into the prompt so that the model can read it with a \
             tool",
        ),
        ("-", 5, "standard input cannot be attached"),
    ] {
        let answer = haft(&own, &["run", "--attach", file, "What is it?"]).await;
        assert_eq!(answer.code, code, "{file}: {}", answer.stderr);
        assert!(answer.stderr.contains(expected), "{file}: {}", answer.stderr);
    }
    let without = haft(&own, &["run", "--resume", "last", "--attach", "dot.png"]).await;
    assert_eq!(without.code, 2, "{}", without.stderr);
    // A vendor whose API does not accept the file's type.
    let other = home(&fake, "ollama");
    let answer = haft(&other, &["run", "--attach", "page.pdf", "What is it?"]).await;
    let expected = "`page.pdf: application/pdf, 9 bytes` is not shown to `m`: the model's API does not \
        accept `application/pdf`";
    assert!(answer.code != 0 && answer.stderr.contains(expected), "{}", answer.stderr);
    assert!(
        answer.stderr.contains("hint: choose another provider, or convert the file"),
        "{}",
        answer.stderr
    );
    assert_eq!(good(&other, &["session", "list"]).await.stdout, "");
    fake.assert_done();
}
