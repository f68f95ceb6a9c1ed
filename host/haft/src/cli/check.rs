//! `haft check`: checks a program or one component as far as possible without a tool call.

pub(super) mod component;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use self::component::Checked;
use super::Exit;
use super::common::{Common, proposed_pane};
use super::terminal::{Terminal, counted};
use super::{guidance, tools};
use haft::program::{Ask, FILE_NAME, InstallContext, Options, Program};
use haft_core::grant::Right;
use haft_core::lookup::{find_on_path, is_executable};
use haft_core::report::{Problem, plain};
use haft_core::tool::{bytes, tokens};
use haft_manifest::{CommandTool, Manifest, McpServer, ProcessGrant, Transport};

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A component to check without installing it, or the folder of a program [default: the program]
    #[arg(value_name = "COMPONENT|FOLDER")]
    what: Option<PathBuf>,
}

impl Check {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let mut options = common.lenient_options(terminal, false)?;
        // Each server is started once, as for a call: its refusals show in no other way.
        options.ask = Ask::Always;
        match self.what {
            Some(path) if path.is_dir() => options.program = Some(path.join(FILE_NAME)),
            Some(path) => return component::execute(&path, common, terminal).await,
            None => {}
        }
        program(&options, terminal).await
    }
}

/// Checks a program; of a plugin project also the components, as before a release.
async fn program(options: &Options, terminal: Terminal) -> anyhow::Result<Exit> {
    let mut program = Program::load(options).await?;
    let missing = [missing(&program), missing_commands(&program), missing_servers(&program)].concat();
    let crowded = crowded(&program);
    let refused = refused(&program).await;
    let (misnamed, mut unknown) = program.misnamed_agent_tools(false);
    let (misruled, unknown_to_rules) = program.misnamed_rules();
    unknown.extend(unknown_to_rules);
    let misnamed = misnamed.into_iter().chain(misruled);
    let agents = program.agent_problems().await;
    let others = guidance::problems(program.guidance()).chain(agents).collect::<Vec<_>>();
    let output = program.output().err();
    program.problems.extend(
        missing.into_iter().chain(refused).chain(crowded).chain(misnamed).chain(others).chain(output),
    );
    let components = match program.manifest.build {
        Some(_) => {
            let context = InstallContext::new(options, &program.manifest)?;
            component::of_program(&program.manifest, context.engine()?).await
        }
        None => Vec::new(),
    };
    program.close().await;
    let (warnings, errors): (Vec<_>, Vec<_>) =
        program.problems.iter().cloned().partition(Problem::is_warning);
    let report = (!errors.is_empty()).then(|| program.manifest.report(errors));
    let is_good = report.is_none() && components.iter().all(|one| one.findings.errors.is_empty());
    if terminal.json {
        terminal.json(&as_json(&program, &components, &unknown))?;
        return Ok(if is_good { Exit::Success } else { Exit::Program });
    }
    match &report {
        Some(report) => terminal.report(report),
        None => terminal.data(&summary(&program, components.is_empty() && warnings.is_empty()))?,
    }
    terminal.warn(&program.manifest.report(warnings));
    for line in &program.uncallable {
        terminal.message(format!("not callable: {line}"));
    }
    for line in &unknown {
        terminal.message(format!("not checked: {line}"));
    }
    for hook in program.hooks() {
        terminal.message(format!("the hook `{}` {hook}", hook.name));
    }
    for line in tools::mended_server_lines(&program).into_iter().chain(tools::mended_lines(&program.toolbox))
    {
        terminal.message(line);
    }
    for component in &components {
        component.report(terminal)?;
    }
    if is_good && !components.is_empty() {
        terminal.message("next: `haft call TOOL`, or `haft plugin pack` to ship more than the component");
    }
    Ok(if is_good { Exit::Success } else { Exit::Program })
}

fn as_json(program: &Program, components: &[Checked], unknown: &[String]) -> Value {
    let problems: Vec<_> = program.problems.iter().map(|problem| described(program, problem)).collect();
    let components: Vec<_> = components.iter().map(Checked::json).collect();
    let (agents_md, skills) = guidance::as_json(program.guidance());
    json!({
        "tools": program.toolbox.entries().len(),
        "problems": problems,
        "uncallable": program.uncallable,
        "unchecked": unknown,
        "mended": tools::mended_json(program),
        "components": components,
        "agents_md": agents_md,
        "skills": skills,
    })
}

/// `[host_requirements]` that are not on PATH. Looked up, never run.
fn missing(program: &Program) -> Vec<Problem> {
    let required = program.manifest.host_requirements.required.iter();
    let missing = required.filter(|name| find_on_path(name).is_none());
    let problem = |name: &haft_manifest::Located<String>| {
        let problem =
            Problem::new(format!("`{}` is required by this program and is not installed", name.value));
        problem.at(name.span, "not found on PATH").hint("install it, or add its directory to PATH")
    };
    missing.map(problem).collect()
}

/// Command tools whose program does not exist. Looked up, never run.
fn missing_commands(program: &Program) -> Vec<Problem> {
    let folder = &program.manifest.folder;
    let problem = |tool: &CommandTool| {
        let word = tool.command.value.first()?;
        let own = word.contains('/').then(|| folder.join(word.trim_start_matches("./")));
        let (label, hint) = match &own {
            Some(file) if is_executable(file) => return None,
            Some(file) if file.is_file() => ("not executable", format!("`chmod +x {}`", file.display())),
            Some(file) => ("no such file", format!("expected at `{}`", file.display())),
            None if find_on_path(word).is_some() => return None,
            None => (
                "not found on PATH",
                "install it, or add its directory to PATH; a file beside program.toml is written `./…`"
                    .into(),
            ),
        };
        let text = format!("command tool `{}` cannot run `{word}`", tool.name.as_str());
        Some(Problem::new(text).at(tool.command.span, label).hint(hint))
    };
    program.manifest.tools.iter().filter_map(problem).collect()
}

