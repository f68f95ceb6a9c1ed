//! A server in the form of program.toml. Secrets in the client's file are named and not copied.

use std::path::Path;

use haft_core::secret::is_credential;
use haft_manifest::{Name, SecretSource, TextOrSecret, Variable};

use super::client::Machine;
use super::config::Config;
use super::secret::{hidden, is_in_address, is_secret};
use super::server::{Process, Server, Start};
use super::variable::{Folders, Part, parts};

/// A server for program.toml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramServer {
    /// The server's name in program.toml.
    pub name: Name,
    /// The program with its arguments; empty with a URL.
    pub command: Vec<String>,
    /// The URL, without a command.
    pub url: Option<String>,
    /// Variables, or the headers of an address.
    pub values: Vec<(String, TextOrSecret)>,
    /// Whether the server is used.
    pub enabled: bool,
    /// Notes and tasks for the user, one a line.
    pub notes: Vec<String>,
}

/// Reads values in the notation of a client.
struct Reader<'a> {
    config: &'a Config,
    folders: Folders<'a>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    name: &'a str,
    notes: Vec<String>,
}

impl ProgramServer {
    /// Converts `server` of a client's file to program.toml; `environment` has the user's variables.
    ///
    /// # Errors
    /// The reason why program.toml cannot express it, as text.
    pub fn of(
        config: &Config,
        server: &Server,
        machine: &Machine,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut reader = Reader {
            config,
            folders: Folders { home: &machine.home, project: &machine.project },
            environment,
            name: &server.name,
            notes: Vec::new(),
        };
        let (command, url, values) = match &server.start {
            Start::Elsewhere => {
                return Err("its entry has neither a command nor a URL".to_owned());
            }
            Start::Process(process) => {
                let mut values = reader.values(&process.env)?;
                values.extend(reader.passed(process, &config.variables_of_file(server, machine)));
                reader.note_directory(process, &machine.project);
                (reader.command(process)?, None, values)
            }
            Start::Http { url, headers, variables, bearer } => {
                let mut values = reader.values(headers)?;
                values.extend(
                    variables.iter().filter_map(|(header, name)| Some((header.clone(), secret(name)?))),
                );
                values.extend(bearer.iter().filter_map(|name| reader.bearer(name)));
                let whole = reader.text(url, "its address")?;
                if is_in_address(url) || is_in_address(&whole) {
                    return Err("its address may contain a key and was not copied".to_owned());
                }
                (Vec::new(), Some(whole), values)
            }
        };
        let name = Name::of_text(&server.name)
            .map_err(|_| format!("`{}` cannot be converted to a name for program.toml", server.name))?;
        if name.as_str() != server.name {
            reader.notes.push(format!("its name there is `{}`", name.as_str()));
        }
        Ok(Self { name, command, url, values, enabled: server.enabled, notes: reader.notes })
    }
}

