//! Tools that start processes: `bash` and the commands of program.toml. Where program.toml asks for
//! a person's approval, none of them runs without.

use std::path::PathBuf;
use std::sync::Arc;

use super::assembly::Assembly;
use super::{approvals, under};
use haft_core::grant::{Grant, SandboxMode};
use haft_core::report::Problem;
use haft_manifest::{CommandTool as Declared, Located, Manifest, Sandbox};
use haft_sandbox::Backend;
use haft_sandbox::confine::Confiner;
use haft_sandbox::native::command::{self, CommandSpec, CommandTool};
use haft_sandbox::native::deny::Denied;
use haft_sandbox::native::{Family, NATIVE, Native, Settings};

/// The native tools of one family: those of this machine, or those of the target where there is
/// one, whether it could be asked for or not.
pub(super) fn add_native(
    assembly: &mut Assembly<'_>,
    confiner: &Confiner,
    grant: &Grant,
    (backend, one_call): (Option<Arc<dyn Backend>>, bool),
) -> anyhow::Result<()> {
    let builtins = &assembly.manifest.builtins;
    let denied = Denied::new(under::denied(assembly.manifest, assembly.under()));
    let bash_timeout = builtins.shell_timeout;
    let reach = reach(&assembly.manifest.sandbox);
    let settings = Settings { confiner: confiner.clone(), bash_timeout, denied, reach, backend, one_call };
    let is_target = assembly.is_target;
    let is_on = |native: &&Native| match native.family {
        Family::Workspace => builtins.shell && !is_target,
        Family::Shell => builtins.shell,
        Family::Files => builtins.files,
        Family::Screen => builtins.tmux,
    };
    for native in NATIVE.iter().filter(is_on) {
        let Some(tool) = (native.build)(&settings) else { continue };
        let limits = (native.limits)(&settings);
        let is_shell = matches!(native.family, Family::Workspace | Family::Shell);
        let approval = (is_shell && builtins.shell_confirm).then(approvals::for_bash);
        let on = if is_shell { builtins.on.shell.as_slice() } else { &[] };
        assembly.insert_on(on, (tool, grant), limits, "built in".into(), approval)?;
    }
    Ok(())
}

/// What a model is told beforehand of what commands may reach. With the paths as they are written: a definition is the same
/// on every machine that runs the program.
fn reach(sandbox: &Sandbox) -> String {
    let listed = |paths: &[Located<PathBuf>]| {
        paths.iter().map(|path| format!(", `{}`", path.value.display())).collect::<String>()
    };
    let written = match sandbox.mode {
        SandboxMode::Rwx => "Files can be written anywhere".to_owned(),
        SandboxMode::Sandbox | SandboxMode::Rx => format!(
            "Files can be written in the workspace, `~/.haft`, the directory for temporary files{} and nowhere else",
            listed(&sandbox.write)
        ),
    };
    let read = sandbox
        .read
        .as_deref()
        .map(|read| format!("; of others only these can be read: {}", listed(read).trim_start_matches(", ")));
    let network = if sandbox.network { "" } else { "; there is no network" };
    format!("{written}{}{network}.", read.unwrap_or_default())
}

/// The commands that program.toml declares.
pub(super) fn add_commands(
    assembly: &mut Assembly<'_>,
    confiner: &Confiner,
    grant: &Grant,
) -> anyhow::Result<()> {
    let Some(program) = &assembly.manifest.program else { return Ok(()) };
    for tool in &assembly.manifest.tools {
        add_command(assembly, program.name.as_str(), tool, confiner, grant)?;
    }
    Ok(())
}

fn add_command(
    assembly: &mut Assembly<'_>,
    program: &str,
    tool: &Declared,
    confiner: &Confiner,
    grant: &Grant,
) -> anyhow::Result<()> {
    let spec = command_spec(assembly.manifest, program, tool);
    let (exposed, alias) =
        (command::exposed_name(&spec.program, &spec.tool), format!("program:{}:{}", spec.program, spec.tool));
    let origin = format!("`[[tools]]` at {}", assembly.manifest.source.place(tool.name.span));
    let grant = tool.env.iter().fold(grant.clone(), Grant::with_env);
    match CommandTool::new(confiner.clone(), spec) {
        Ok(command) => {
            let limits = command.limits();
            let command = Arc::new(command);
            let approval = tool.confirm.then(|| approvals::for_command(command.name()));
            assembly.insert_on(&tool.on, (command, &grant), limits, origin, approval)?;
            assembly.toolbox.alias(alias, &exposed);
        }
        Err(error) => {
            let problem =
                Problem::new(format!("command tool `{}` cannot be used: {error}", tool.name.as_str()));
            assembly.problems.push(problem.at(tool.command.span, "this command"));
        }
    }
    Ok(())
}

/// What a command tool of program.toml runs.
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
    }
}
