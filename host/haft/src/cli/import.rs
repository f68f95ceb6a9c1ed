//! `haft import`: puts MCP servers of other clients' configuration files behind `haft wrap` or into program.toml, and
//! reverts these changes.

mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use haft::program::Dirs;
use secrecy::SecretString;
use serde_json::json;

use self::table::Found;
use super::Exit;
use super::install_session::{project_error, put};
use super::serve::snippet::{own_path, text};
use super::terminal::{DIM, Hinted, Terminal, did_you_mean};
use haft_core::lookup::find_on_path;
use haft_core::report::plain;
use haft_import::{
    Client, Config, Kept, Machine, Originals, ProgramServer, Server, Start, Undone, is_secret,
};
use haft_package::edit::{self, NewServer};
use haft_package::{Project, ProjectError};

#[derive(Debug, Args)]
#[command(after_help = "\
SOURCE is `claude`, `codex`, `gemini`, `cursor`, `vscode`, `zed`, `opencode`, or a file of one of them; without \
SOURCE, haft reads all of them. haft puts `haft wrap NAME --` in front of the command of each server that you \
choose and changes no other byte of the file. Servers over HTTP are not changed.

Examples:
  haft import claude                 asks about each server
  haft import cursor --only github
  haft import codex --to program.toml
  haft import --undo claude          restores its files, byte for byte")]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, as a command line has them")]
pub(super) struct Import {
    /// A client, or a configuration file
    source: Option<String>,
    /// Choose all servers without a question
    #[arg(short, long)]
    yes: bool,
    /// Choose this server without a question
    #[arg(long, value_name = "NAME", conflicts_with = "yes")]
    only: Vec<String>,
    /// List the servers, and write nothing
    #[arg(long, conflicts_with_all = ["yes", "only", "to"])]
    list: bool,
    /// Write the servers to this program.toml, and do not change the client's files
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Restore the files as they were before `haft import`
    #[arg(long, conflicts_with_all = ["yes", "only", "list", "to"])]
    undo: bool,
    /// Restore a file that was edited later: the edits are lost
    #[arg(long, requires = "undo")]
    force: bool,
    /// Only remove `haft wrap` from a file that was edited later
    #[arg(long, requires = "undo", conflicts_with = "force")]
    unwrap: bool,
}

/// The places of files on this machine.
pub(super) struct Setting {
    machine: Machine,
    originals: Originals,
    /// The command that starts haft, for configuration files.
    haft: String,
}

impl Setting {
    fn of_this_machine() -> anyhow::Result<Self> {
        let dirs = Dirs::of_this_machine()?;
        let config = dirs.config.parent().unwrap_or(&dirs.config).to_owned();
        let machine = Machine { home: dirs.home, config, project: dirs.here };
        Ok(Self { machine, originals: Originals::new(dirs.state.join("import")), haft: own_name()? })
    }

    fn shown(&self, path: &Path) -> String {
        let home = path.strip_prefix(&self.machine.home).ok();
        plain(&home.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display())))
    }
}

/// Returns `haft` if that command starts this program, otherwise the program's path.
fn own_name() -> anyhow::Result<String> {
    let own = own_path()?;
    let real = |path: &Path| path.canonicalize().ok();
    if find_on_path("haft").is_some_and(|found| real(&found) == real(&own)) {
        return Ok("haft".to_owned());
    }
    text(&own)
}

