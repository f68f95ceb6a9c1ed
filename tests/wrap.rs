//! MCP servers of any client behind `haft wrap`: messages that pass, refused accesses, and the single question to the
//! user.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod fetched;
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::wait::{ended, until};

mod pins;

/// A server whose behaviour its first argument chooses.
const SERVER: &str = include_str!("wrap/server.py");

struct Stage {
    home: Home,
    listener: TcpListener,
}

/// A client with its server.
struct Session {
    haft: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The end of a session.
struct End {
    status: ExitStatus,
    errors: String,
    rest: Vec<u8>,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { home: Home::new(), listener: TcpListener::bind("127.0.0.1:0").unwrap() };
        for folder in [".ssh", "other", "notes"] {
            fs::create_dir(stage.place(folder)).unwrap();
        }
        for file in [".ssh/id_ed25519", "notes/list", "note"] {
            fs::write(stage.place(file), "of the person").unwrap();
        }
        stage.write_server(SERVER);
        stage
    }

    fn place(&self, name: &str) -> PathBuf {
        self.home.work().parent().unwrap().join(name)
    }

    fn write_server(&self, text: &str) {
        let elsewhere = self.place("").canonicalize().unwrap();
        let port = self.listener.local_addr().unwrap().port().to_string();
        let text = text.replace("@ELSEWHERE@", elsewhere.to_str().unwrap()).replace("@PORT@", &port);
        self.home.write("server.py", &text);
    }

    /// The command line that wraps a server with the behaviour `like`.
    fn words<'a>(&self, rights: &[&'a str], like: &'a str) -> Vec<&'a str> {
        let grants = rights.iter().flat_map(|right| ["--grant", right]);
        let words = ["wrap"].into_iter().chain(grants);
        words.chain([like, "--", "python3", "server.py", like]).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.home.command(words);
        command.env_remove("OPENAI_API_KEY");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a session of a server with the behaviour `like`.
    fn start(&self, rights: &[&str], like: &str) -> Session {
        Session::new(&mut self.command(&self.words(rights, like)))
    }

    /// The records of consent.
    fn records(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place(".config/haft/wrap")).into_iter().flatten().flatten();
        entries.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect()
    }
}

impl Session {
    fn new(command: &mut Command) -> Self {
        let mut haft = command.spawn().unwrap();
        let (input, output) = (haft.stdin.take(), BufReader::new(haft.stdout.take().unwrap()));
        Self { haft, input, output }
    }

    fn send(&mut self, message: &Value) {
        self.input.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// Sends `initialize` with these capabilities and returns the answer.
    fn begin(&mut self, capabilities: &Value) -> Value {
        self.send(&initialize(capabilities));
        self.receive()
    }

    /// Answers the next question to the person with `result`, and returns the question's text.
    fn person(&mut self, result: &Value) -> String {
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        let question = self.receive();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        self.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
        question["params"]["message"].as_str().unwrap().to_owned()
    }

    /// Closes the input, and waits for the end.
    fn end(mut self) -> End {
        drop(self.input.take());
        let mut errors = self.haft.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).unwrap();
        End { status: ended(&mut self.haft), errors: errors.join().unwrap(), rest }
    }
}

fn initialize(capabilities: &Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let parameters =
        json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters })
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

/// Messages that haft does not know, and lines that are not messages.
fn lines() -> Vec<u8> {
    let mut lines = Vec::new();
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"method":"of/nobody","params":{"_meta":{"progressToken":"x","a/b":null}}}"#,
        r#"{ "jsonrpc" : "2.0", "method":"notifications/cancelled","params":{"requestId":7} }"#,
        r#"{"jsonrpc":"2.0","id":"haft-wrap","result":{}}"#,
        "not JSON \u{1b}",
        "",
    ] {
        lines.extend(line.as_bytes());
        lines.push(b'\n');
    }
    // Longer than any buffer of haft.
    lines.extend(format!("{{\"x\":\"{}\"}}\n", "\u{e9} ".repeat(3 << 20)).bytes());
    lines
}

