//! `haft learn` proposes exactly the rights that a second run needs: real programs, in a small internet of two
//! network namespaces.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use haft::grant::Right;
use haft::manifest::Manifest;

use crate::cli::{Answer, Home};
use crate::common::same_environment;

const HEAD: &str = "[program]\nname = \"p\"\nversion = \"0.1.0\"\n";
const WORLD: &str = include_str!("learn/world.py");
const SERVER: &str = include_str!("learn/server.py");

/// A home, and its simulated internet.
struct Stand {
    home: Home,
}

impl Stand {
    /// `None` if the test cannot create network namespaces, or one of `programs` is missing.
    fn new(programs: &[&str]) -> Option<Self> {
        let missing = programs
            .iter()
            .chain(&["ip", "unshare", "python3"])
            .find(|name| haft::lookup::find_on_path(name).is_none());
        if let Some(missing) = missing {
            eprintln!("SKIPPED: there is no `{missing}`");
            return None;
        }
        let stand = Self { home: Home::new() };
        fs::create_dir(stand.place("world")).unwrap();
        fs::write(stand.place("world.py"), WORLD).unwrap();
        let tried = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--net",
                "--mount",
                "ip",
                "link",
                "add",
                "ours",
                "type",
                "veth",
            ])
            .output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            eprintln!("SKIPPED: this test may not make network namespaces");
            return None;
        }
        Some(stand)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.home.work().parent().unwrap().join(name)
    }

    /// Runs haft in the simulated internet.
    fn haft(&self, arguments: &[&str]) -> Answer {
        let own = self.home.command(&[]);
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--net", "--mount", "python3"])
            .arg(self.place("world.py"))
            .arg(self.place("world"));
        command.arg(env!("CARGO_BIN_EXE_haft")).args(arguments).current_dir(self.home.work());
        same_environment(&own, &mut command);
        Answer::from(command.output().unwrap())
    }

    fn program(&self) -> String {
        fs::read_to_string(self.home.work().join("program.toml")).unwrap()
    }

    fn manifest(&self) -> Manifest {
        Manifest::parse(&self.program(), &self.home.work().join("program.toml")).unwrap()
    }

    /// Runs a command as `bash` with the current grants of program.toml, and asserts that haft refuses nothing.
    fn passes(&self, line: &str) {
        let arguments = serde_json::json!({ "command": line }).to_string();
        let answer = self.haft(&["call", "bash", &arguments]);
        assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
        let log = self.home.haft(&["log", "--json", "-n", "1"]).stdout;
        assert!(!log.contains("refused"), "{log}");
    }
}

fn git(folder: &std::path::Path, line: &str) {
    let done = Command::new("sh").args(["-c", line]).current_dir(folder).status().unwrap();
    assert!(done.success(), "{line}");
}

#[test]
fn an_install_needs_the_hosts_that_it_was_connected_to() {
    let Some(stand) = Stand::new(&["npm"]) else { return };
    stand.home.write("program.toml", &format!("{HEAD}[sandbox]\nhosts = [\"other.test\"]\n"));
    stand.home.write("package.json", "{}");
    let line = ["npm", "install", "small", "--registry=http://registry.test/", "--fetch-retries=0"];
    let told = stand.haft(&[&["learn", "--"][..], &line].concat());
    assert!(told.code != 0 && told.stderr.contains("without consent"), "{}{}", told.stdout, told.stderr);
    assert!(stand.program().ends_with("[\"other.test\"]\n"), "{}", stand.program());
    let learnt = stand.haft(&[&["learn", "--yes", "--"][..], &line].concat());
    assert_eq!(learnt.code, 0, "{}{}", learnt.stdout, learnt.stderr);
    let reason = "    # connect to registry.test:80 (`npm install small ";
    assert!(learnt.stderr.contains(reason) && stand.program().contains(reason), "{}", learnt.stderr);
    let hosts: Vec<String> =
        stand.manifest().sandbox.single_hosts().iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["other.test", "registry.test:80", "files.test:80"], "{}", stand.program());
    assert!(stand.manifest().sandbox.write.is_empty(), "{}", stand.program());
    stand.passes("rm -r node_modules package-lock.json && npm install --prefer-online --registry=http://registry.test/ small && ls node_modules/small");
    let again = stand.haft(&[&["learn", "--yes", "--"][..], &line].concat());
    assert!(again.stderr.contains("needs no other right"), "{}", again.stderr);
}

#[test]
fn a_push_needs_its_host() {
    let Some(stand) = Stand::new(&["git"]) else { return };
    fs::create_dir(stand.place("world/repository.git")).unwrap();
    git(&stand.place("world/repository.git"), "git init -q --bare .");
    let work = stand.home.work();
    git(&work, "git init -q -b main && git config user.name a && git config user.email a@b.c");
    git(&work, "git commit -q --allow-empty -m a && git remote add origin http://git.test/repository.git");
    stand.home.write("program.toml", &format!("{HEAD}[sandbox]\nnetwork = false\n"));
    let learnt = stand.haft(&["learn", "--yes", "--", "git", "push", "origin", "main"]);
    assert_eq!(learnt.code, 0, "{}{}", learnt.stdout, learnt.stderr);
    let sandbox = stand.manifest().sandbox;
    let hosts: Vec<String> = sandbox.single_hosts().iter().map(ToString::to_string).collect();
    assert!(hosts == ["git.test:80"] && sandbox.write.is_empty(), "{}", stand.program());
    git(&work, "git commit -q --allow-empty -m b");
    stand.passes("git push origin main");
    let pushed = stand.place("world/repository.git/refs/heads/main");
    assert_eq!(fs::read(pushed).unwrap(), fs::read(work.join(".git/refs/heads/main")).unwrap());
}