impl Import {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let setting = Setting::of_this_machine()?;
        if self.undo {
            return undo(&self, &setting, terminal);
        }
        let found = Found::of(self.source.as_deref(), &setting)?;
        hide_secrets(&found.configs, terminal);
        self.check_names(&found)?;
        for error in &found.errors {
            terminal.warning(&error.to_string());
        }
        let is_chosen = self.yes || !self.only.is_empty();
        if self.list || !(is_chosen || terminal.has_person()) {
            table::show(&found, &setting, terminal)?;
            if !self.list {
                terminal
                    .hint("nothing was written: choose all servers with `--yes`, or one with `--only NAME`");
            }
        } else if found.configs.is_empty() {
            terminal.message(found.nothing(&setting));
        } else if let Some(path) = &self.to {
            write(&self, path, &found.configs, &setting, terminal).await?;
        } else {
            self.wrap(&found.configs, &setting, terminal).await?;
        }
        Ok(if found.errors.is_empty() { Exit::Success } else { Exit::Program })
    }

    /// Returns an error if a name on the command line is not the name of a server.
    fn check_names(&self, found: &Found) -> anyhow::Result<()> {
        let names = || found.configs.iter().flat_map(|config| &config.servers).map(|one| one.name.as_str());
        for wanted in &self.only {
            if !names().any(|name| name == wanted) {
                let near = did_you_mean(wanted, names());
                let message = format!("there is no server `{}`{near}", plain(wanted));
                return Err(Hinted::new(message, "`haft import --list` shows all").into());
            }
        }
        Ok(())
    }

    /// Shows a server, asks `question`, and returns whether the user picks the server.
    async fn picks(&self, server: &Server, question: &str, terminal: Terminal) -> anyhow::Result<bool> {
        let is_asked = !self.yes && self.only.is_empty();
        let is_chosen = self.yes || self.only.contains(&server.name);
        if is_asked || is_chosen {
            terminal.message(table::line(server, None));
        }
        Ok(is_chosen || is_asked && terminal.confirm(question).await?)
    }

    async fn wrap(&self, configs: &[Config], setting: &Setting, terminal: Terminal) -> anyhow::Result<()> {
        let mut written = Vec::new();
        for config in configs {
            let mut picked = Vec::new();
            for (at, server) in config.servers.iter().enumerate() {
                if let Some(why) = table::left(server, config, setting) {
                    if self.only.is_empty() || self.only.contains(&server.name) {
                        terminal.message(table::line(server, Some(&why)));
                    }
                    continue;
                }
                let question = format!("start `{}` behind `haft wrap`?", plain(&server.name));
                if self.picks(server, &question, terminal).await? {
                    picked.push(at);
                }
            }
            if picked.is_empty() {
                continue;
            }
            self.change(config, &picked, setting, terminal)?;
            written.extend(picked.iter().filter_map(|at| config.servers.get(*at)).map(
                |server| json!({ "client": config.client.name, "file": config.path, "name": server.name }),
            ));
        }
        if terminal.json {
            terminal.json(&json!({ "wrapped": written }))?;
        } else if written.is_empty() {
            terminal.message("nothing was changed");
        }
        Ok(())
    }

    fn change(
        &self,
        config: &Config,
        picked: &[usize],
        setting: &Setting,
        terminal: Terminal,
    ) -> anyhow::Result<()> {
        for server in picked.iter().filter_map(|at| config.servers.get(*at)) {
            if let Err(error) = config.variables_of_file(server, &setting.machine) {
                terminal.warning(&format!(
                    "the `envFile` of `{}` cannot be read, and its variables are not granted: {error}",
                    plain(&server.name)
                ));
            }
        }
        let text = config.wrapped(&setting.haft, &setting.machine, picked)?;
        setting.originals.change(config.client.name, &config.path, &config.text, &text)?;
        let count = picked.len();
        let servers =
            if count == 1 { "1 server starts".to_owned() } else { format!("{count} servers start") };
        let path = setting.shown(&config.path);
        terminal.message(format_args!("{path}: from the client's next start, {servers} behind `haft wrap`"));
        terminal.hint(&format!("`haft import --undo {}` restores the file", config.client.name));
        Ok(())
    }
}

/// Registers the secrets of these files, so that no output of haft contains them.
fn hide_secrets(configs: &[Config], terminal: Terminal) {
    for server in configs.iter().flat_map(|config| &config.servers) {
        let secrets = values(server).iter().filter(|(name, value)| is_secret(name, value));
        let secrets: Vec<_> = secrets.map(|(_, value)| SecretString::from(value.clone())).collect();
        terminal.redactor().add(&secrets);
    }
}

fn values(server: &Server) -> &[(String, String)] {
    match &server.start {
        Start::Process(process) => &process.env,
        Start::Http { headers, .. } => headers,
        Start::Elsewhere => &[],
    }
}

// `haft import --to program.toml`: servers as `[[mcp_servers]]`, with references to their secrets.

/// Writes the servers that the user picks. The choice is the user's consent.
async fn write(
    import: &Import,
    path: &Path,
    configs: &[Config],
    setting: &Setting,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let project = Project::open(path).map_err(project_error)?;
    let mut names: Vec<_> =
        project.manifest.mcp_servers.iter().map(|server| server.name.value.as_str().to_owned()).collect();
    let mut text = edit::begun(&project.text, project.folder());
    for config in configs {
        for server in &config.servers {
            let question = format!("write `{}` to `{}`?", plain(&server.name), path.display());
            if !import.picks(server, &question, terminal).await? {
                continue;
            }
            let environment = |name: &str| std::env::var(name).ok();
            let translated = ProgramServer::of(config, server, &setting.machine, &environment);
            let translated = translated.and_then(|own| {
                let is_taken = names.iter().any(|name| name == own.name.as_str());
                if is_taken {
                    Err("program.toml already has a server of this name".to_owned())
                } else {
                    Ok(own)
                }
            });
            match translated {
                Ok(server) => {
                    text = added(&text, &server, path)?;
                    names.push(server.name.as_str().to_owned());
                    server
                        .notes
                        .iter()
                        .for_each(|note| terminal.message(format_args!("    {}", plain(note))));
                }
                Err(why) => {
                    terminal.warning(&format!("`{}` was not written: {}", plain(&server.name), plain(&why)));
                }
            }
        }
    }
    finish(path, &project, &text, terminal).await
}

