//! `haft plugin dev`: builds a plugin project, calls its tools on request, and rebuilds when the source changes.
//! After a failed build the last good component stays in use.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use haft::program::{FILE_NAME, Options, Program};
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

use super::common::Common;
use super::disclosure_sheet::Sheet;
use super::terminal::{DIM, Terminal};
use super::{Exit, build, call, test, trusted};
use haft_author::watch::SourceWatch;
use haft_author::{BuildLog, Interrupted, Project, Workshop, language};
use haft_core::call::{ToolCall, ToolDef};
use haft_package::disclosure::Disclosure;
use haft_sandbox::confine::Confiner;

#[derive(Debug, Args)]
#[command(after_help = "Each line on standard input is a call; a tool's name needs no `PLUGIN__` prefix:
  top-words {\"text\": \"a b a\"}
  top-words text='a b a' limit=2")]
pub(super) struct Dev {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
}

struct Session<'a> {
    folder: &'a Path,
    common: &'a Common,
    terminal: Terminal,
    workshop: Workshop,
    /// The last build that could be loaded.
    good: Option<Good>,
    /// The tool definitions that were displayed last.
    shown: Disclosure,
    /// The last call, which is repeated after every build.
    last: Option<String>,
}

struct Good {
    program: Program,
    plugin: String,
}

impl Dev {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let project = Project::open(&self.folder)?;
        let mut watch = watch(&project);
        let cancel = CancellationToken::new();
        let log = BuildLog { events: terminal.work(), cancel: cancel.clone() };
        let workshop =
            Workshop { confiner: Confiner::open(), log, cache: build::cache()?, debug: false, again: false };
        let mut session = Session {
            folder: &self.folder,
            common,
            terminal,
            workshop,
            good: None,
            shown: Disclosure::default(),
            last: None,
        };
        let mut lines = lines();
        let leave = async {
            // Without a handler for Ctrl-C the session runs until it is killed.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut work = std::pin::pin!(session.work(&mut watch, &mut lines));
        tokio::select! {
            done = &mut work => done?,
            () = leave => {
                cancel.cancel();
                // The running tool is ended with all of its processes.
                match work.await {
                    Err(error) if !error.is::<Interrupted>() => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(Exit::Success)
    }
}

/// Watches all files of a project except the outputs of a build.
fn watch(project: &Project) -> SourceWatch {
    let outputs = language::of_project(project).map(|language| language.facts().outputs).unwrap_or_default();
    let mut ignored: Vec<PathBuf> = outputs.iter().map(|path| project.folder.join(path)).collect();
    ignored.push(project.component.clone());
    SourceWatch::new(&project.folder, ignored)
}

impl Session<'_> {
    /// Builds, then waits for a change, a line, or the end.
    async fn work(&mut self, watch: &mut SourceWatch, lines: &mut Receiver<String>) -> anyhow::Result<()> {
        let cancel = self.workshop.log.cancel.clone();
        self.rebuild().await?;
        let mut listening = true;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                changed = watch.changed() => {
                    let shown: Vec<_> = changed.iter().take(3).map(|path| build::relative(path)).collect();
                    self.terminal.message(format_args!("{DIM}changed: {}{DIM:#}", shown.join(", ")));
                    self.rebuild().await?;
                }
                line = lines.recv(), if listening => match line {
                    Some(line) => self.line(&line).await?,
                    None => listening = false,
                },
            }
        }
    }

    /// Builds and loads the plugin. Prints errors; only an interruption ends the session.
    async fn rebuild(&mut self) -> anyhow::Result<()> {
        match self.try_rebuild().await {
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                self.terminal.fail(&error);
                let rest = if self.good.is_some() { "; calls still run the last good build" } else { "" };
                self.terminal.message(format_args!("next: save a change to build again{rest}"));
            }
            Ok(good) => {
                self.show_tools(&good);
                self.good = Some(good);
                self.again().await?;
                self.say_what_next();
            }
        }
        Ok(())
    }

    /// Runs the project's tests, prints the failures, and repeats the last call.
    async fn again(&mut self) -> anyhow::Result<()> {
        let cancel = self.workshop.log.cancel.child_token();
        // The future is boxed because it is larger than the futures around it.
        let tested = Box::pin(test::after_build(self.folder, self.terminal, cancel)).await;
        if let Err(error) = tested {
            self.terminal.fail(&error);
        }
        let Some(line) = self.last.clone().filter(|line| self.is_call(line)) else { return Ok(()) };
        self.terminal.message(format_args!("{DIM}again: {line}{DIM:#}"));
        Box::pin(self.line(&line)).await
    }

    async fn try_rebuild(&self) -> anyhow::Result<Good> {
        let project = Project::open(self.folder)?;
        let built = self.workshop.build(&project).await?;
        build::report_built(self.terminal, &project, &built);
        let options = self.common.options(self.terminal, false)?;
        let options = Options { program: Some(project.folder.join(FILE_NAME)), ..options };
        let program = Box::pin(trusted::loaded(&options, self.terminal)).await?;
        let good = Good { program, plugin: project.plugin };
        match good.program.report() {
            // No tool of the plugin could be loaded: the previous component stays.
            Some(report) if good.tools().next().is_none() => Err(report.into()),
            Some(report) => {
                self.terminal.warn(&report);
                Ok(good)
            }
            None => Ok(good),
        }
    }

    /// Shows the tool definitions for the model: all of them at first, then the changes.
    fn show_tools(&mut self, good: &Good) {
        let now = Disclosure::from_tools(good.tools().cloned());
        let mut sheet = Sheet::new(self.terminal.message_columns(), None);
        if self.shown.items.is_empty() {
            sheet.disclosure(&now);
        } else {
            sheet.changes(&now.changes(&self.shown.digests(), &self.shown));
        }
        if !sheet.text.is_empty() {
            self.terminal.message(sheet.text.trim_end());
        }
        self.shown = now;
    }

    fn say_what_next(&self) {
        let Some(good) = &self.good else { return };
        let example = good.tools().next().map(|def| format!("{} {}", good.short(&def.name), example(def)));
        let call = example.map(|call| format!("type a call, such as `{call}`; ")).unwrap_or_default();
        self.terminal.message(format_args!("next: {call}save a change to build again; Ctrl-C quits"));
    }

    fn is_call(&self, line: &str) -> bool {
        let is_tool =
            |good: &Good| good.read(line).is_ok_and(|call| good.program.toolbox.find(&call.tool).is_some());
        self.good.as_ref().is_some_and(is_tool)
    }

    async fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let Some(good) = &self.good else {
            self.terminal.warning("nothing to call: the plugin has not been built yet");
            return Ok(());
        };
        match good.read(line) {
            Ok(call) => {
                if good.program.toolbox.find(&call.tool).is_some() {
                    self.last = Some(line.to_owned());
                }
                let mut session = good.program.session("dev", self.terminal.messages());
                session.cancel = self.workshop.log.cancel.child_token();
                let tools = good.program.typed_tools();
                let result = Box::pin(tools.dispatch(call, &session)).await;
                self.terminal.result(&result)?;
            }
            Err(error) => self.terminal.fail(&error),
        }
        Ok(())
    }
}