/// `haft learn` proposes a directory for each failed write, with any exit code, and no other directory.
#[test]
fn what_a_command_failed_to_change_is_proposed() {
    let home = Home::new();
    let folder = home.work().parent().unwrap().canonicalize().unwrap();
    for name in ["out/one", "out/two", "out/three"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    home.write("program.toml", &format!("{HEAD}[sandbox]\nnetwork = false\n"));
    let script = "echo a > ../out/one/file; echo b > ../out/two/file; true";
    let printed = home.haft(&["learn", "--", "bash", "-c", script]);
    assert!(printed.code == 0 && printed.stderr.contains("nothing was written"), "{}", printed.stderr);
    assert!(home.haft(&["learn", "--yes", "--", "bash", "-c", script]).code == 0);
    let text = fs::read_to_string(home.work().join("program.toml")).unwrap();
    let manifest = Manifest::parse(&text, &home.work().join("program.toml")).unwrap();
    let written: Vec<PathBuf> = manifest.sandbox.write.iter().map(|path| path.value.clone()).collect();
    assert_eq!(written, [folder.join("out/one"), folder.join("out/two")], "{text}");
    assert!(
        home.haft(&["exec", "--", "bash", "-ec", "echo a > ../out/one/file; echo b > ../out/two/file"]).code
            == 0
    );
}

/// A server starts without a grant; `haft learn` proposes the directories and the host that its tool needs.
#[test]
fn a_server_gets_what_its_tool_needs() {
    let Some(stand) = Stand::new(&[]) else { return };
    for folder in ["notes/deep", "notes/written", "notes/other"] {
        fs::create_dir_all(stand.place(folder)).unwrap();
    }
    for file in ["notes/deep/first", "notes/deep/second", "notes/other/third"] {
        fs::write(stand.place(file), "a ").unwrap();
    }
    let notes = stand.place("notes").canonicalize().unwrap();
    stand.home.write("server.py", &SERVER.replace("@NOTES@", &notes.display().to_string()));
    let server = "[[mcp_servers]]\nname = \"notes\"\ncommand = [\"python3\", \"./server.py\"]\n";
    stand.home.write("program.toml", &format!("{HEAD}{server}"));
    let learnt = stand.haft(&["learn", "--yes", "notes", "--call", "look", "{}"]);
    assert_eq!(learnt.code, 0, "{}{}", learnt.stdout, learnt.stderr);
    let grant = stand.manifest().mcp_servers[0].grant.clone().unwrap().rights.rights();
    let expected = [
        Right::Write(format!("{}/written", notes.display())),
        Right::Read(format!("{}/deep", notes.display())),
        "host=api.test:7777".parse().unwrap(),
    ];
    assert_eq!(grant, expected, "{}", stand.program());
    let called = stand.haft(&["call", "mcp__notes__look", "{}"]);
    assert!(called.code == 0 && called.stdout.contains("a a hello"), "{}{}", called.stdout, called.stderr);
}

/// `haft learn` writes sensitive rights only as comments; a person must enable them.
#[test]
fn stores_addresses_and_private_hosts_are_not_proposed_as_rights() {
    let Some(stand) = Stand::new(&["curl"]) else { return };
    fs::create_dir(stand.place(".ssh")).unwrap();
    fs::write(stand.place(".ssh/id"), "key").unwrap();
    fs::create_dir(stand.home.work().join(".vscode")).unwrap();
    stand.home.write(".vscode/tasks.json", "{}");
    stand.home.write("program.toml", HEAD);
    let script = "exec 3<>/dev/tcp/5.5.5.5/7777 && head -c 5 <&3\n(echo x >/dev/tcp/127.0.0.1/9)\n(echo x >/dev/tcp/private.test/80)\n\
                  cat ~/.ssh/id\necho x > .vscode/tasks.json\nexit 1";
    let learnt = stand.haft(&["learn", "--yes", "--", "bash", "-c", script]);
    assert!(learnt.code == 1 && learnt.stdout.contains("hello"), "{}{}", learnt.stdout, learnt.stderr);
    let text = stand.program();
    for comment in [
        "hosts = [\"5.5.5.5:7777\"]",
        "hosts = [\"127.0.0.1:9\"]",
        "credentials = [\"ssh\"]",
        "write = [\"./.vscode/tasks.json\"]",
    ] {
        assert!(text.contains(&format!("\n# {comment}  # ")), "{comment}: {text}");
    }
    let sandbox = stand.manifest().sandbox;
    assert!(sandbox.hosts.is_none() && sandbox.write.is_empty() && sandbox.credentials.is_empty(), "{text}");
}
