//! A separate machine for a test: a home, a working folder, packages to install, and the list of files before and
//! after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::wait::until;
use crate::common::{cache, repository};
use crate::tiny::Tiny;

/// The output of haft.
pub(super) struct Answer {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: i32,
}

/// A home directory with a workspace.
pub(super) struct Place {
    directory: tempfile::TempDir,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

impl Answer {
    /// The JSON output of a successful run.
    pub(super) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Asserts that the run was successful.
    pub(super) fn good(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// Asserts the exit code and a text on standard error.
    pub(super) fn ends(self, code: i32, said: &str) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(said), "expected {said:?} in:\n{}", self.stderr);
        self
    }
}

impl Place {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "tmp"] {
            fs::create_dir(directory.path().join(folder)).unwrap();
        }
        Self { directory }
    }

    pub(super) fn home(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    pub(super) fn store(&self) -> PathBuf {
        self.home().join("data/haft/store")
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap_or_default()
    }

    /// Writes a file in the workspace; a file in a folder `bin` is executable.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        if path.parent().unwrap().ends_with("bin") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env("HOME", self.home())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.home().join("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env("XDG_DATA_HOME", self.home().join("data"))
            .env_remove("HAFT_LOG")
            .envs(["http_proxy", "https_proxy", "all_proxy"].map(|proxy| (proxy, "http://127.0.0.1:1")))
            .stdin(Stdio::null());
        command
    }

    pub(super) fn haft(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    /// Runs haft and kills it at `point`, or at its end; true if haft was still running.
    pub(super) fn killed(&self, arguments: &[&str], point: impl Fn() -> bool) -> bool {
        let quiet = Stdio::null;
        let mut child = self.command(arguments).stdout(quiet()).stderr(quiet()).spawn().unwrap();
        until("haft comes to the point or ends", || point() || child.try_wait().unwrap().is_some());
        let is_over = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        !is_over
    }

    /// The exit code and the output of haft at a terminal with the answer `answer`; `None` if the machine has no
    /// `script`.
    pub(super) fn at_a_terminal(&self, arguments: &[&str], answer: &str) -> Option<(Option<i32>, String)> {
        let own = self.command(&[]);
        let words = std::iter::once(env!("CARGO_BIN_EXE_haft")).chain(arguments.iter().copied());
        let line = words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let mut script = Command::new("script");
        script.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        script.args(["-qec", &line, "/dev/null"]).current_dir(self.work());
        let Ok(mut child) = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED: there is no `script` on this machine to make a terminal with");
            return None;
        };
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = std::io::Read::read(&mut stdout, &mut piece) {
            said.extend_from_slice(&piece[..read]);
            // haft ignores input that arrives before the question.
            if said.ends_with(b"[y/N] ") {
                std::io::Write::write_all(&mut stdin, answer.as_bytes()).unwrap();
            }
        }
        let status = child.wait().unwrap();
        Some((status.code(), String::from_utf8_lossy(&said).into_owned()))
    }

    /// All files in the store and the workspace, with their content, except haft's own lock file.
    pub(super) fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.store(), self.work()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    all.insert(path, Vec::new());
                } else if path.is_dir() {
                    all.insert(path.clone(), Vec::new());
                    folders.push(path);
                } else if path.is_file() && !path.ends_with("store/.lock") {
                    all.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        all
    }

    /// The contents in the store.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.store()).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.file_name().unwrap().len() == 64).collect()
    }

    /// The exposed names of all tools.
    pub(super) fn tools(&self) -> Vec<String> {
        let tools = self.haft(&["--json", "tools"]).json();
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The example plugin, which counts words.
pub(super) fn wordcount() -> Vec<u8> {
    fs::read(repository().join("plugins/built/wordcount.wasm")).unwrap()
}

/// A component whose only tool gives this answer: cheap to compile, and different for each answer.
pub(super) fn saying(answer: &str) -> Vec<u8> {
    Tiny { answer: answer.to_owned(), ..Tiny::default() }.bytes()
}

/// The start of a package's program.toml.
pub(super) fn program(name: &str, version: &str, more: &str) -> String {
    format!("[program]\nname = \"{name}\"\nversion = \"{version}\"\n{more}\n")
}

/// A package in `folder` with only the component `words`.
pub(super) fn words(place: &Place, folder: &str, version: &str, grant: &str) {
    let plugin =
        format!("[[plugins]]\nname = \"words\"\ncomponent = \"words.wasm\"\n[plugins.grant]\n{grant}");
    place.write(&format!("{folder}/program.toml"), program("text", version, &plugin));
    place.write(&format!("{folder}/words.wasm"), wordcount());
}
