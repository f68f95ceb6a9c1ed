//! Tools cannot change files that decide the rights of tools: the tests try `bash`, the built-in tools and a guest,
//! on files that program.toml names and on links to them.

use std::fs;
use std::os::unix::fs::symlink;

use haft::backend::service::{Ending, Service, ServiceSpec, start};
use haft::grant::{Grant, Root};
use haft::manifest::ProcessLimits;
use rustix::io::{Errno, read};
use serde_json::json;

use crate::cli::Home;
use crate::common::hostile;
use crate::common::wait::until;
use crate::mcp::fake;
use crate::serve::peer::{Peer, text};
use crate::workspace::{Workspace, confiner};

const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n";

/// Tries to write `file` with every tool that can write, and returns the tools that succeeded.
fn writers(home: &Home, file: &str) -> Vec<&'static str> {
    let path = home.work().join(file);
    let before = fs::read(&path).unwrap();
    let command = format!("echo changed > {file}; rm -f {file}; mv -f other {file}");
    let arguments = [
        ("bash", json!({ "command": command })),
        ("write", json!({ "file_path": file, "content": "changed" })),
        ("x__write", json!({ "path": file, "text": "changed" })),
    ];
    let mut who = Vec::new();
    for (tool, arguments) in arguments {
        fs::write(home.work().join("other"), "changed").unwrap();
        home.haft(&["call", tool, &arguments.to_string()]);
        if fs::read(&path).unwrap_or_default() != before {
            who.push(tool);
            fs::write(&path, &before).unwrap();
        }
    }
    who
}

/// X8, X14: no tool can write the files of program.toml that decide rights.
#[test]
fn files_that_decide_rights_are_not_written() {
    let home = Home::new();
    let named = [
        (
            "jwks.json",
            "[[serve.callers]]\nname = \"ops\"\ntools = [\"*\"]\n[serve.callers.jwt]\nissuer = \"https://i.example\"\n\
             audience = \"x\"\njwks_file = \"jwks.json\"\n",
        ),
        ("ca.pem", "[nats]\nurls = [\"tls://127.0.0.1:4222\"]\nca = \"ca.pem\"\n"),
        ("t.sh", "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"./t.sh\"\n"),
        (
            "s.py",
            "[[mcp_servers]]\nname = \"s\"\nenabled = false\ncommand = \"python3\"\nargs = [\"./s.py\"]\n",
        ),
        ("answer.json", "[agent]\noutput = \"answer.json\"\n"),
    ];
    for (file, section) in named {
        let plugin = format!(
            "[[plugins]]\nname = \"x\"\ncomponent = {:?}\n[plugins.grant]\nwrite = [\".\"]\n",
            hostile().display().to_string()
        );
        fs::write(home.work().join(file), "{}\n").unwrap();
        home.write("program.toml", &format!("{HEAD}{section}{plugin}"));
        assert_eq!(writers(&home, file), [""; 0], "{file}");
        fs::write(home.work().join("free.txt"), "").unwrap();
    }
    assert_eq!(writers(&home, "free.txt"), ["bash", "write", "x__write"]);
}

/// X14: with a remote backend, a command of this machine cannot rewrite `ssh_config`: haft's own `ssh` would run its
/// `ProxyCommand` outside of the sandbox. X15: a command cannot read the key of a certificate.
#[test]
fn what_ssh_and_nats_are_told_is_closed_to_commands() {
    let home = Home::new();
    let run = |script: &str| {
        let tool = format!(
            "[[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"
        );
        let backend = "[backend]\nssh = \"box\"\nssh_config = \"ssh_config\"\ntmux = false\n";
        let nats = "[nats]\nurls = [\"tls://127.0.0.1:4222\"]\ncertificate = \"pem\"\nkey = \"client.key\"\n";
        home.write("program.toml", &format!("{HEAD}{tool}{backend}{nats}"));
        home.haft(&["call", "program__p__t", "{}"])
    };
    for file in ["ssh_config", "pem", "client.key"] {
        home.write(file, "the-bytes-of-it\n");
    }
    let wrote = run("echo changed | tee ssh_config pem client.key other; true");
    for file in ["ssh_config", "pem", "client.key"] {
        assert_eq!(
            fs::read_to_string(home.work().join(file)).unwrap(),
            "the-bytes-of-it\n",
            "{file}: {}",
            wrote.stderr
        );
    }
    assert_eq!(fs::read_to_string(home.work().join("other")).unwrap(), "changed\n");
    let read = run("cat client.key; cat pem");
    assert_eq!(read.stdout.matches("the-bytes-of-it").count(), 1, "{}{}", read.stdout, read.stderr);
}

