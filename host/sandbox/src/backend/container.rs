//! A running container as a target, through `docker` or `podman`. The container is the sandbox: haft mounts nothing
//! into it and restricts nothing in it. Never starts a container, and refuses a name that a container of each
//! engine has.

use std::ffi::OsString;
use std::time::Duration;

use async_trait::async_trait;

use crate::HostContext;
use crate::backend::transport::{Line, Messenger, RunAs, SHELL, Transport};
use crate::error::{BackendError, check_name, joined_lines};
use crate::process::{self, ExitReason, Output, ProcessSpec};
use haft_core::lookup::HostPrograms;
use haft_core::tool::Own;
use haft_manifest::{ContainerEngine, ProcessLimits};

/// Time limit for an engine's response; an engine without its service never responds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit on the characters of an engine's output.
const MAX_WORDS: usize = 2000;

#[derive(Debug)]
pub(crate) struct Container {
    name: String,
    engine: ContainerEngine,
    messenger: Messenger,
}

impl Container {
    /// Finds the engine with the container and checks that the container runs.
    pub(crate) async fn find(
        host_context: &HostContext,
        name: &str,
        engine: Option<ContainerEngine>,
    ) -> Result<Self, BackendError> {
        check(name)?;
        let all = ContainerEngine::ALL.iter().map(|(_, engine)| *engine);
        let candidates = all.filter(|own| engine.is_none_or(|engine| engine == *own));
        let messenger = Messenger::new(host_context);
        let there: Vec<_> = candidates.filter(|engine| messenger.has(engine.as_str())).collect();
        if there.is_empty() {
            return Err(BackendError::Target(match engine {
                Some(engine) => HostPrograms::missing(engine.as_str()),
                None => "neither `docker` nor `podman` was found in PATH".into(),
            }));
        }
        let mut failures = Vec::new();
        for engine in there {
            let container = Self { name: name.to_owned(), engine, messenger: messenger.clone() };
            match container.state().await? {
                Ok(state) if state == "true" => return Ok(container),
                Ok(_) => failures.push(container.stopped()),
                Err(words) => failures.push(format!("`{}`: {words}", engine.as_str())),
            }
        }
        Err(BackendError::Unreachable(format!("no running container `{name}`: {}", failures.join("; "))))
    }

    fn stopped(&self) -> String {
        let Self { name, engine, .. } = self;
        let engine = engine.as_str();
        format!("the container `{name}` is not running; `{engine} start {name}` starts it")
    }

    /// Returns the container's state as the engine prints it, or the engine's error.
    async fn state(&self) -> Result<Result<String, String>, BackendError> {
        let words = ["container", "inspect", "--format", "{{.State.Running}}", "--", &self.name];
        let line = self.messenger.line(self.engine.as_str(), words.map(OsString::from).into())?;
        let job = ProcessSpec {
            program: line.program,
            arguments: line.arguments,
            environment: line.environment,
            input: Vec::new(),
            output: Output::Separate,
            limit: MAX_WORDS,
            timeout: PATIENCE,
            limits: ProcessLimits::default(),
        };
        let owner = Own::default();
        let mut finished =
            process::run(&line.confiner, &job, "container", &owner.context(&line.grant)).await?;
        let words = finished.stderr.as_mut().map(|text| text.render(MAX_WORDS)).unwrap_or_default();
        Ok(match finished.end {
            ExitReason::Exited(status) if status.success() => {
                Ok(finished.stdout.render(MAX_WORDS).trim().to_owned())
            }
            ExitReason::Exited(_) => Err(joined_lines(&words)),
            ExitReason::TimedOut | ExitReason::Cancelled => {
                Err(format!("no answer within {} s", PATIENCE.as_secs()))
            }
        })
    }
}

#[async_trait]
impl Transport for Container {
    fn name(&self) -> String {
        format!("container:{} (via {})", self.name, self.engine.as_str())
    }

    fn kind(&self) -> &'static str {
        "container"
    }

    fn confinement(&self) -> String {
        "confined by the container: haft does not change its mounts or rights".into()
    }

    async fn line(&self, _: RunAs<'_>) -> Result<Line, BackendError> {
        let words = ["exec", interactive(self.engine), "--", &self.name].into_iter().chain(SHELL);
        self.messenger.line(self.engine.as_str(), words.map(OsString::from).collect())
    }

    async fn lost(&self, words: &str) -> String {
        let words = if words.is_empty() { String::new() } else { format!(" ({})", joined_lines(words)) };
        match self.state().await {
            Ok(Ok(state)) if state == "true" => {
                format!("the command was cut off in the container `{}`{words}", self.name)
            }
            Ok(Ok(_)) => format!("{}{words}", self.stopped()),
            Ok(Err(why)) => format!("the container `{}` no longer exists: {why}{words}", self.name),
            Err(error) => format!("the container `{}` cannot be reached: {error}{words}", self.name),
        }
    }
}

/// Checks a container's name or identifier, which must not look like an option.
fn check(name: &str) -> Result<(), BackendError> {
    let expected = "expected letters, digits, `_`, `.` and `-`, a letter or digit first";
    check_name(("container", name), (&['_', '.', '-'], MAX_NAME), expected)
}

/// Returns the option for a command that reads standard input.
fn interactive(engine: ContainerEngine) -> &'static str {
    match engine {
        ContainerEngine::Docker => "-i",
        ContainerEngine::Podman => "--interactive",
    }
}

/// Limit on the characters of a name; an identifier has 64.
const MAX_NAME: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    /// BE03: a container's name cannot be an option.
    #[test]
    fn a_container_s_name_is_never_an_option() {
        for name in ["web", "a1b2c3", "my_app-1.2"] {
            check(name).unwrap();
        }
        for name in ["-it", "--privileged", "", "a b", "a;b", "a/b", "$(id)", "a\nb", "é"] {
            assert!(check(name).unwrap_err().to_string().starts_with("invalid container `"), "{name}");
        }
    }
}