/// haft passes all bytes unchanged, at the first start, which is a trial, and at the second.
#[test]
fn bytes_pass_unchanged_in_both_directions_at_any_length() {
    let stage = Stage::new();
    for start in ["first", "second"] {
        let mut session = stage.start(&[], "echoing");
        let begun = session.begin(&json!({}));
        assert_eq!(begun["result"]["serverInfo"]["name"], "echoing", "{start}: {begun}");
        // The server runs in the client's folder.
        assert_eq!(
            begun["result"]["found"]["folder"],
            stage.home.work().canonicalize().unwrap().to_str().unwrap()
        );
        let sent = lines();
        let (mut input, bytes) = (session.input.take().unwrap(), sent.clone());
        let writing = thread::spawn(move || input.write_all(&bytes).unwrap());
        let end = session.end();
        writing.join().unwrap();
        assert!(end.rest == sent, "{start}: {} bytes of {}", end.rest.len(), sent.len());
        assert_eq!(end.status.code(), Some(23), "{start}: {}", end.errors);
        assert!(end.errors.contains("read "), "{start}: {}", end.errors);
        assert_eq!(stage.records().len(), 1, "{start}: {}", end.errors);
    }
}

#[test]
fn a_signal_ends_haft_as_it_ended_the_server() {
    let stage = Stage::new();
    for _ in 0..2 {
        let mut session = stage.start(&[], "dying");
        session.begin(&json!({}));
        let end = session.end();
        assert_eq!(end.status.signal(), Some(9), "{:?}: {}", end.status, end.errors);
    }
}

#[test]
fn a_server_ends_with_its_client_and_with_haft() {
    let stage = Stage::new();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let mut session = stage.start(&[], "staying");
        session.begin(&json!({}));
        let haft = rustix::process::Pid::from_child(&session.haft);
        rustix::process::kill_process(haft, signal).unwrap();
        session.end();
    }
    let words = stage.words(&[], "staying").join(" ");
    let line = format!("'{}' {words}; :", env!("CARGO_BIN_EXE_haft"));
    let own = stage.command(&[]);
    let mut client = Command::new("sh");
    client.args(["-c", &line]).current_dir(stage.home.work());
    crate::common::same_environment(&own, &mut client);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut session = Session::new(&mut client);
    session.begin(&json!({}));
    session.haft.kill().unwrap();
    drop(session.input.take());
    let mut output = session.output;
    let reading = thread::spawn(move || output.read_to_end(&mut Vec::new()).unwrap());
    until("the server has ended", || reading.is_finished());
    session.haft.wait().unwrap();
}

#[test]
fn what_a_server_is_refused_is_told_on_a_line_each() {
    let stage = Stage::new();
    let mut session = stage.start(&[], "reaching");
    let found = session.begin(&json!({}))["result"]["found"].clone();
    for what in ["key", "file", "network"] {
        assert!(found[what].as_str().unwrap().starts_with("refused: "), "{found}");
    }
    let end = session.end();
    let told: Vec<&str> =
        end.errors.lines().filter(|line| line.starts_with("haft: reaching was refused")).collect();
    let elsewhere = stage.place("").canonicalize().unwrap();
    let elsewhere = elsewhere.display();
    let expected = [
        format!(
            "read `{elsewhere}/.ssh/id_ed25519`: it belongs to the credential store `ssh`; `haft wrap --grant credentials=ssh reaching` allows it"
        ),
        format!("write `{elsewhere}/other/new`: haft wrap --grant write={elsewhere}/other reaching"),
        format!(
            "connect to 127.0.0.1:{port}: haft wrap --grant service={port} reaching",
            port = stage.listener.local_addr().unwrap().port()
        ),
    ];
    for line in expected {
        let times =
            told.iter().filter(|told| told.ends_with(&line) || told.contains(&format!("{line},"))).count();
        assert_eq!(times, 1, "{line}: {}", end.errors);
    }
    // A missing file is not a refusal.
    assert!(!told.iter().any(|line| line.contains("/missing")), "{}", end.errors);
    assert!(!stage.place("other/new").exists() && stage.records().is_empty());
}

