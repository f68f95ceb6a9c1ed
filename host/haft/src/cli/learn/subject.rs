//! The command, server or command tool whose needs are learnt, and one run of it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Map, Value};

use crate::cli::terminal::{Hinted, Terminal, did_you_mean};
use crate::cli::{approvals, exec, trusted};
use haft::program::{Ask, Dirs, Options, Program, Target};
use haft_core::call::ToolCall;
use haft_core::grant::{Grant, HostPattern};
use haft_core::report::{plain, shortened};
use haft_core::tool::Session;
use haft_manifest::{Manifest, ProcessGrant, Transport};
use haft_mcp::client;
use haft_sandbox::attached;
use haft_sandbox::native::{bash, command};

/// Characters of a command line in messages and reasons.
const MAX_SHOWN: usize = 60;

pub(super) enum Subject {
    /// A command with the rights of `[sandbox]`.
    Command(Vec<OsString>),
    /// An entry of program.toml.
    Entry(Entry),
}

/// An MCP server or a command tool.
pub(super) struct Entry {
    list: &'static str,
    name: String,
    /// The name for models of a tool that the entry has or may have.
    tool: String,
    words: Vec<String>,
    calls: Vec<ToolCall>,
}

pub(super) struct Run {
    /// The rights that close paths.
    pub(super) grant: Grant,
    /// The scripts whose folder an interpreter lists.
    pub(super) scripts: Vec<PathBuf>,
    pub(super) has_succeeded: bool,
    pub(super) is_interrupted: bool,
}

impl Subject {
    /// Returns the command, or the entry that is called `name`.
    pub(super) fn new(
        name: Option<String>,
        calls: &[String],
        command: Vec<OsString>,
        manifest: &Manifest,
    ) -> anyhow::Result<Self> {
        let Some(name) = name else { return Ok(Self::Command(command)) };
        let mut entry = Entry::find(&name, manifest)?;
        for pair in calls.chunks_exact(2) {
            let [tool, arguments] = pair else { continue };
            entry.call(tool, arguments)?;
        }
        if entry.list == "tools" && entry.calls.is_empty() {
            entry.call(&name, "{}")?;
        }
        Ok(Self::Entry(entry))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Command(words) => {
                let words = words.iter().map(|word| word.to_string_lossy());
                format!("`{}`", plain(&shortened(&shell_words::join(words), MAX_SHOWN)))
            }
            Self::Entry(entry) if entry.list == "tools" => format!("command `{}`", entry.name),
            Self::Entry(entry) => format!("server `{}`", entry.name),
        }
    }

    pub(super) fn entry(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Command(_) => None,
            Self::Entry(entry) => Some((entry.list, &entry.name)),
        }
    }

    pub(super) fn entry_name(&self) -> Option<String> {
        self.entry().map(|(_, name)| name.to_owned())
    }

    /// Returns the grant that program.toml writes for an entry.
    fn grant<'m>(&self, manifest: &'m Manifest) -> Option<&'m ProcessGrant> {
        let (_, name) = self.entry()?;
        let servers = manifest.mcp_servers.iter().map(|server| (server.name.as_str(), &server.grant));
        let tools = manifest.tools.iter().map(|tool| (tool.name.as_str(), &tool.grant));
        servers.chain(tools).find(|(own, _)| *own == name)?.1.as_ref()
    }

    /// Returns the hosts that program.toml grants it.
    pub(super) fn hosts(&self, manifest: &Manifest) -> Vec<HostPattern> {
        match (self, self.grant(manifest)) {
            (Self::Command(_), _) => manifest.sandbox.hosts.clone().unwrap_or_default(),
            (Self::Entry(_), grant) => grant.map(|grant| grant.rights.hosts.clone()).unwrap_or_default(),
        }
    }

    /// Returns whether it has all of the network without this verb.
    pub(super) fn has_network(&self, manifest: &Manifest) -> bool {
        match self.grant(manifest) {
            Some(grant) => grant.rights.hosts.iter().any(HostPattern::is_any),
            None => manifest.sandbox.opens_network(),
        }
    }

    /// Returns whether `hosts` takes the rest of the network from `[sandbox]`.
    pub(super) fn is_narrowed(&self, manifest: &Manifest) -> bool {
        self.entry().is_none() && manifest.sandbox.opens_network()
    }

    /// Returns whether the proposal is the first grant of an entry.
    pub(super) fn gets_grant(&self, manifest: &Manifest) -> bool {
        self.entry().is_some() && self.grant(manifest).is_none()
    }

    pub(super) async fn run(&self, options: &Options, terminal: Terminal) -> anyhow::Result<Run> {
        match self {
            Self::Command(words) => run_command(words, options, terminal).await,
            Self::Entry(entry) => Box::pin(entry.run(options, terminal)).await,
        }
    }
}

