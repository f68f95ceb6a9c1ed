//! The directories of this machine that haft uses, determined once. Creates only directories that tools need.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use etcetera::BaseStrategy;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use haft_agent::Sessions;
use haft_core::encoding::hex;
use haft_core::grant::{CredentialStore, Grant, Root, Why, in_home, may_be};
use haft_manifest::Manifest;
use haft_page::Desk;
use haft_sandbox::process::{caches, private};
use haft_state::Homes;

/// Maximum number of characters of a folder's name in the name of its caches.
const MAX_FOLDER_NAME: usize = 40;

/// The locations of haft. haft's own state is outside the default write rights of tools.
#[derive(Clone, Debug)]
pub struct Dirs {
    /// The start of the search for program.toml, and the base of relative paths of the command line.
    pub here: PathBuf,
    /// The user's home directory: the expansion of `~`.
    pub home: PathBuf,
    /// The directory that tools may write: `~/.haft`.
    pub data: PathBuf,
    /// The system's directory for temporary files.
    pub temporary: PathBuf,
    /// Data that haft can create again: `$XDG_CACHE_HOME/haft`.
    pub cache: PathBuf,
    /// haft's records: `$XDG_STATE_HOME/haft`.
    pub state: PathBuf,
    /// The user's settings for all programs: `$XDG_CONFIG_HOME/haft`.
    pub config: PathBuf,
    /// The caches of package managers and compilers inside the sandbox: `$XDG_CACHE_HOME/haft-sandbox`.
    pub sandbox_caches: PathBuf,
    /// Installed content, for all programs: `$XDG_DATA_HOME/haft/store`. Tools read it and never write it.
    pub store: PathBuf,
    /// The complete text of long answers of which an agent was shown a part: `$XDG_DATA_HOME/haft/answers`. Only haft
    /// writes there, and only the built-in `read` opens the files.
    pub answers: PathBuf,
    /// Private directories of MCP servers and commands: `$XDG_DATA_HOME/haft/processes`. Each process opens only its
    /// own directory.
    pub processes: PathBuf,
    /// The state of plugins: `$XDG_DATA_HOME/haft/state`. Each plugin opens only its own state.
    pub plugin_state: PathBuf,
    /// The value of [`Self::own`], once found.
    own: OnceLock<Vec<Root>>,
    /// The value of [`Self::credentials`], once found.
    credentials: OnceLock<Vec<(CredentialStore, Root)>>,
}

impl Dirs {
    /// Returns the directories of the user who runs haft.
    pub fn of_this_machine() -> anyhow::Result<Self> {
        let base = etcetera::choose_base_strategy()
            .map_err(|_| anyhow::anyhow!("no home directory; set `HOME` to the directory for `~`"))?;
        let home = base.home_dir().to_owned();
        let data = home.join(".haft");
        Ok(Self {
            here: std::env::current_dir().context("cannot find out the current directory")?,
            data,
            temporary: std::env::temp_dir(),
            cache: base.cache_dir().join("haft"),
            sandbox_caches: base.cache_dir().join("haft-sandbox"),
            state: base.state_dir().unwrap_or_else(|| home.join(".local/state")).join("haft"),
            config: base.config_dir().join("haft"),
            store: base.data_dir().join("haft/store"),
            answers: base.data_dir().join("haft/answers"),
            processes: base.data_dir().join("haft/processes"),
            plugin_state: base.data_dir().join("haft/state"),
            home,
            own: OnceLock::new(),
            credentials: OnceLock::new(),
        })
    }

    /// Returns where relative paths of `manifest` start: in its folder, or without a file in the current one.
    pub(super) fn base<'a>(&'a self, manifest: &'a Manifest) -> &'a Path {
        if manifest.file().is_some() { &manifest.folder } else { &self.here }
    }

    /// Returns the caches of commands that work in `workspace`.
    pub(super) fn caches_of(&self, workspace: &Root) -> PathBuf {
        let parts = std::iter::once(workspace.real().as_os_str().as_encoded_bytes());
        caches::written(&self.sandbox_caches.join(own_name(workspace.path(), None, parts)))
    }

    /// Returns the private directory of a process that works in the first of `folders`, and that the program.toml in
    /// the second one declares in `list` under `name` with the command `words`.
    pub(super) fn private_of(
        &self,
        folders: [&Path; 2],
        (list, name, words): (&str, &str, &[String]),
    ) -> PathBuf {
        let [workspace, _] = folders;
        let words = words.iter().map(String::as_bytes);
        let parts = folders.iter().map(|folder| folder.as_os_str().as_encoded_bytes());
        let parts = parts.chain([list.as_bytes(), name.as_bytes()]).chain(words);
        private::written(&self.processes.join(own_name(workspace, Some(name), parts)))
    }

    /// Returns the private directory of the servers of the plugin `package`, installed by the program in `folder`.
    /// Updates do not change the directory.
    pub(super) fn of_plugin(&self, folder: &Path, package: &str) -> PathBuf {
        self.private_of([folder, folder], ("packages", package, &[]))
    }