/// A server reaches the hosts and the ports of this machine that a person named, and no other; each refusal has the line
/// that allows it.
#[test]
fn a_server_reaches_the_hosts_and_services_that_a_person_named() {
    let stage = Stage::new();
    let [closed, also_closed] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let [open, closed, also_closed] = [&stage.listener, &closed, &also_closed].map(port);
    let [open_host, closed_host] = [open, closed].map(|port| format!("localhost:{port}"));
    for (right, shown) in [
        (format!("service={open}"), format!("service={open} (reaches port {open} of this machine)")),
        (format!("host={open_host}"), format!("host={open_host}")),
    ] {
        let words = ["wrap", "--grant", &right, "calling", "--", "python3", "server.py", "calling"];
        let absent = format!("absent.test:{also_closed}");
        let words = [&words[..], &[&open_host, &closed_host, &absent]].concat();
        let mut session = Session::new(&mut stage.command(&words));
        session.begin(&forms());
        let asked = session.person(&yes());
        assert!(asked.contains(&format!("\n  {shown}\n")) && !asked.contains("network"), "{asked}");
        let found = session.receive()["result"]["found"].clone();
        assert_eq!(found[&open_host], "connected", "{right}: {found}");
        assert!(found[&closed_host].as_str().unwrap().starts_with("refused"), "{right}: {found}");
        let errors = session.end().errors;
        let line = format!("haft wrap --grant service={closed} calling");
        assert!(errors.contains(&line), "{right}: {errors}");
        if right.starts_with("host") {
            assert!(errors.contains("haft wrap --grant host=absent.test calling"), "{errors}");
        }
        fs::remove_dir_all(stage.place(".config/haft/wrap")).unwrap();
    }
}

#[test]
fn what_the_start_needs_is_asked_for_once_by_elicitation() {
    let stage = Stage::new();
    let notes = stage.place("notes").canonicalize().unwrap();
    let mut session = stage.start(&[], "needing");
    session.begin(&forms());
    let asked = session.person(&yes());
    assert!(asked.contains(&format!("read={}", notes.display())) && !asked.contains("network"), "{asked}");
    let listed = session.receive();
    assert_eq!((&listed["id"], &listed["result"]["found"]["notes"]), (&json!(2), &json!("of the person")));
    assert_eq!(session.end().status.code(), Some(23));
    // From then on the server has the right, and haft does not ask.
    let mut session = stage.start(&[], "needing");
    assert_eq!(session.begin(&forms())["result"]["found"]["notes"], "of the person");
    assert_eq!(session.end().status.code(), Some(23));
    assert!(
        stage.records()[0].contains(&format!("read = [\"{}\"]", notes.display())),
        "{:?}",
        stage.records()
    );
}

/// haft sends a server's messages before consent only after its own question, so that no answer to the server counts
/// as consent.
#[test]
fn a_server_does_not_ask_in_the_place_of_haft() {
    let stage = Stage::new();
    let mut session = stage.start(&[], "forging");
    let begun = session.begin(&forms());
    assert!(begun["result"].is_object(), "{begun}");
    let asked = session.person(&json!({ "action": "decline" }));
    assert!(asked.contains("write="), "{asked}");
    for id in [json!("haft-wrap"), json!(1)] {
        let own = session.receive();
        assert_eq!((&own["id"], &own["params"]["message"]), (&id, &json!("Use dark mode?")));
    }
    session.end();
    assert!(!stage.records()[0].contains("write = "), "{:?}", stage.records());
}