impl Good {
    /// Returns the tools of the plugin under development.
    fn tools(&self) -> impl Iterator<Item = &ToolDef> {
        let prefix = format!("{}__", self.plugin);
        let defs = self.program.toolbox.entries().map(haft_core::tool::Entry::def);
        defs.filter(move |def| def.name.starts_with(&prefix))
    }

    /// Returns the tool's name without the prefix of the plugin.
    fn short<'n>(&self, name: &'n str) -> &'n str {
        name.strip_prefix(&self.plugin).and_then(|rest| rest.strip_prefix("__")).unwrap_or(name)
    }

    fn read(&self, line: &str) -> anyhow::Result<ToolCall> {
        let (name, rest) = split(line);
        let full = format!("{}__{name}", self.plugin);
        let toolbox = &self.program.toolbox;
        let tool = if toolbox.find(&full).is_some() { full } else { name.to_owned() };
        let def = toolbox.find(&tool).map(haft_core::tool::Entry::def);
        let mut arguments = Map::new();
        for (name, text) in read_arguments(rest, &mut arguments)? {
            let value = call::value(def, &name, text);
            arguments.insert(name, value);
        }
        Ok(ToolCall { id: "dev".into(), tool, arguments: Value::Object(arguments) })
    }
}

/// Returns the required arguments of a tool, such as `text=…`.
fn example(def: &ToolDef) -> String {
    let needed = properties(def).filter(|(_, required)| *required).map(|(name, _)| format!("{name}=…"));
    needed.collect::<Vec<_>>().join(" ")
}

/// Returns the names of the parameters, and whether each is required.
fn properties(def: &ToolDef) -> impl Iterator<Item = (&str, bool)> {
    let required = def.parameters.get("required").and_then(Value::as_array);
    let names = def.parameters.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    names.map(move |name| {
        let is_required = required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
        (name.as_str(), is_required)
    })
}

// The lines that a user types during development: a tool's name, then its arguments as JSON or as words. haft never
// runs a line as anything else.

/// Maximum bytes of a line. `haft call` reads larger arguments from a file.
const MAX_LINE: u64 = 1 << 20;

/// Maximum number of lines that are queued during a build. Further lines block the writer.
const MAX_WAITING: usize = 64;

/// Returns the lines of standard input, until its end.
fn lines() -> Receiver<String> {
    let (sender, receiver) = channel(MAX_WAITING);
    // A thread, because a read of standard input cannot be cancelled. The thread ends with the process.
    std::thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if sender.blocking_send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Splits a line into the tool's name and the rest.
fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    line.split_once(char::is_whitespace).map_or((line, ""), |(name, rest)| (name, rest.trim()))
}

/// Reads the arguments. A JSON object is stored in `object`. Words `name=value`, split as in a shell, are returned
/// with text values.
fn read_arguments(text: &str, object: &mut Map<String, Value>) -> anyhow::Result<Vec<(String, String)>> {
    if text.starts_with('{') {
        *object = serde_json::from_str(text).context("the arguments are not a JSON object")?;
        return Ok(Vec::new());
    }
    let words = shell_words::split(text).context("a quotation mark is not closed")?;
    let pair = |word: &str| {
        let pair = word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.with_context(|| format!("expected `{{…}}` or `name=value`, found `{word}`"))
    };
    words.iter().map(|word| pair(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_json_or_words() {
        assert_eq!(split("  top-words {\"a\": 1} \n"), ("top-words", "{\"a\": 1}"));
        assert_eq!(split("now\n"), ("now", ""));
        let mut object = Map::new();
        assert!(read_arguments("{\"a\": 1}", &mut object).unwrap().is_empty());
        assert_eq!(Value::Object(object), serde_json::json!({ "a": 1 }));
        let words = read_arguments("text='a b' limit=2 rest=x=y", &mut Map::new()).unwrap();
        let expected = [("text", "a b"), ("limit", "2"), ("rest", "x=y")];
        assert_eq!(words, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["{\"a\"", "word", "a='b"] {
            assert!(read_arguments(text, &mut Map::new()).is_err(), "{text}");
        }
    }
}
