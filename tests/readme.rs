//! Every command line of README.md and of the pages in docs, run literally by a shell; the quoted answers are
//! compared. A line that no test runs fails here, and so does a tested line that no page contains. Only URLs are
//! replaced: by those of this test's servers.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself, by a shell")]

mod agents;
mod cookbook;
mod importing;
mod page;
mod plugins;
mod servers;
mod targets;
mod tour;
mod troubleshooting;
mod tutorial;
mod using;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::{Answer, Home};
use crate::common::{repository, same_environment};
use crate::completions::verbs;
use crate::reference::anchor;

/// Lines that need more than this binary, and the script of `.ci` that runs each.
const BY_CI: &[(&str, &str)] = &[
    (
        "cargo run -- --program program.toml.example call wordcount__count --arg path=README.md",
        ".ci/readme 1",
    ),
    ("cargo test", ".ci/readme 2"),
    ("cargo install --locked --path host/haft", ".ci/readme install"),
    // In a simulated internet.
    ("haft learn -- npm install", "tests/learn.rs"),
    ("haft learn files --call read_file '{\"path\": \"a.txt\"}'", "tests/learn.rs"),
    // In Python, with the real toolchain.
    ("haft plugin build", ".ci/readme plugin"),
    ("haft call words__top-words '{\"text\": \"a rose is a rose\"}'", ".ci/readme plugin"),
    ("haft call words__top-words --arg text='a rose' --trace", ".ci/readme plugin"),
    ("haft call words__top-words --arg text='a rose' --profile flame.svg", ".ci/readme plugin"),
    ("haft call words__top-words --arg text='a rose' --profile flame.folded", ".ci/readme plugin"),
    ("haft call words__top-words --arg text='a rose' --coredump words.core", ".ci/readme plugin"),
    ("haft plugin test", ".ci/readme plugin"),
    ("haft plugin dev", ".ci/readme plugin"),
    // With a NATS server that the step starts.
    ("haft worker --nats nats://127.0.0.1:4222 --label eu", ".ci/steps/nats"),
    ("haft call program__team__mark --arg mark=one --nats nats://127.0.0.1:4222", ".ci/steps/nats"),
    ("haft log --nats nats://127.0.0.1:4222", ".ci/steps/nats"),
    ("haft doctor --nats nats://127.0.0.1:4222", ".ci/steps/nats"),
    (
        "HAFT_TOKEN=… haft serve --http 127.0.0.1:8080 --token-env HAFT_TOKEN --nats nats://127.0.0.1:4222",
        ".ci/steps/nats",
    ),
];

/// The first words of lines that are commands, not answers.
const COMMANDS: &[&str] = &["haft", "cargo", "HAFT_TOKEN=…"];

/// README.md, and then the pages in docs by name.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(repository().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs: BTreeSet<_> = docs.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    std::iter::once(repository().join("README.md")).chain(docs).collect()
}

/// The scripts that run automatically: the gate, and each step of the nightly run.
fn scripts() -> Vec<PathBuf> {
    let steps = fs::read_dir(repository().join(".ci/steps")).unwrap().map(|entry| entry.unwrap().path());
    steps.filter(|path| path.is_file()).chain([repository().join(".ci/run")]).collect()
}

/// The terminal blocks of all pages, in order.
fn blocks() -> Vec<String> {
    let is_typed = |block: &&str| ["console\n", "text\n", "sh\n"].iter().any(|kind| block.starts_with(kind));
    let typed = |page: &PathBuf| -> Vec<String> {
        let text = fs::read_to_string(page).unwrap();
        let fenced = text.split("\n```").skip(1).step_by(2).filter(is_typed);
        fenced.map(|block| block.split_once('\n').unwrap().1.to_owned()).collect()
    };
    pages().iter().flat_map(typed).collect()
}

/// The command of a line, without its comment.
fn command(line: &str) -> Option<&str> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let first = line.split(' ').next()?;
    COMMANDS.contains(&first).then(|| line.split("  #").next().unwrap().trim_end())
}

/// The text below a command on the pages, up to the next command or the end of the block. The longest text counts,
/// because a page may show the command without its answer.
fn shown_below(of_command: &str) -> Vec<String> {
    let below = |block: &String| -> Vec<String> {
        let rest = block.lines().skip_while(|line| command(line) != Some(of_command)).skip(1);
        rest.take_while(|line| command(line).is_none()).map(str::to_owned).collect()
    };
    blocks().iter().map(below).max_by_key(Vec::len).unwrap()
}