#[test]
fn what_a_person_declines_is_not_given_and_not_asked_for_again() {
    let stage = Stage::new();
    let mut session = stage.start(&[], "needing");
    session.begin(&forms());
    session.person(&json!({ "action": "decline" }));
    let end = session.end();
    assert!(end.status.code() == Some(1) && end.errors.contains("cannot start"), "{}", end.errors);
    let mut session = stage.start(&[], "needing");
    session.send(&initialize(&forms()));
    let end = session.end();
    assert!(end.rest.is_empty() && end.status.code() == Some(1), "{}", end.errors);
    let ended = "the server ended with exit code 1 before it answered; this may not be a matter of rights";
    assert!(end.errors.contains(ended), "{}", end.errors);
    assert!(end.errors.contains("haft: needing was refused to read"), "{}", end.errors);
    // A dismissed question is not an answer.
    let stage = Stage::new();
    let mut session = stage.start(&[], "needing");
    session.begin(&forms());
    session.person(&json!({ "action": "cancel" }));
    session.end();
    assert!(stage.records().is_empty());
}

#[test]
fn a_changed_script_has_nothing_of_what_was_agreed_to() {
    let stage = Stage::new();
    let mut session = stage.start(&[], "needing");
    session.begin(&forms());
    session.person(&yes());
    session.receive();
    session.end();
    // Unchanged contents with another time stamp keep the consent.
    stage.write_server(SERVER);
    let mut session = stage.start(&[], "needing");
    assert_eq!(session.begin(&forms())["result"]["found"]["notes"], "of the person");
    session.end();
    stage.write_server(&format!("{SERVER}# changed\n"));
    let mut session = stage.start(&[], "needing");
    let begun = session.begin(&forms());
    assert!(begun["result"]["found"].is_null(), "{begun}");
    let asked = session.person(&yes());
    let script = stage.home.work().canonicalize().unwrap().join("server.py");
    let script = script.display();
    assert!(asked.contains(&format!("for other contents of `{script}`.")), "{asked}");
    assert_eq!(session.receive()["result"]["found"]["notes"], "of the person");
    session.end();
    stage.write_server(&format!("{SERVER}# changed again\n"));
    let mut session = stage.start(&[], "needing");
    let refused = session.begin(&json!({}))["error"]["message"].to_string();
    assert!(refused.contains(&format!(", because `{script}` changed since your consent")), "{refused}");
    session.end();
    let Some(shown) = stage.home.at_a_terminal(&["wrap", "needing"], "") else { return };
    assert!(shown.contains("changed since your consent: run `haft wrap needing -- "), "{shown}");
}

#[test]
fn rights_that_a_configuration_names_are_asked_for() {
    let stage = Stage::new();
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let mut session = stage.start(&["network"], "echoing");
        let refused = session.begin(&capabilities);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(
            refused["id"] == 1 && message.contains("`haft wrap --grant network echoing -- "),
            "{refused}"
        );
        let end = session.end();
        assert_eq!(end.status.code(), Some(7), "{}", end.errors);
        assert!(stage.records().is_empty());
    }
    let mut session = stage.start(&["network"], "reaching");
    let before = session.begin(&forms());
    assert!(before["result"]["found"]["network"].as_str().unwrap().starts_with("refused"), "{before}");
    assert!(session.person(&yes()).contains("\n  network\n"));
    assert_eq!(session.receive()["result"]["found"]["network"], "connected");
    session.end();
    // haft asks for additional rights.
    let more = format!("write={}", stage.place("notes").display());
    let mut session = stage.start(&["network", &more], "reaching");
    session.begin(&forms());
    let asked = session.person(&json!({ "action": "decline" }));
    assert!(asked.contains(&more) && !asked.contains("network"), "{asked}");
    session.end();
    // A client cannot grant rights by itself.
    let given = stage.home.haft(&["wrap", "--grant", &more, "reaching"]);
    assert!(
        given.code != 0 && given.stderr.contains("run this at a terminal to grant rights"),
        "{}",
        given.stderr
    );
    let wrong = stage.home.haft(&["wrap", "--grant", "hosts=pypi.org", "reaching"]).stderr;
    assert!(
        wrong.contains("expected `read=DIR`, `write=DIR`, `host=HOST`, `network`, `service=SERVICE`"),
        "{wrong}"
    );
    let wrong = stage.home.haft(&["wrap", "reaching", "python3", "x"]).stderr;
    assert!(wrong.contains("put `--` before the command"), "{wrong}");
}

