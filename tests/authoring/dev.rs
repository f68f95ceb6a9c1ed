//! `haft plugin dev` without a terminal: builds, answers lines, rebuilds, keeps the last good component, ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::cli::Home;
use crate::common::wait::{ended, until};
use crate::common::{HANG, repository};
use crate::tiny::{ANYTHING, Tiny};

/// A running session, and its lines on both streams.
struct Session {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    received: Vec<String>,
}

impl Session {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["plugin", "dev"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self { child, input, lines, received: Vec::new() }
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Waits for a line that contains `what`.
    fn expect(&mut self, what: &str) {
        while let Ok(line) = self.lines.recv_timeout(HANG) {
            let is_it = line.contains(what);
            self.received.push(line);
            if is_it {
                return;
            }
        }
        panic!("never said: {what}\n{}", self.received.join("\n"));
    }

    /// Sends an interrupt and returns the exit code.
    fn leave(mut self) -> Option<i32> {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        ended(&mut self.child).code()
    }
}

fn program(home: &Home, component: &str, more: &str) {
    home.write("program.toml", &format!(
        "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"\n\
         [build]\ncommand = [\"cp\", \"{component}\", \"p.wasm\"]\n{more}"
    ));
}

#[test]
fn dev_builds_calls_and_builds_again() {
    let home = Home::new();
    let built = |name: &str| repository().join("plugins/built").join(name).display().to_string();
    fs::copy(built("hello.wasm"), home.work().join("source")).unwrap();
    program(&home, "source", "");
    let mut session = Session::start(&home);
    session.expect("built `p.wasm`");
    session.expect("next: type a call, such as `hello name=…`");
    session.type_line("hello name='you there'");
    session.expect("hello you there");
    session.type_line("hello {\"name\": 7}");
    session.expect("invalid arguments");
    session.type_line("nothing");
    session.expect("Unknown tool: nothing");
    // The source is no longer a component.
    fs::write(home.work().join("source"), "no component").unwrap();
    session.expect("changed: source");
    session.expect("error: not a component: it is not WebAssembly");
    session.expect("; calls still run the last good build");
    session.type_line("p__hello {\"name\": \"again\"}");
    session.expect("hello again");
    // With the earlier source haft repeats the last call and runs the project's tests.
    fs::create_dir(home.work().join("tests")).unwrap();
    let test = "[[test]]\nname = \"greets\"\ntool = \"hello\"\narguments = { name = \"you\" }\nanswer = \"hello me\"\n";
    home.write("tests/hello.toml", test);
    fs::copy(built("hello.wasm"), home.work().join("source")).unwrap();
    session.expect("FAIL  tests/hello.toml: greets");
    session.expect("tests: 0 passed, 1 failed");
    session.expect("again: p__hello");
    session.expect("hello again");
    fs::remove_file(home.work().join("tests/hello.toml")).unwrap();
    fs::copy(built("wordcount.wasm"), home.work().join("source")).unwrap();
    session.expect("next: type a call, such as `count path=…`");
    // An error in program.toml is reported as any other error.
    program(&home, "source", "colour = 1\n");
    session.expect("unknown key `colour`");
    program(&home, "source", "");
    session.expect("next: type a call, such as `count path=…`");
    assert_eq!(session.leave(), Some(0));
}

/// An interrupt during a build ends the build with all its processes.
#[test]
fn dev_is_left_in_the_middle_of_a_build() {
    let home = Home::new();
    // The duration is unique, because other tests and other runs appear in the list of processes.
    let sleep = format!("sleep 4712.{}", std::process::id());
    let plugin =
        "[program]\nname = \"p\"\nversion = \"1.0.0\"\n[[plugins]]\nname = \"p\"\ncomponent = \"p.wasm\"\n";
    let build = format!("[build]\ncommand = [\"sh\", \"-c\", \"echo begun; {sleep}\"]\n");
    home.write("program.toml", &format!("{plugin}{build}"));
    let mut session = Session::start(&home);
    session.expect("begun");
    assert_eq!(session.leave(), Some(0));
    let processes = std::process::Command::new("ps").args(["-eo", "args"]).output();
    if let Ok(processes) = processes {
        assert!(!String::from_utf8_lossy(&processes.stdout).lines().any(|line| line == sleep));
    }
}

/// A log of haft's own output in the project's folder does not count as a change.
#[test]
fn dev_is_not_woken_by_its_own_words() {
    let home = Home::new();
    fs::copy(repository().join("plugins/built/hello.wasm"), home.work().join("source")).unwrap();
    program(&home, "source", "");
    let log = home.work().join("dev.log");
    let file = fs::File::create(&log).unwrap();
    let mut command = home.command(&["plugin", "dev"]);
    let streams = (file.try_clone().unwrap(), file);
    let mut child = command.stdin(Stdio::piped()).stdout(streams.0).stderr(streams.1).spawn().unwrap();
    let built = |times: usize| {
        let said = || fs::read_to_string(&log).unwrap().matches("next: type a call").count();
        until("next: save a change to build again", || said() >= times);
    };
    built(1);
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("source")).unwrap();
    built(2);
    // If the log counted as a change, this build's output would be a change before the next build.
    fs::copy(repository().join("plugins/built/hello.wasm"), home.work().join("source")).unwrap();
    built(3);
    let said = fs::read_to_string(&log).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said.matches("built `p.wasm`").count(), 3, "{said}");
    assert_eq!(said.matches("changed: source\n").count(), 2, "{said}");
    assert!(!said.contains("dev.log"), "{said}");
}

/// S03: `haft plugin dev` shows every text for a model, and then the differences.
#[test]
fn dev_shows_what_a_model_will_read() {
    let home = Home::new();
    let source = |paragraph: &str| {
        let tool = ("tiny".into(), format!("Does little.\n\n{paragraph}"), ANYTHING.into(), None);
        fs::write(home.work().join("source"), Tiny { tools: vec![tool], ..Tiny::default() }.bytes()).unwrap();
    };
    source("And more than that.");
    program(&home, "source", "");
    let mut session = Session::start(&home);
    session.expect("And more than that.");
    session.expect("next: type a call, such as `tiny");
    source("And nothing else.");
    session.expect("-And more than that.");
    session.expect("+And nothing else.");
    assert_eq!(session.leave(), Some(0));
}