impl Reader<'_> {
    fn parts(&self, text: &str) -> Vec<Part> {
        parts(text, self.config.client.notation, self.folders)
    }

    /// Returns `text` with the variables expanded, which must not be secrets; `what` names it in the error.
    fn text(&self, text: &str, what: &str) -> Result<String, String> {
        let read = self.parts(text).into_iter().map(|part| match part {
            Part::Text(text) => Ok(text),
            Part::Variable(name, default) => match (self.environment)(&name).or(default) {
                value
                    if is_credential(&name)
                        || value.as_deref().is_some_and(|value| is_secret(&name, value)) =>
                {
                    Err(format!("{what} contains the secret `{name}`, which program.toml cannot store"))
                }
                Some(value) => Ok(value),
                None => Err(format!(
                    "{what} contains the variable `{name}`, which is not set; set it and run the command \
                     again"
                )),
            },
            Part::Input(id) => Err(format!("{what} contains `{id}`, an input of the client")),
            Part::File(path) => Err(format!("{what} contains the content of `{path}`")),
        });
        read.collect()
    }

    fn command(&self, process: &Process) -> Result<Vec<String>, String> {
        // The rights of program.toml replace those of `haft wrap`.
        let written = process.own_words();
        let words = written.iter().map(|word| self.text(word, "its command line"));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        if hidden(written) != written || hidden(&words) != words {
            return Err("its command line contains a secret; pass the secret in a variable first".to_owned());
        }
        Ok(words)
    }

    /// Returns variables or headers with their values.
    fn values(&mut self, pairs: &[(String, String)]) -> Result<Vec<(String, TextOrSecret)>, String> {
        pairs.iter().map(|(name, text)| Ok((name.clone(), self.value(name, text)?))).collect()
    }

    fn value(&mut self, name: &str, text: &str) -> Result<TextOrSecret, String> {
        let is_private = |part: &Part| match part {
            Part::Text(text) => is_secret(name, text),
            Part::Variable(variable, _) => is_credential(variable) || is_credential(name),
            Part::File(_) | Part::Input(_) => true,
        };
        let parts = self.parts(text);
        match parts.as_slice() {
            [part @ Part::Variable(variable, default)] if default.is_none() || is_private(part) => {
                return secret(variable).ok_or_else(|| format!("`{variable}` is not a valid variable name"));
            }
            [Part::File(path)] => return Ok(TextOrSecret::Secret(SecretSource::File(path.into()))),
            parts if !parts.iter().any(is_private) => {
                return self.text(text, &format!("`{name}`")).map(TextOrSecret::Text);
            }
            _ => {}
        }
        let variable = self.own_variable(name);
        let source = match parts.as_slice() {
            [Part::Text(_)] => {
                format!("its value is in `{}` and was not copied", self.config.path.display())
            }
            [Part::Input(id)] => format!("{} asks for it as `{id}`", self.config.client.title),
            _ => format!(
                "it must contain the whole value, which is combined in `{}`",
                self.config.path.display()
            ),
        };
        self.notes
            .push(format!("set the variable `{variable}`, or change the place of the secret: {source}"));
        secret(&variable).ok_or_else(|| format!("`{name}` is not a valid variable name"))
    }

    /// Returns the variable that holds the value of `name`: a variable's own, or one for a header of this server.
    fn own_variable(&self, name: &str) -> String {
        if name.parse::<Variable>().is_ok() && !name.eq_ignore_ascii_case("authorization") {
            return name.to_owned();
        }
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable: String = format!("{}_{name}", self.name).chars().map(word).collect();
        if variable.starts_with(|c: char| c.is_ascii_digit()) { format!("_{variable}") } else { variable }
    }

    /// Variables that are not from the file: those of the client's environment, and of its `envFile`.
    fn passed(
        &mut self,
        process: &Process,
        of_file: &std::io::Result<Vec<String>>,
    ) -> Vec<(String, TextOrSecret)> {
        let file = process.env_file.as_deref().unwrap_or_default();
        let names = match of_file {
            Ok(names) => names.as_slice(),
            Err(error) => {
                self.notes.push(format!("the variables of `{file}` are not known: {error}"));
                &[]
            }
        };
        if !names.is_empty() {
            self.notes.push(format!("set {} as in `{file}`", names.join(", ")));
        }
        let all = process.passed.iter().chain(names);
        all.filter_map(|name| Some((name.clone(), secret(name)?))).collect()
    }

    /// Returns the header with the bearer token in the variable `name`.
    fn bearer(&mut self, name: &str) -> Option<(String, TextOrSecret)> {
        let variable = self.own_variable("Authorization");
        self.notes
            .push(format!("set the variable `{variable}` to `Bearer ` with the value of `{name}` behind it"));
        Some(("Authorization".to_owned(), secret(&variable)?))
    }

    fn note_directory(&mut self, process: &Process, project: &Path) {
        let Some(cwd) = &process.cwd else { return };
        if self.text(cwd, "").map(|cwd| project.join(cwd)).as_deref() != Ok(project) {
            self.notes.push(format!(
                "its working directory was `{cwd}`; servers of program.toml start in its folder"
            ));
        }
    }
}

fn secret(variable: &str) -> Option<TextOrSecret> {
    variable.parse().ok().map(|variable| TextOrSecret::Secret(SecretSource::Env(variable)))
}

#[cfg(test)]
mod tests;