fn added(text: &str, server: &ProgramServer, path: &Path) -> anyhow::Result<String> {
    let new = NewServer {
        name: server.name.as_str(),
        command: &server.command,
        url: server.url.as_deref(),
        values: &server.values,
        enabled: server.enabled,
    };
    edit::add_server(text, &new)
        .map_err(|error| project_error(ProjectError::Edit { path: path.to_owned(), error }))
}

async fn finish(path: &Path, project: &Project, text: &str, terminal: Terminal) -> anyhow::Result<()> {
    if text == project.text || project.text.is_empty() && !text.contains("mcp_servers") {
        terminal.message("nothing was written");
        return Ok(());
    }
    put(project, text).await?;
    terminal.message(format_args!("{DIM}{}:{DIM:#}", path.display()));
    terminal.new_lines(&project.text, text);
    terminal.hint("`haft wrap` is not needed there: program.toml sets the rights of these servers");
    Ok(())
}

// `haft import --undo`: restores the files.

/// Undoes the changes of the named client or file, or of all; the newest change comes first.
fn undo(import: &Import, setting: &Setting, terminal: Terminal) -> anyhow::Result<Exit> {
    let client = import.source.as_deref().and_then(Client::named);
    let path = import.source.as_deref().filter(|_| client.is_none()).map(std::path::absolute).transpose()?;
    // A removed file is identified by its name.
    let path = path.map(|path| path.canonicalize().unwrap_or(path));
    let is_meant = |kept: &Kept| {
        client.is_none_or(|client| client.name == kept.client)
            && path.as_ref().is_none_or(|path| *path == kept.place)
    };
    let (records, damaged) = setting.originals.all()?;
    let mut exit = if damaged.is_empty() { Exit::Success } else { Exit::Failure };
    for error in damaged {
        terminal.warning(&error.to_string());
    }
    let records: Vec<_> = records.into_iter().filter(|record| is_meant(&record.kept)).collect();
    if records.is_empty() {
        let of = import.source.iter().map(|source| format!(" of `{}`", plain(source))).collect::<String>();
        terminal.message(format_args!("there is nothing{of} to undo"));
    }
    let mut refused = Vec::new();
    for record in &records {
        let kept = &record.kept;
        // A newer change of this file could not be undone.
        if refused.contains(&&kept.place) {
            continue;
        }
        let undone = setting.originals.undo(record, |now| merged(kept, now, import, setting));
        let failure = match &undone {
            Ok(Undone::Changed(..) | Undone::Removed) => Exit::Tool,
            Ok(_) => Exit::Success,
            Err(_) => Exit::Failure,
        };
        match undone {
            Ok(undone) => tell(kept, undone, setting, terminal),
            Err(error) => terminal.warning(&error.to_string()),
        }
        if failure != Exit::Success {
            exit = failure;
            refused.push(&kept.place);
        }
    }
    Ok(exit)
}

/// Returns the new content of a file that contains `now` and was changed after the import.
fn merged(kept: &Kept, now: &str, import: &Import, setting: &Setting) -> Option<String> {
    if import.force {
        return Some(kept.old.clone());
    }
    let client = Client::named(&kept.client).filter(|_| import.unwrap)?;
    Config::of_text(client, &kept.place, now.to_owned()).ok()?.unwrapped(&setting.haft).ok()
}

fn tell(kept: &Kept, undone: Undone, setting: &Setting, terminal: Terminal) {
    let path = setting.shown(&kept.place);
    match undone {
        Undone::Restored | Undone::Unneeded => terminal.message(format_args!("restored: {path}")),
        Undone::Unwrapped => {
            terminal.message(format_args!("removed `haft wrap`, kept later changes: {path}"));
        }
        Undone::Changed(first, last) => {
            let lines =
                if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
            terminal.warning(&format!("`{path}` was edited later ({lines}) and is not changed"));
            terminal.hint(
                "`--unwrap` removes `haft wrap` and keeps these edits; `--force` restores the old file and \
                 discards them",
            );
        }
        Undone::Removed => {
            terminal.warning(&format!("`{path}` was removed later"));
            terminal.hint("`--force` creates the file again");
        }
    }
}
