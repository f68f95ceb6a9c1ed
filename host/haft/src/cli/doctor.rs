//! `haft doctor`: reports the features of this machine, the state of the sandbox, and obstacles. Continues after
//! the first error, and prints no secret.

mod machine;
mod program;
mod providers;
mod sandbox;
mod sealed;

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use self::machine::{Machine, Place, Tool};
use self::program::{Found, Plugins, Server, Workers};
use self::providers::Providers;
pub(super) use self::providers::{is_ollama_there, is_set};
use self::sandbox::Sandbox;
use self::sealed::Sealed;
use super::Exit;
use super::common::Common;
use super::terminal::Terminal;
use crate::cli::terminal::{Column, DIM, ERROR, GOOD, HEAD, HINT, Style, WARNING};
use haft::program::{Dirs, Options, Program};

#[derive(Debug, Args)]
#[command(after_help = "\
The self-test starts a process in the sandbox of `bash`. The process tries every known way out of the sandbox. \
It touches only files that were made for the test. Exit code 6: the sandbox failed an attempt that it must \
stop. Attempts that a reduced sandbox cannot stop are listed and do not fail the test.")]
pub(super) struct Doctor {}

/// Everything that was found out, in the order in which it is shown.
#[derive(Serialize)]
struct Diagnosis {
    machine: Machine,
    sandbox: Sandbox,
    sealed: Sealed,
    plugins: Plugins,
    program: Found,
    servers: Vec<Server>,
    workers: Workers,
    places: Vec<Place>,
    tools: Vec<Tool>,
    providers: Providers,
}

impl Doctor {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let diagnosis = Diagnosis::make(common.lenient_options(terminal, false)?).await?;
        if terminal.json {
            terminal.json(&diagnosis)?;
        } else {
            terminal.data(&render(&diagnosis.machine.title(), &diagnosis.sections()))?;
        }
        Ok(diagnosis.exit())
    }
}

impl Diagnosis {
    async fn make(options: Options) -> anyhow::Result<Self> {
        // Without a home directory no check is possible. The error contains the remedy.
        let dirs = Dirs::of_this_machine()?;
        let confiner = options.confiner.clone().unwrap_or_default();
        let loaded = Program::load(&Options { confiner: Some(confiner.clone()), ..options }).await;
        let machine = Machine::gather();
        let program = loaded.as_ref().ok();
        let grant = program.map(|program| &program.grant);
        let sandbox = Sandbox::test(&confiner, grant, &dirs, machine.container).await;
        let sealed = Sealed::test(&confiner, &dirs).await;
        Ok(Self {
            tools: machine::find_tools(&confiner, &dirs, sandbox.is_refused()).await,
            providers: Providers::gather(program).await,
            places: machine::inspect_dirs(&dirs),
            servers: program::list_servers(program),
            workers: Workers::gather(program).await,
            program: Found::new(&loaded),
            plugins: Plugins::gather(),
            machine,
            sandbox,
            sealed,
        })
    }

    /// Returns the sections of the report, each with its title.
    fn sections(&self) -> [(&'static str, Vec<Line>); 8] {
        [
            ("Sandbox", self.sandbox.lines().into_iter().chain([self.sealed.line()]).collect()),
            ("Plugins", vec![self.plugins.line()]),
            ("Program", self.program.lines()),
            ("MCP servers", self.servers.iter().map(Server::line).collect()),
            ("Workers", self.workers.lines()),
            ("Places", self.places.iter().map(Place::line).collect()),
            ("Tools", self.tools.iter().map(Tool::line).collect()),
            ("Providers", self.providers.lines()),
        ]
    }

    /// Returns the exit code of the most serious problem.
    fn exit(&self) -> Exit {
        if !self.sandbox.holds() || !self.sealed.holds() {
            Exit::Sandbox
        } else if !self.program.is_right() {
            Exit::Program
        } else if !self.workers.is_usable() || self.places.iter().any(Place::is_unusable) {
            Exit::Failure
        } else {
            Exit::Success
        }
    }
}

// The layout of a diagnosis: sections of lines, each with a mark, a name and a text.

struct Line {
    mark: Mark,
    name: String,
    text: String,
    more: Vec<String>,
    hints: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Works as it should.
    Good,
    /// Does not exist, and is not needed.
    Absent,
    /// Works with restrictions.
    Warning,
    /// Prevents haft from working.
    Bad,
}

impl Mark {
    fn symbol(self) -> (char, Style) {
        match self {
            Self::Good => ('✓', GOOD),
            Self::Absent => ('–', DIM),
            Self::Warning => ('!', WARNING),
            Self::Bad => ('✗', ERROR),
        }
    }
}

impl Line {
    fn new(mark: Mark, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { mark, name: name.into(), text: text.into(), more: Vec::new(), hints: Vec::new() }
    }

    fn marked(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    fn more(mut self, more: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.more.extend(more.into_iter().map(Into::into));
        self
    }

    fn hint(mut self, hints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hints.extend(hints.into_iter().map(Into::into));
        self
    }
}

/// Returns the report. The terminal removes the colours if it has none.
fn render(title: &str, sections: &[(&str, Vec<Line>)]) -> String {
    let names = sections.iter().flat_map(|(_, lines)| lines).map(|line| line.name.chars().count());
    let width = names.max().unwrap_or_default();
    let mut page = format!("{HEAD}{title}{HEAD:#}\n");
    for (title, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(page, "\n{HEAD}{title}{HEAD:#}");
        for line in lines {
            write_line(&mut page, line, width);
        }
    }
    page
}

fn write_line(page: &mut String, line: &Line, width: usize) {
    let (mark, style) = line.mark.symbol();
    let text = if line.mark == Mark::Absent { DIM } else { Style::new() };
    let _ =
        writeln!(page, "  {style}{mark}{style:#} {:width$}  {Column}{text}{}{text:#}", line.name, line.text);
    let indent = width + 6;
    for more in &line.more {
        let _ = writeln!(page, "{:indent$}{Column}{more}", "");
    }
    for hint in &line.hints {
        let _ = writeln!(page, "{:indent$}{Column}{HINT}hint:{HINT:#} {hint}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_a_column_and_empty_sections_are_left_out() {
        let wide = Line::new(Mark::Bad, "größer", "b").more(["c"]).hint(["d"]);
        let sections = [("One", vec![Line::new(Mark::Good, "x", "a"), wide]), ("Two", Vec::new())];
        let page = crate::cli::terminal::written(&render("haft", &sections), false);
        assert_eq!(page, "haft\n\nOne\n  ✓ x       a\n  ✗ größer  b\n            c\n            hint: d\n");
    }
}