/// X2: haft refuses a link to program.toml in a directory that tools can write, and says how to avoid the link; haft
/// accepts a link elsewhere.
#[test]
fn a_link_that_a_tool_could_replace_is_refused() {
    let home = Home::new();
    for folder in ["conf", "rel1", "rel1/work"] {
        fs::create_dir(home.work().join(folder)).unwrap();
    }
    home.write("conf/real.toml", HEAD);
    symlink("conf/real.toml", home.work().join("program.toml")).unwrap();
    home.write("rel1/program.toml", &HEAD.replace("\".\"", "\"..\""));
    symlink("rel1", home.work().join("current")).unwrap();
    let call = ["call", "bash", "{\"command\": \"echo ran\"}"];
    for (program, real) in [(None, "conf/real.toml"), (Some("current/program.toml"), "rel1/program.toml")] {
        let named = program.map_or(vec![], |program| vec!["-p", program]);
        let refused = home.haft(&[&named[..], &call[..]].concat());
        assert!(refused.code != 0 && refused.stdout.is_empty(), "{program:?}: {}", refused.stdout);
        for word in ["` in a directory that tools may write: a tool could replace", "hint: write `", real] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
    }
    home.write("conf/real.toml", &HEAD.replace("\".\"", "\"rel1/work\""));
    let ran = home.haft(&call);
    assert_eq!((ran.stdout.as_str(), ran.code), ("ran\n", 0), "{}", ran.stderr);
}

/// X2: the hint for an interpreter of a virtual environment does not name the interpreter without its packages.
#[test]
fn a_virtual_environment_that_a_tool_could_replace_is_to_be_outside() {
    let home = Home::new();
    let server = "[[mcp_servers]]\nname = \"s\"\ncommand = \".venv/bin/python\"\n";
    home.write("program.toml", &format!("{HEAD}{server}"));
    fs::create_dir_all(home.work().join(".venv/bin")).unwrap();
    symlink("/bin/sh", home.work().join(".venv/bin/python")).unwrap();
    let hint = || home.haft(&["tools"]).stderr;
    assert!(hint().contains("hint: write `/"), "{}", hint());
    home.write(".venv/pyvenv.cfg", "");
    let outside = "hint: create the virtual environment outside the directories that tools may write: `";
    assert!(hint().contains(outside) && !hint().contains("hint: write"), "{}", hint());
}

/// The part of the following tests' programs besides [`HEAD`].
const KEY: &str = "[provider]\nname = \"openai\"\nmodel = \"m\"\napi_key = { file = \"key.txt\" }\n";

fn serve(home: &Home) -> Peer {
    let mut command = home.command(&["serve"]);
    command.env_remove("OPENAI_API_KEY");
    let mut peer = Peer::of(command);
    peer.initialize("2025-11-25", &json!({}));
    peer.notify("notifications/initialized", json!({}));
    peer
}

/// Replaces a file by a rename, as editors and `haft add` do.
fn replace(home: &Home, file: &str, text: &str) {
    home.write("new", text);
    fs::rename(home.work().join("new"), home.work().join(file)).unwrap();
}

/// Begins a command that waits for the file `go`, and then does `more`.
fn begin(peer: &mut Peer, home: &Home, more: &str) -> i64 {
    for file in ["begun", "go"] {
        let _ = fs::remove_file(home.work().join(file));
    }
    let command = format!("touch begun; until test -e go; do sleep 0.05; done; {more}");
    let call = json!({ "name": "bash", "arguments": { "command": command } });
    let call = peer.ask("tools/call", call);
    until("the command runs", || home.work().join("begun").exists());
    call
}

/// X6: if a sealed file is replaced, haft ends the running command, and seals the new file for the next command.
#[test]
fn a_command_is_ended_when_a_sealed_file_is_replaced() {
    let home = Home::new();
    let program = format!("{HEAD}{KEY}");
    home.write("program.toml", &program);
    home.write("key.txt", "first-key-0123456789\n");
    let mut peer = serve(&home);
    let files = [
        ("program.toml", format!("{program}# saved\n")),
        ("key.txt", "second-key-9876543210\n".to_owned()),
        // The file did not exist before.
        ("program.lock", String::new()),
    ];
    for (file, new) in files {
        let more = format!("rev {file}; echo changed >> {file}");
        let call = begin(&mut peer, &home, &more);
        replace(&home, file, &new);
        let ended = peer.answer(call)["result"].take();
        assert_eq!(ended["isError"], true, "{ended}");
        let named = format!("{file}`, which is blocked for this process, was replaced");
        assert!(text(&ended).contains(&named), "{ended}");
        home.write("go", "");
        let next = peer.call("bash", json!({ "command": more }));
        assert_eq!(fs::read_to_string(home.work().join(file)).unwrap(), new, "{file}: {next}");
        assert!(!next.to_string().contains("0123456789-yek"), "{next}");
    }
}

