//! Which credential stores there are on this machine: looked for once, where grants are made. Reads nothing of them but
//! which keys the configuration of `ssh` names.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use haft_core::grant::{CredentialStore, Root, in_home};

/// Bytes of `~/.ssh/config` that are looked at: more than anyone writes.
const MAX_CONFIG: u64 = 1 << 20;

/// What there is of each store, for the person whose home directory is `home`. What is neither a file nor a directory
/// (`HISTFILE=/dev/null`) holds nothing, and what `home` lies in is no store.
pub(super) fn find(home: &Path) -> Vec<(CredentialStore, Root)> {
    let places = |store: CredentialStore| {
        let keys = if store.name() == CredentialStore::SSH { keys_of_ssh(home) } else { Vec::new() };
        store.places(home, variable).into_iter().chain(keys).map(move |place| (store, place))
    };
    let own = Root::resolve(Path::new("/"), home).ok();
    let mut found: Vec<(CredentialStore, Root)> = Vec::new();
    for (store, place) in CredentialStore::all().flat_map(places).filter(|(_, place)| is_kept_in(place)) {
        let Ok(root) = Root::resolve(Path::new("/"), &place) else { continue };
        let is_wider = own.as_ref().is_some_and(|own| root.contains(own));
        if !is_wider && !found.contains(&(store, root.clone())) {
            found.push((store, root));
        }
    }
    found
}

/// A variable that says something.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn is_kept_in(place: &Path) -> bool {
    place.is_absolute() && place.metadata().is_ok_and(|found| found.is_file() || found.is_dir())
}

/// The files that `IdentityFile` names in `~/.ssh/config`.
fn keys_of_ssh(home: &Path) -> Vec<PathBuf> {
    let mut config = String::new();
    let Ok(file) = File::open(home.join(".ssh/config")) else { return Vec::new() };
    if file.take(MAX_CONFIG).read_to_string(&mut config).is_err() {
        return Vec::new();
    }
    config.lines().filter_map(identity).map(|path| in_home(Path::new(&path), home)).collect()
}

/// What a line names, where it is an `IdentityFile`.
fn identity(line: &str) -> Option<String> {
    let (keyword, value) = line.trim().split_once(|c: char| c.is_whitespace() || c == '=')?;
    let value = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '=' | '"'));
    keyword.eq_ignore_ascii_case("IdentityFile").then(|| value.replace("%d", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_what_there_is_of_a_store_is_found_by_what_it_really_is() {
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
        let found = find(&home);
        let inside = found
            .iter()
            .filter_map(|(store, root)| Some((store.name(), root.real().strip_prefix(&home).ok()?)));
        let mut inside: Vec<_> = inside.map(|(name, path)| format!("{name} {}", path.display())).collect();
        inside.sort();
        assert_eq!(inside, ["npm dotfiles/npmrc", "ssh .ssh", "ssh keys/a", "ssh keys/b"]);
    }
}