/// MCP servers whose program does not exist, also where their tools are remembered. Looked up, never run.
fn missing_servers(program: &Program) -> Vec<Problem> {
    let declared = program.manifest.mcp_servers.iter().filter(|server| server.enabled);
    let problem = |server: &McpServer| {
        let Transport::Stdio { command, .. } = &server.transport else { return None };
        let is_reported = program.problems.iter().any(|problem| problem.span() == Some(server.name.span));
        let mut running = program.servers.iter().filter(|_| !is_reported);
        let config = running.find(|running| running.config().name == server.name.as_str())?.config();
        let error = config.program().err()?;
        let problem = Problem::new(format!("MCP server `{}` {error}", server.name.as_str()));
        let problem = problem.at(command.span, "this command");
        Some(error.hints().into_iter().fold(problem, Problem::hint))
    };
    declared.filter_map(problem).collect()
}

/// What the sandbox refused MCP servers that started all the same.
async fn refused(program: &Program) -> Vec<Problem> {
    let declared = &program.manifest.mcp_servers;
    let mut problems = Vec::new();
    for server in program.servers.iter() {
        let (name, hints) = (&server.config().name, server.refused().await);
        let problem = Problem::new(format!("MCP server `{name}` was denied access when it started"));
        let place = declared.iter().find(|declared| declared.name.as_str() == name);
        let problem = match place {
            Some(declared) => problem.at(declared.name.span, "this server"),
            None => problem,
        };
        problems
            .extend((!hints.is_empty()).then(|| hints.into_iter().fold(problem.warning(), Problem::hint)));
    }
    problems
}

/// A `tool_budget` that not even the two tools fit that stand for all others.
fn crowded(program: &Program) -> Option<Problem> {
    let budget = program.manifest.agent.tool_budget?;
    let tools = program.agent_tools(&[]);
    let cost = tokens(tools.defs().into_iter().map(bytes).sum());
    let is_met = usize::try_from(budget).is_ok_and(|budget| cost <= budget);
    let problem = || {
        Problem::new(format!("`tool_budget = {budget}` in `[agent]` is too small for any tool"))
            .hint(format!("the two tools that find and run the others need about {cost} tokens"))
    };
    (!is_met).then(problem)
}

fn described(program: &Program, problem: &Problem) -> Value {
    let place = problem.span().map(|span| program.manifest.source.place(span));
    let is_warning = problem.is_warning();
    json!({ "message": problem.message(), "place": place, "hints": problem.hints(), "warning": is_warning })
}

/// What the MCP servers that are processes, and the commands, were granted, a line each.
fn processes(manifest: &Manifest) -> String {
    let line = |kind: &str, name: &str, grant: Option<&ProcessGrant>| {
        let Some(grant) = grant else {
            return format!("\n{kind} `{name}` has no grant of its own: it has the program's default");
        };
        let has_network = !grant.services.is_empty() || !grant.rights.hosts.is_empty();
        let network = if has_network { "" } else { "; no network" };
        let rights: Vec<_> = grant.all().iter().map(Right::to_string).collect();
        let rights = if rights.is_empty() { "nothing".to_owned() } else { rights.join(", ") };
        format!("\n{kind} `{name}` is granted {rights}{network}")
    };
    let is_process =
        |server: &&McpServer| server.enabled && matches!(server.transport, Transport::Stdio { .. });
    let servers = manifest.mcp_servers.iter().filter(is_process);
    let servers = servers.map(|server| {
        let skill =
            server.skill.as_ref().map(|folder| format!(", as a server of the skill in {}", folder.display()));
        line("server", server.name.as_str(), server.grant.as_ref()) + &plain(&skill.unwrap_or_default())
    });
    let commands = manifest.tools.iter();
    let commands = commands.map(|tool| line("command", tool.name.as_str(), tool.grant.as_ref()));
    let secrets = manifest.process_secrets().map(|(process, secret)| {
        let hosts = secret.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let rules = if secret.allow.is_empty() { "" } else { ", for some requests" };
        format!(
            "\n`{process}` has a placeholder of the secret `{}`, which haft sends to {hosts}{rules}",
            secret.name.value
        )
    });
    servers.chain(commands).chain(secrets).collect()
}

/// `is_all`: whether nothing else is told, which could be a problem.
fn summary(program: &Program, is_all: bool) -> String {
    let file = match program.manifest.source.name() {
        "" => "no program.toml: the built-in tools only",
        name => name,
    };
    let tools = counted(program.toolbox.entries().len(), "tool");
    let plugins = counted(program.manifest.plugins.len(), "plugin");
    let mode = program.manifest.sandbox.mode.as_str();
    let write: Vec<_> =
        program.grant.writable().roots().iter().map(|root| root.path().display().to_string()).collect();
    let commands = program
        .backend
        .as_ref()
        .map(|backend| format!("\ncommands run on {}: {}", backend.summary(), backend.confinement()));
    let told = guidance::summary(program.guidance());
    let verdict = if is_all { "\nno problems found" } else { "" };
    format!(
        "{file}\n{tools}, {plugins}\nsandbox mode `{mode}`: may write {}{}{}{told}{verdict}",
        write.join(", "),
        processes(&program.manifest),
        commands.unwrap_or_default()
            + &proposed_pane(program.is_without_pane).map(|hint| format!("\n{hint}")).unwrap_or_default()
    )
}
