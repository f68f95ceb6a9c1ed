//! Tools that start processes: `bash` and the commands of program.toml and of packages. If program.toml requires
//! the user's approval, no such tool runs without it.

use std::path::PathBuf;
use std::sync::Arc;

use super::contribution::{Contribution, NewTool};
use super::packages::{self, Installed};
use super::patterns::select;
use super::rights::Rights;
use super::under;
use haft_core::grant::{Grant, RightsTable, SandboxMode};
use haft_core::report::Problem;
use haft_manifest::{CommandTool as Declared, Located, Manifest, Sandbox};
use haft_sandbox::Backend;
use haft_sandbox::native::command::{self, CommandSpec, CommandTool};
use haft_sandbox::native::deny::Denied;
use haft_sandbox::native::script::{ScriptsSpec, ScriptsTool};
use haft_sandbox::native::{Family, NATIVE, Native, Settings};

/// Returns the native tools of this machine or, if a target is selected, those for the target, even if `backend` is
/// unavailable.
pub(super) fn native(rights: &Rights<'_>, backend: Option<Arc<dyn Backend>>) -> Vec<NewTool> {
    let Rights { options, manifest, confiner, .. } = rights;
    let builtins = &manifest.builtins;
    let settings = Settings {
        confiner: confiner.clone(),
        bash_timeout: builtins.shell_timeout,
        denied: Denied::new(under::denied(manifest, options.under.as_ref())),
        reach: reach(&manifest.sandbox),
        backend,
        one_call: options.only.is_some(),
    };
    let is_on = |native: &&Native| match native.family {
        Family::Workspace => builtins.shell && rights.target.is_none(),
        Family::Shell => builtins.shell,
        Family::Files => builtins.files,
        Family::Screen => builtins.tmux,
    };
    let new = |native: &Native| {
        let (tool, limits) = ((native.build)(&settings)?, (native.limits)(&settings));
        let is_shell = matches!(native.family, Family::Workspace | Family::Shell);
        Some(NewTool {
            asking: (is_shell && builtins.shell_confirm).then(|| under::SHELL_CONFIRM.to_owned()),
            on: if is_shell { builtins.on.shell.clone() } else { Vec::new() },
            ..NewTool::new(tool, rights.grant.clone(), limits, "built in".into())
        })
    };
    NATIVE.iter().filter(is_on).filter_map(new).collect()
}

/// Returns the text for models about the rights of commands. Paths are literal, so that the definition is equal on
/// every machine that runs the program.
fn reach(sandbox: &Sandbox) -> String {
    let listed = |paths: &[Located<PathBuf>]| {
        paths.iter().map(|path| format!(", `{}`", path.value.display())).collect::<String>()
    };
    let written = match sandbox.mode {
        SandboxMode::Rwx => "Files can be written anywhere".to_owned(),
        SandboxMode::Sandbox | SandboxMode::Rx => format!(
            "Files can be written only in these places: the workspace, `~/.haft`, the directory for temporary files{}",
            listed(&sandbox.write)
        ),
    };
    let read = sandbox.read.as_deref().map(|read| {
        format!("; of other directories only these are readable: {}", listed(read).trim_start_matches(", "))
    });
    let only = "; of the network only these hosts are reachable: ";
    let network = sandbox.network_in_words("", "; there is no network", only);
    format!("{written}{}{network}.", read.unwrap_or_default())
}

/// Returns the commands of program.toml and of packages. A package's commands see the variables granted to the
/// package, and read its files.
pub(super) fn commands(rights: &Rights<'_>) -> Contribution {
    let (manifest, mut found) = (rights.manifest, Contribution::default());
    let all = manifest.tools.iter().zip(&rights.processes.commands);
    let own = manifest.program.iter().flat_map(|program| all.clone().map(move |tool| (program, tool)));
    for (program, (tool, own)) in own {
        let grant = tool.env.iter().fold(own.grant.clone(), Grant::with_env);
        let origin = format!("`[[tools]]` at {}", manifest.source.place(tool.name.span));
        match command(rights, (manifest, program.name.as_str()), tool, (grant, &own.table), origin) {
            Ok(new) => found.tools.push(NewTool { on: tool.on.clone(), ..new }),
            Err(problem) => found.problems.push(problem.at(tool.command.span, "this command")),
        }
    }
    for (Installed { declared, bundle, .. }, processes) in rights.installed.iter().zip(&rights.of_packages) {
        let (program, span) = (declared.name.as_str(), declared.name.span);
        for (tool, own) in bundle.manifest.tools.iter().zip(&processes.commands) {
            if !select(declared.tools.as_deref(), &command::exposed_name(program, tool.name.as_str())) {
                continue;
            }
            let env = tool.env.iter().filter(|name| declared.grant.env.contains(name));
            let grant = env.fold(own.grant.clone(), Grant::with_env);
            let origin = packages::origin(manifest, declared);
            if let Some(spec) = bundle.scripts(tool.name.as_str()) {
                let scripts = Arc::new(ScriptsTool::new(
                    rights.confiner.clone(),
                    ScriptsSpec { table: own.table.clone(), ..spec },
                ));
                let new = NewTool::new(scripts, grant, ScriptsTool::limits(), origin);
                found.tools.push(NewTool { package: Some(span), ..new });
                continue;
            }
            match command(rights, (&bundle.manifest, program), tool, (grant, &own.table), origin) {
                Ok(new) => found.tools.push(NewTool { package: Some(span), ..new }),
                Err(problem) => found.problems.push(problem.at(span, "this package")),
            }
        }
    }
    found
}

/// Returns a command as a tool of `program`, which `manifest` declares.
fn command(
    rights: &Rights<'_>,
    (manifest, program): (&Manifest, &str),
    tool: &Declared,
    (grant, table): (Grant, &RightsTable),
    origin: String,
) -> Result<NewTool, Problem> {
    let spec = CommandSpec { table: table.clone(), ..command_spec(manifest, program, tool) };
    let alias = Some(format!("program:{}:{}", spec.program, spec.tool));
    let command = CommandTool::new(rights.confiner.clone(), spec).map_err(|error| {
        Problem::new(format!("command tool `{}` cannot be used: {error}", tool.name.as_str()))
    })?;
    let (limits, name) = (command.limits(), command.name());
    let asking = tool.confirm.then(|| format!("`confirm = true` of `{name}` in `[[tools]]`"));
    Ok(NewTool { asking, alias, ..NewTool::new(Arc::new(command), grant, limits, origin) })
}

/// Returns the specification of a command tool of program.toml.
pub fn command_spec(manifest: &Manifest, program: &str, tool: &Declared) -> CommandSpec {
    let names = |names: &[Located<String>]| names.iter().map(|name| name.value.clone()).collect();
    CommandSpec {
        program: program.to_owned(),
        tool: tool.name.as_str().to_owned(),
        description: tool.description.clone(),
        command: tool.command.value.clone(),
        folder: manifest.folder.clone(),
        arguments: tool.arguments.clone(),
        extra_args: tool.extra_args,
        required: names(&manifest.host_requirements.required),
        optional: names(&manifest.host_requirements.optional),
        timeout: tool.timeout,
        limits: tool.limits,
        table: RightsTable::None,
    }
}