/// The words of a line without `(20 ms)`, `1.2 s` and similar times.
fn without_times(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        if matches!(word, "ms" | "s" | "ms)" | "s)") {
            words.pop();
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

/// A person who follows the pages, with a separate home and folder.
struct Reader {
    home: Home,
    /// First on PATH.
    programs: PathBuf,
    /// Texts of a page, and their replacements on this machine.
    others: Vec<(String, String)>,
    /// True if the person trusts the program.toml that they wrote.
    has_agreed: bool,
}

impl Reader {
    fn new() -> Self {
        let home = Home::new();
        let programs = home.work().with_file_name("programs");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_haft"), programs.join("haft")).unwrap();
        Self { home, programs, others: Vec::new(), has_agreed: true }
    }

    /// A person who trusts nothing: all files are in haft's repository, or written by haft.
    fn asked(self) -> Self {
        Self { has_agreed: false, ..self }
    }

    /// Adds a program that a page assumes.
    fn with(self, name: &str, text: &str) -> Self {
        let path = self.programs.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Adds a replacement for a part of a page's lines.
    fn where_is(mut self, there: &str, here: impl Into<String>) -> Self {
        self.others.push((there.to_owned(), here.into()));
        self
    }

    /// A shell in the workspace that runs `line`.
    fn shell(&self, line: &str) -> Command {
        let here = self.others.iter().fold(line.to_owned(), |line, (there, here)| line.replace(there, here));
        let mut path = self.programs.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let own = self.home.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &here]).current_dir(self.home.work());
        same_environment(&own, &mut shell);
        shell.env("PATH", path).env_remove("TMUX").env_remove("TMUX_PANE");
        if !self.has_agreed {
            shell.env_remove("HAFT_TRUST");
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// Runs a line with `input` on its standard input, to its end.
    fn types(&self, line: &str, input: &str) -> Answer {
        let mut child = self.shell(line).spawn().unwrap();
        // Not every program reads its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Answer::from(child.wait_with_output().unwrap())
    }

    /// The output of a line on both streams, with this home's paths replaced by the pages' paths.
    fn hears(&self, line: &str) -> Vec<String> {
        let answer = self.types(line, "");
        let work = self.home.work();
        let places = [(work.clone(), "/home/ada/notes"), (work.parent().unwrap().to_owned(), "/home/ada")];
        let said = places.iter().fold(answer.stderr + &answer.stdout, |said, (here, there)| {
            let real = fs::canonicalize(here).unwrap();
            said.replace(real.to_str().unwrap(), there).replace(here.to_str().unwrap(), there)
        });
        said.lines().map(str::to_owned).collect()
    }

    /// Runs a line and compares its output with the text below it on the pages, without times.
    fn sees_what_is_shown(&self, line: &str) {
        let said: Vec<_> = self.hears(line).iter().map(|line| without_times(line)).collect();
        for shown in shown_below(line) {
            assert!(said.contains(&without_times(&shown)), "`{shown}` is not in\n{said:#?}");
        }
    }

    /// Runs a line that must succeed.
    fn runs(&self, line: &str) -> Answer {
        let answer = self.types(line, "");
        assert_eq!(answer.code, 0, "{line}\n{}{}", answer.stdout, answer.stderr);
        answer
    }
}

/// A test or a script runs each command line of the pages, and each line that they run is on a page.
#[test]
fn every_command_line_of_the_readme_is_run() {
    let blocks = blocks();
    let written: BTreeSet<_> = blocks.iter().flat_map(|block| block.lines()).filter_map(command).collect();
    let first = [tour::LINES, using::LINES, using::KEPT, cookbook::LINES].concat();
    let own = [
        &first[..],
        agents::LINES,
        targets::LINES,
        servers::LINES,
        importing::LINES,
        plugins::LINES,
        page::LINES,
    ]
    .concat();
    let tutorial = tutorial::lines();
    let walked = tutorial.iter().map(String::as_str);
    let run: BTreeSet<_> = BY_CI.iter().map(|(line, _)| *line).chain(own).chain(walked).collect();
    let [missing, gone] = [&written - &run, &run - &written];
    assert!(missing.is_empty() && gone.is_empty(), "run by nobody: {missing:#?}\non no page: {gone:#?}");
    let scripts: Vec<_> = scripts().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for (line, runner) in BY_CI {
        let is_run = repository().join(runner).is_file() || scripts.iter().any(|text| text.contains(runner));
        assert!(is_run, "`{line}` has no `{runner}`");
    }
}

/// The text of a page without its code blocks.
fn unfenced(page: &Path) -> String {
    fs::read_to_string(page).unwrap().split("\n```").step_by(2).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook create them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = unfenced(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Each relative link of README and docs leads to an existing file and heading, so that a moved page does not break
/// links.
#[test]
fn links_of_the_pages_lead_to_files() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = unfenced(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there =
                path.exists() && (part.is_empty() || path.is_dir() || anchors(&path).contains(part));
            if !is_there {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each verb that a page names in a code span exists in haft.
#[test]
fn verbs_of_the_pages_are_known() {
    let known = verbs();
    let mut unknown = Vec::new();
    for page in pages() {
        for span in unfenced(&page).split('`').skip(1).step_by(2) {
            let verb = span.strip_prefix("haft ").and_then(|words| words.split_whitespace().next());
            let verb = verb.filter(|word| word.bytes().all(|c| c.is_ascii_lowercase()));
            if verb.is_some_and(|verb| !known.iter().any(|one| one == verb)) {
                unknown.push(format!("{}: {span}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}