    /// Returns the caches of `npm` and `uv` during a fetch of packages.
    pub(super) fn caches_of_fetches(&self) -> PathBuf {
        caches::written(&self.sandbox_caches.join("packages"))
    }

    /// Returns the directory of the journal: below [`Self::state`].
    pub fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// Returns the directory of sessions: below [`Self::state`].
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// Returns the sessions of users, with their long answers.
    pub fn kept_sessions(&self) -> Sessions {
        Sessions::new(self.sessions()).with_answers(&self.answers).with_changes(self.state.join("changes"))
    }

    /// Returns the sessions of agents that work for other agents. They are separate from the sessions of users, so
    /// that neither evicts the other.
    pub fn agent_sessions(&self) -> Sessions {
        Sessions::new(self.sessions().join("agents")).with_answers(&self.answers)
    }

    /// Returns the storage locations of plugins: below [`Self::plugin_state`] and [`Self::cache`].
    pub fn homes(&self) -> Homes {
        Homes { state: self.plugin_state.clone(), cache: self.cache.join("plugins") }
    }

    /// Returns whether the user gets the notice `what`, a file name, for the first time, and records the notice.
    pub fn is_first_time(&self, what: &str) -> bool {
        let told = self.state.join("told");
        // Without a record the notice is repeated.
        let noted = create_private(&told).and_then(|()| File::create_new(told.join(what)));
        !noted.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
    }

    /// Returns the directory of the records of `haft wrap`: below [`Self::config`].
    pub fn wraps(&self) -> PathBuf {
        self.config.join("wrap")
    }

    /// Returns the directory of agreements to programs: below [`Self::state`].
    pub(super) fn trust(&self) -> PathBuf {
        self.state.join("trust")
    }

    /// Returns the directory of agreements to MCP servers' tools: below [`Self::state`].
    pub fn pins(&self) -> PathBuf {
        self.state.join("pins")
    }

    /// Returns the directory of logins at MCP servers: below [`Self::state`].
    pub(super) fn logins(&self) -> PathBuf {
        self.state.join("logins")
    }

    /// Returns the directory of the keys and claims of approvals: below [`Self::state`].
    pub fn approvals(&self) -> PathBuf {
        self.state.join("approvals")
    }

    /// Returns the directory of calls that wait for approval in the dashboard: below [`Self::state`].
    pub fn desk(&self) -> Desk {
        Desk::new(self.state.join("page"))
    }

    /// Creates the directory that tools may write by default, accessible to this user alone.
    pub fn create(&self) -> io::Result<()> {
        create_private(&self.data)
    }

    /// Returns haft's own directories, which no tool may read or write. Creates them, because only an existing
    /// directory can be closed. Omits a directory that haft cannot create, because no tool can create it either.
    pub fn own(&self) -> io::Result<&[Root]> {
        if let Some(known) = self.own.get() {
            return Ok(known);
        }
        let mut own = Vec::new();
        for directory in [&self.cache, &self.state, &self.config, &self.plugin_state, &self.processes] {
            own.extend(made(directory)?);
        }
        Ok(self.own.get_or_init(|| own))
    }

    /// Returns the existing files of each credential store. The next load of a program finds later ones.
    pub fn credentials(&self) -> &[(CredentialStore, Root)] {
        self.credentials.get_or_init(|| find_stores(&self.home))
    }

    /// Returns a grant that only closes paths: haft's own directories, credential stores and, for writing, the
    /// installed content. Creates the directory of installed content, because only an existing directory can be
    /// closed.
    pub(super) fn closed(&self) -> io::Result<Grant> {
        let grant = self.own()?.iter().cloned().fold(Grant::none(), Grant::with_hidden);
        let stores = self.credentials().iter().cloned();
        let closing = |grant: Grant, (store, root)| grant.with_hidden_because(Why::Store(store), root);
        let grant = stores.fold(grant, closing);
        Ok(made(&self.store)?.into_iter().fold(grant, Grant::with_fixed))
    }

    /// Returns [`Self::own`] and [`Self::answers_for_read`], which can never be granted.
    pub(super) fn own_and_answers(&self) -> io::Result<Vec<Root>> {
        Ok(self.own()?.iter().cloned().chain(self.answers_for_read()?).collect())
    }

    /// Returns the directory that only the built-in `read` opens. Creates it, because only an existing directory can
    /// be closed.
    pub(super) fn answers_for_read(&self) -> io::Result<Option<Root>> {
        made(&self.answers)
    }
}

/// Returns the name of the private directory of a process in `workspace`, identified by `parts`. The folder's name and
/// `name` are for people.
fn own_name<'p>(workspace: &Path, name: Option<&str>, parts: impl Iterator<Item = &'p [u8]>) -> String {
    let folder = workspace.file_name().unwrap_or_default().to_string_lossy();
    // A file name has at most 255 bytes.
    let folder: String = folder.chars().take(MAX_FOLDER_NAME).collect();
    let key = key_of(parts);
    let name = [Some(folder.as_str()), name].into_iter().flatten().collect::<Vec<_>>().join("-");
    let key = key.get(..16).unwrap_or_default();
    format!("{name}-{key}")
}

