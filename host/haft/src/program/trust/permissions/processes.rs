//! The permissions of a program's processes: MCP servers and commands.

use super::Finder;
use crate::program::trust::permission::{Part, own_grant, place, sent, values, words};
use haft_manifest::{CommandTool, GrantTable, McpServer, ProcessGrant, ProcessSecret, Sandbox, Transport};

impl Finder<'_> {
    pub(super) fn server(&mut self, server: &McpServer) {
        let McpServer {
            name,
            transport,
            grant,
            secrets,
            enabled: _,
            tools: _,
            pinned,
            timeout: _,
            max_result: _,
            limits: _,
            on: _,
            skill,
        } = server;
        let (name, part) = (name.as_str(), name.as_str().to_owned());
        let part = if skill.is_some() { Part::SkillServer(part) } else { Part::Server(part) };
        // One text in two folders is about different files.
        let folder = skill.as_ref().map(|folder| folder.to_string_lossy());
        let skill = folder.map(|folder| format!(" of the skill in {}", shell_words::quote(&folder)));
        let called = format!("`{name}`{}", skill.unwrap_or_default());
        let own = own_grant(grant.as_ref());
        let text = match transport {
            Transport::Stdio { command, env } => {
                format!("{called}: {}{}{own}", shell_words::join(&command.value), values("; with", env))
            }
            Transport::Http { url, headers, oauth } => {
                format!("{called} at {}{}{}", url.value, values("; header", headers), oauth.terms(place))
            }
        };
        let free = if *pinned { "" } else { "; its tools may change" };
        self.ask(part.clone(), text + free);
        self.process_granted(&part, name, grant.as_ref());
        self.process_secrets(&part, name, secrets);
    }

    pub(super) fn command(&mut self, tool: &CommandTool) {
        let CommandTool {
            name,
            command,
            env,
            arguments,
            grant,
            secrets,
            limits: _,
            // Words of a call.
            extra_args: _,
            description: _,
            timeout: _,
            confirm: _,
            on: _,
        } = tool;
        let sees = if env.is_empty() { String::new() } else { format!("; sees ${}", env.join(", $")) };
        let words: String = arguments.iter().map(words).collect();
        let (name, part) = (name.as_str(), Part::Command(name.as_str().to_owned()));
        let own = own_grant(grant.as_ref());
        let text = format!("`{name}`: {}{words}{sees}{own}", shell_words::join(&command.value));
        self.ask(part.clone(), text);
        self.process_granted(&part, name, grant.as_ref());
        self.process_secrets(&part, name, secrets);
    }

    /// Adds the secrets that haft puts into the requests of a process.
    pub(super) fn process_secrets(&mut self, part: &Part, name: &str, secrets: &[ProcessSecret]) {
        for secret in secrets {
            self.ask(part.clone(), sent(name, secret));
        }
    }

    /// Adds the rights of a process with its own grant. Paths in `deny` of `[sandbox]` are closed to the process too.
    fn process_granted(&mut self, part: &Part, name: &str, grant: Option<&ProcessGrant>) {
        let Some(ProcessGrant { rights, services }) = grant else { return };
        let deny = [&rights.deny[..], &self.manifest.sandbox.deny[..]].concat();
        self.granted(part, name, (&GrantTable { deny, ..rights.clone() }, None, &[]));
        for service in services {
            self.ask(part.clone(), format!("`{name}` {}", service.meaning()));
        }
    }

    /// Adds the rights of processes in the sandbox: otherwise a removed line in `[sandbox]` would widen rights.
    pub(super) fn children(&mut self, sandbox: &Sandbox) {
        let read = match &sandbox.read {
            None => "everything that you may read".to_owned(),
            Some(paths) if paths.is_empty() => "their writable directories".to_owned(),
            Some(paths) => self.paths(paths),
        };
        let network = sandbox.network_in_words(", with the network", "", ", and reach ");
        self.ask(Part::Children, format!("read {read}{}{network}", self.but(&sandbox.deny)));
    }
}