async fn run_command(words: &[OsString], options: &Options, terminal: Terminal) -> anyhow::Result<Run> {
    let target = Target { here: true, ..Target::default() };
    let options = Options { only: Some(bash::NAME.to_owned()), target, ..options.clone() };
    let program = trusted::loaded(&options, terminal).await?;
    let (word, arguments) = words.split_first().context("expected a command after `--`")?;
    let path = exec::found(word)?;
    let (status, _) = attached::run(&program.confiner, &program.grant, &path, arguments, false).await?;
    Ok(Run {
        grant: program.grant.clone(),
        scripts: Vec::new(),
        has_succeeded: status.success(),
        is_interrupted: status.signal().is_some(),
    })
}

impl Entry {
    fn find(name: &str, manifest: &Manifest) -> anyhow::Result<Self> {
        let servers = manifest.mcp_servers.iter().filter_map(|server| match &server.transport {
            Transport::Stdio { command, .. } => Some(("mcp_servers", server.name.as_str(), &command.value)),
            Transport::Http { .. } => None,
        });
        let tools = manifest.tools.iter().map(|tool| ("tools", tool.name.as_str(), &tool.command.value));
        let all: Vec<_> = servers.chain(tools).collect();
        let Some((list, name, words)) = all.iter().copied().find(|(_, own, _)| *own == name) else {
            let near = did_you_mean(name, all.iter().map(|(_, own, _)| *own));
            let hint = "a command that program.toml does not have stands after `--`";
            let text =
                format!("program.toml has no MCP server with a command, and no command, `{name}`{near}");
            return Err(Hinted::new(text, hint).into());
        };
        let program = manifest.program.as_ref().map(|program| program.name.as_str()).unwrap_or_default();
        let tool = match list {
            "tools" => command::exposed_name(program, name),
            _ => client::exposed(name, "learn"),
        };
        Ok(Self { list, name: name.to_owned(), tool, words: words.clone(), calls: Vec::new() })
    }

    /// Adds a call of `tool`, which can be written without the name of the entry.
    fn call(&mut self, tool: &str, arguments: &str) -> anyhow::Result<()> {
        let Ok(Value::Object(arguments)) = haft_core::json::read(arguments.as_bytes()) else {
            anyhow::bail!(
                "`--call {tool}`: the arguments are not a JSON object such as `{{\"path\": \"x\"}}`"
            );
        };
        self.calls.push(call(tool.to_owned(), arguments));
        Ok(())
    }

    async fn run(&self, options: &Options, terminal: Terminal) -> anyhow::Result<Run> {
        // A server is started to list its tools, unless it is known to have this one.
        let options = Options { only: Some(self.tool.clone()), ask: Ask::WhereUnknown, ..options.clone() };
        let program = trusted::loaded(&options, terminal).await?;
        let errors: Vec<_> =
            program.problems.iter().filter(|problem| !problem.is_warning()).cloned().collect();
        let mut has_succeeded = errors.is_empty();
        if !has_succeeded {
            terminal.report(&program.manifest.report(errors));
        }
        let mut is_interrupted = false;
        let calls = if has_succeeded { self.calls.as_slice() } else { &[] };
        for call in calls {
            tokio::select! {
                is_done = self.make(call, &program, terminal) => has_succeeded &= is_done?,
                _ = tokio::signal::ctrl_c() => {
                    (has_succeeded, is_interrupted) = (false, true);
                    break;
                }
            }
        }
        for server in program.servers.iter().filter(|server| server.config().name == self.name) {
            // Receives the refusals that are on their way.
            server.refused().await;
        }
        let home = Dirs::of_this_machine()?.home;
        let scripts = program.manifest.scripts_of(&self.words, &home);
        let grant = program.grant.clone();
        program.close().await;
        Ok(Run { grant, scripts, has_succeeded, is_interrupted })
    }

    /// Makes a call. Returns whether it succeeded.
    async fn make(&self, wanted: &ToolCall, program: &Program, terminal: Terminal) -> anyhow::Result<bool> {
        let mut wanted = wanted.clone();
        if self.list != "tools" && !client::owns(&self.name, &wanted.tool) {
            wanted.tool = client::exposed(&self.name, &wanted.tool);
        } else if wanted.tool == self.name {
            wanted.tool.clone_from(&self.tool);
        }
        let approvals = approvals::of(terminal.person(), program, "learn", terminal)?;
        let session = Session { approvals, ..program.session("learn", terminal.messages()) };
        let result = program.typed_tools().dispatch(wanted, &session).await;
        terminal.result(&result)?;
        Ok(!result.is_error)
    }
}

fn call(tool: String, arguments: Map<String, Value>) -> ToolCall {
    ToolCall { id: "learn".into(), tool, arguments: Value::Object(arguments) }
}