/// Returns a text that identifies `parts`, none of which contains a NUL.
pub(super) fn key_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let add = |digest: Sha256, part: &[u8]| digest.chain_update(part).chain_update([0]);
    hex(&parts.into_iter().fold(Sha256::new(), add).finalize())
}

/// Creates a directory; `None` if haft cannot. A directory that haft may not look for counts as present.
fn made(directory: &Path) -> io::Result<Option<Root>> {
    match create_private(directory) {
        Ok(()) => Ok(Some(Root::resolve(Path::new("/"), directory)?)),
        Err(error) if matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
            let is_unknown = directory.try_exists().is_err();
            is_unknown.then(|| Root::protecting(Path::new("/"), directory)).transpose()
        }
        Err(error) => Err(error),
    }
}

/// Creates a directory and its parents, accessible to this user alone.
pub(super) fn create_private(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot create directory `{}`: {error}", directory.display()))
    })
}

/// Reads at most `most` bytes of a record; `None` if it does not exist.
pub(super) fn read_record(file: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Writes a record to the disk, accessible to this user alone. It replaces `file` once the caller persists it.
pub(super) fn new_record(file: &Path, content: &impl Serialize) -> io::Result<NamedTempFile> {
    let folder = file.parent().unwrap_or(Path::new("."));
    create_private(folder)?;
    let mut new = NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut new, content)?;
    new.flush()?;
    new.as_file().sync_all()?;
    Ok(new)
}

// The search for the credential stores of this machine, done once, when grants are made. Reads only the configuration
// of `ssh`, for the names of keys.

/// Maximum number of bytes read of `~/.ssh/config`: far more than a configuration has.
const MAX_CONFIG: u64 = 1 << 20;

/// Returns the existing files of each store, for the user with the home directory `home`. A path that is neither a
/// file nor a directory (`HISTFILE=/dev/null`) is omitted, and a parent of `home` is not a store.
fn find_stores(home: &Path) -> Vec<(CredentialStore, Root)> {
    let places = |store: CredentialStore| {
        let keys = if store.name() == CredentialStore::SSH { keys_of_ssh(home) } else { Vec::new() };
        store.places(home, variable).into_iter().chain(keys).map(move |place| (store, place))
    };
    let own = Root::resolve(Path::new("/"), home).ok();
    let mut found: Vec<(CredentialStore, Root)> = Vec::new();
    for (store, place) in CredentialStore::all().flat_map(places).filter(|(_, place)| is_kept_in(place)) {
        let Ok(root) = Root::protecting(Path::new("/"), &place) else { continue };
        let is_wider = own.as_ref().is_some_and(|own| root.contains(own));
        if !is_wider && !found.contains(&(store, root.clone())) {
            found.push((store, root));
        }
    }
    found
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn is_kept_in(place: &Path) -> bool {
    place.is_absolute() && may_be(place, |found| found.is_file() || found.is_dir())
}

/// Returns the files that `IdentityFile` names in `~/.ssh/config`.
fn keys_of_ssh(home: &Path) -> Vec<PathBuf> {
    let config = read_record(&home.join(".ssh/config"), MAX_CONFIG).ok().flatten();
    let config = config.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
    config.lines().filter_map(identity).map(|path| in_home(Path::new(&path), home)).collect()
}

/// Returns the path in a line, if it is an `IdentityFile`.
fn identity(line: &str) -> Option<String> {
    let (keyword, value) = line.trim().split_once(|c: char| c.is_whitespace() || c == '=')?;
    let value = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '=' | '"'));
    keyword.eq_ignore_ascii_case("IdentityFile").then(|| value.replace("%d", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F1: the existing files of a store are found by their real paths, also through links and the configuration of
    /// ssh.
    #[test]
    fn what_there_is_of_a_store_is_found_by_what_it_really_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for folder in [".ssh", "keys", "dotfiles"] {
            std::fs::create_dir(home.join(folder)).unwrap();
        }
        let config =
            "Host a\n  identityfile ~/keys/a\n\tIdentityFile=\"%d/keys/b\"\n#IdentityFile ~/keys/c\n";
        std::fs::write(home.join(".ssh/config"), config).unwrap();
        for file in ["keys/a", "keys/b", "keys/c", "dotfiles/npmrc"] {
            std::fs::write(home.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("dotfiles/npmrc", home.join(".npmrc")).unwrap();
        std::os::unix::fs::symlink("/dev/null", home.join(".netrc")).unwrap();
        std::os::unix::fs::symlink(".", home.join(".gnupg")).unwrap();
        let found = find_stores(&home);
        let inside = found
            .iter()
            .filter_map(|(store, root)| Some((store.name(), root.real().strip_prefix(&home).ok()?)));
        let mut inside: Vec<_> = inside.map(|(name, path)| format!("{name} {}", path.display())).collect();
        inside.sort();
        assert_eq!(inside, ["npm dotfiles/npmrc", "ssh .ssh", "ssh keys/a", "ssh keys/b"]);
    }
}