/// X6: an edit of a sealed file in place, or work on other files, ends no command.
#[test]
fn what_leaves_the_sealed_files_where_they_are_ends_nothing() {
    let home = Home::new();
    let program = format!("{HEAD}{KEY}");
    home.write("program.toml", &program);
    home.write("key.txt", "first-key-0123456789\n");
    let mut peer = serve(&home);
    let call = begin(&mut peer, &home, "echo done");
    let slow = begin(&mut peer, &home, "echo done");
    for round in 0..50 {
        home.write("program.toml", &format!("{program}# {round}\n"));
        home.write("key.txt", &format!("key-0123456789-{round}\n"));
        replace(&home, "other.toml", "");
        fs::create_dir_all(home.work().join("folder/program.toml")).unwrap();
        fs::remove_dir_all(home.work().join("folder")).unwrap();
        peer.call("bash", json!({ "command": "touch a.tmp; mv a.tmp a; rm a" }));
    }
    home.write("go", "");
    for call in [call, slow] {
        let answer = peer.answer(call);
        assert_eq!(text(&answer["result"]), "done\n", "{answer}");
    }
}

/// X6: if a sealed file is replaced, haft also ends a running server with the reason. The next call starts a server
/// with the new file sealed.
#[test]
fn a_server_is_started_anew_when_a_sealed_file_is_replaced() {
    let home = Home::new();
    let like = json!({ "outside": home.work().join("program.toml") });
    let program = format!("{HEAD}{}", fake::toml("own", &like, ""));
    home.write("program.toml", &program);
    let mut peer = serve(&home);
    let refused = "outside: Read-only file system";
    assert!(text(&peer.call("mcp__own__env", json!({}))).contains(refused));
    let slow = peer.ask("tools/call", json!({ "name": "mcp__own__count", "arguments": {} }));
    until("the server is at it", || home.work().join("counted").exists());
    let new = format!("{program}# saved\n");
    replace(&home, "program.toml", &new);
    let ended = peer.answer(slow);
    assert!(
        ended.to_string().contains("program.toml`, which is blocked for this process, was replaced"),
        "{ended}"
    );
    let next = peer.call("mcp__own__env", json!({}));
    assert!(text(&next).contains(refused), "{next}");
    assert_eq!(fs::read_to_string(home.work().join("program.toml")).unwrap(), new);
    let methods = fake::methods(&home.work());
    assert!(methods.iter().filter(|method| *method == "initialize").count() >= 2, "{methods:?}");
}

/// X6: `end_outdated` returns after all processes have ended that are sealed against a replaced file, and ends no
/// other process.
#[tokio::test]
async fn whoever_asks_waits_until_nothing_outdated_lives() {
    let workspace = Workspace::unheard();
    let (file, confiner) = (workspace.path("program.toml"), confiner());
    fs::write(&file, "old").unwrap();
    let spec = ServiceSpec {
        program: "/bin/sleep".into(),
        arguments: vec!["1000".into()],
        environment: vec![],
        limits: ProcessLimits::default(),
    };
    let service = async |grant: &Grant| start(&confiner, &spec, grant, |_| {}).await.unwrap();
    let root = Root::resolve(&workspace.path(""), &file).unwrap();
    let (sealed, free) =
        (service(&workspace.grant.clone().with_fixed(root)).await, service(&workspace.grant).await);
    // The process waits for a command, or runs one already.
    let ends = |service: &Service| read(&service.output, &mut [0; 1]);
    confiner.end_outdated().await.unwrap();
    assert_eq!([&sealed, &free].map(ends), [Err(Errno::AGAIN); 2]);
    fs::write(workspace.path("new"), "new").unwrap();
    fs::rename(workspace.path("new"), &file).unwrap();
    confiner.end_outdated().await.unwrap();
    assert_eq!([&sealed, &free].map(ends), [Ok(0), Err(Errno::AGAIN)]);
    assert_eq!(sealed.life.ended().await, Ending::Replaced(file.canonicalize().unwrap()));
}