#[test]
fn what_is_named_beside_the_script_is_asked_for() {
    let stage = Stage::new();
    let words = [stage.words(&[], "echoing"), vec!["../note", "../notes"]].concat();
    let mut session = Session::new(&mut stage.command(&words));
    session.begin(&forms());
    let asked = session.person(&json!({ "action": "decline" }));
    for named in ["note", "notes"] {
        let named = stage.place(named).canonicalize().unwrap();
        assert!(asked.contains(&format!("  read={}\n", named.display())), "{asked}");
    }
    session.end();
}

#[test]
fn a_variable_of_the_configuration_is_given_by_name() {
    let stage = Stage::new();
    let start = || {
        let mut command = stage.command(&stage.words(&[], "keeping"));
        Session::new(command.env("KEEPING_TOKEN", "value"))
    };
    let mut session = start();
    let before = session.begin(&forms())["result"]["found"]["environment"].to_string();
    assert!(!before.contains("KEEPING_TOKEN") && before.contains("HOME"), "{before}");
    assert!(session.person(&yes()).contains("env=KEEPING_TOKEN"));
    let after = session.receive()["result"]["found"]["environment"].to_string();
    assert!(after.contains("KEEPING_TOKEN") && !after.contains("HAFT_TRUST"), "{after}");
    session.end();
    let mut session = start();
    assert_eq!(session.begin(&json!({}))["result"]["found"]["environment"].to_string(), after);
    session.end();
}

#[test]
fn a_wrapped_server_sees_nothing_of_another() {
    let stage = Stage::new();
    let mut session = stage.start(&[], "keeping");
    let found = session.begin(&json!({}))["result"]["found"].clone();
    session.end();
    let kept = PathBuf::from(found["home"].as_str().unwrap()).join("kept");
    assert!(kept.starts_with(stage.place(".local/share/haft/processes").canonicalize().unwrap()), "{found}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "written");
    // This also applies to a server with a right to the person's whole home.
    let home = format!("write={}", stage.place("").canonicalize().unwrap().display());
    let mut session = stage.start(&[&home], "prying");
    session.begin(&forms());
    session.person(&yes());
    let found = session.receive()["result"]["found"].clone();
    assert_eq!(found["note"], "of the person", "{found}");
    // The records of consent are not readable.
    assert!(found["records"].as_str().unwrap().starts_with("refused"), "{found}");
    let homes = found["homes"].as_str().unwrap();
    // As root the server sees an empty directory there.
    assert!(homes.starts_with("refused") || homes.matches("'home'").count() == 1, "{found}");
    session.end();
}

#[test]
fn a_person_at_a_terminal_agrees_and_adds_rights() {
    let stage = Stage::new();
    let words = stage.words(&[], "needing");
    let Some(shown) = stage.home.at_a_terminal(&words, "n\n") else { return };
    assert!(shown.contains("read=") && shown.contains("noted in"), "{shown}");
    let words = stage.words(&["network"], "needing");
    let shown = stage.home.at_a_terminal(&words, "y\n").unwrap();
    assert!(shown.contains("  network"), "{shown}");
    let notes = format!("read={}", stage.place("notes").display());
    let added = stage.home.at_a_terminal(&["wrap", "--grant", &notes, "needing"], "y\n").unwrap();
    assert!(added.contains("; applies from the server's next start"), "{added}");
    let mut session = stage.start(&["network"], "needing");
    assert_eq!(session.begin(&json!({}))["result"]["found"]["notes"], "of the person");
    session.end();
}
