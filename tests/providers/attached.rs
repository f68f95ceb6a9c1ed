//! A picture that a user attaches, in the format of every vendor; and a PDF, if the vendor accepts PDF.

use std::fs;

use super::routing::home;
use super::server::{Answer, Said, Server};
use super::{KEY, VENDORS};
use crate::attach::PNG;

/// The exit and standard error of `haft run` with `file` attached.
async fn run(server: &Server, file: &str) -> (bool, String) {
    run_with(server, &["run", "--attach", file, "What is it?"]).await
}

async fn run_with(server: &Server, arguments: &[&str]) -> (bool, String) {
    let home = home(server, "");
    fs::write(home.work().join("dot.png"), PNG).unwrap();
    fs::write(home.work().join("page.pdf"), b"%PDF-1.4\n").unwrap();
    let mut command = home.command(arguments);
    command.env("TEST_KEY", KEY);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn every_vendor_is_shown_what_a_person_attaches_or_not_asked() {
    let says = || Answer::Turn(Said { text: "a dot", ..Said::default() });
    let mut takes_pdf = Vec::new();
    for vendor in VENDORS {
        let server = Server::start(vendor, [says()]).await;
        let (is_good, stderr) = run(&server, "dot.png").await;
        assert!(is_good, "{}: {stderr}", vendor.name());
        let body = server.bodies().remove(0).to_string();
        assert!(body.contains("iVBORw0KGgo") && body.contains("What is it?"), "{}: {body}", vendor.name());
        server.assert_done();

        let server = Server::start(vendor, [says()]).await;
        let (is_good, stderr) = run(&server, "page.pdf").await;
        match server.bodies().first() {
            Some(body) => {
                assert!(is_good && body.to_string().contains("JVBERi0xLjQK"), "{}: {body}", vendor.name());
                takes_pdf.push(vendor.name());
            }
            None => {
                assert!(
                    !is_good && stderr.contains("the model's API does not accept `application/pdf`"),
                    "{stderr}"
                );
            }
        }
    }
    assert!(takes_pdf.contains(&"anthropic") && takes_pdf.contains(&"gemini"), "{takes_pdf:?}");
    assert!(!takes_pdf.contains(&"ollama"), "{takes_pdf:?}");
}

/// (A15): haft warns about an attachment that the model does not see, also with `-q`.
#[tokio::test]
async fn what_is_attached_and_not_shown_is_told_to_a_quiet_person_too() {
    let refusal = Answer::Status(400, vec![], "Could not process image");
    let says = Answer::Turn(Said { text: "a dot", ..Said::default() });
    let server = Server::start(VENDORS[0], [refusal, says]).await;
    let (is_good, stderr) = run_with(&server, &["run", "-q", "--attach", "dot.png", "What is it?"]).await;
    assert!(is_good && stderr.contains("warning: not shown to the model: dot.png"), "{stderr}");
    server.assert_done();
}
