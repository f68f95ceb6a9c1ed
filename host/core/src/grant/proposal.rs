//! The directory that a hint proposes to grant for a refused path: the narrowest one that would allow the access,
//! and never one that is too wide, such as a home or a system directory. Inspects paths only; grants nothing.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Right, RightsTable};

/// Directories of the system and its programs: neither these nor any below them.
const SYSTEM_TREES: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/Applications",
    "/Library",
    "/System",
    "/private/etc",
];

/// Directories in those trees that people work in. They are too wide, but directories below them are not.
const WORKPLACES: &[&str] = &["/dev/shm", "/usr/local/src"];

/// Directories that all users share: they are never proposed, but those below them may be.
const SHARED: &[&str] = &[
    "/export",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
    "/Users",
    "/Volumes",
    "/private",
    "/private/tmp",
    "/private/var",
];

/// Directories whose subdirectories are homes, also of users that this machine does not list.
const PARENTS_OF_HOMES: &[&str] = &["/home", "/export/home", "/Users"];

/// The accounts of this machine, one a line, with the home in the sixth field (`passwd(5)`).
const ACCOUNTS: &str = "/etc/passwd";

/// The proposal of a hint for a refused path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proposal {
    /// A grant of this directory.
    Grant(PathBuf),
    /// No proposal, because this directory would be too wide.
    TooWide(PathBuf, TooWide),
}

/// The reason why a directory is never proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TooWide {
    /// The directory is `/`.
    Everything,
    /// The directory belongs to the system, or all users share it.
    System,
    /// The directory is the home of a user, or contains one.
    Home,
    /// The directory is a hidden directory in a home, such as `~/.ssh`.
    Settings,
}

impl fmt::Display for TooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "the whole file system",
            Self::System => "a directory of the system or of all users",
            Self::Home => "a home directory or a parent of home directories",
            Self::Settings => "a directory with a person's settings and keys",
        })
    }
}

impl Proposal {
    /// Returns the proposal for the absolute path `path`: the path itself if it is a directory, otherwise the
    /// nearest existing directory above it.
    pub fn for_path(path: &Path) -> Self {
        let nearest = path.ancestors().find(|place| place.is_dir());
        let directory = nearest.unwrap_or(Path::new("/")).to_owned();
        let real = directory.canonicalize().unwrap_or_else(|_| directory.clone());
        let homes = homes();
        match too_wide(&directory, &homes).or_else(|| too_wide(&real, &homes)) {
            Some(why) => Self::TooWide(directory, why),
            None => Self::Grant(directory),
        }
    }

    /// Returns the right to the proposed directory.
    pub fn right(&self, right: fn(String) -> Right) -> Option<Right> {
        match self {
            Self::Grant(directory) => directory.to_str().map(|directory| right(directory.to_owned())),
            Self::TooWide(..) => None,
        }
    }

    /// Returns the line of `table` in program.toml that would grant `right` to the directory, for the hint of a
    /// refusal; or the reason why none is proposed.
    pub fn hint(&self, right: &str, table: &RightsTable) -> String {
        match self {
            Self::Grant(directory) => {
                format!("to allow it, {}", table.line(right, &directory.to_string_lossy()))
            }
            Self::TooWide(directory, why) => {
                let directory = directory.display();
                format!("haft proposes no line to allow it: that would grant `{directory}`, {why}")
            }
        }
    }
}

fn too_wide(directory: &Path, homes: &[PathBuf]) -> Option<TooWide> {
    let is = |places: &[&str]| places.iter().any(|place| directory == Path::new(place));
    let parent = directory.parent();
    let is_home = |place: &Path| {
        let parent = place.parent();
        homes.iter().any(|home| home == place)
            || PARENTS_OF_HOMES.iter().any(|homes| parent == Some(Path::new(homes)))
    };
    let is_hidden = directory.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    if parent.is_none() {
        Some(TooWide::Everything)
    } else if is_home(directory) || homes.iter().any(|home| home.starts_with(directory)) {
        Some(TooWide::Home)
    } else if is_hidden && parent.is_some_and(is_home) {
        Some(TooWide::Settings)
    } else if is(SHARED)
        || (lies_in(SYSTEM_TREES, directory) && !parent.is_some_and(|parent| lies_in(WORKPLACES, parent)))
    {
        Some(TooWide::System)
    } else {
        None
    }
}

fn lies_in(trees: &[&str], directory: &Path) -> bool {
    trees.iter().any(|tree| directory.starts_with(tree))
}

/// Returns the known homes of this machine.
fn homes() -> Vec<PathBuf> {
    let accounts = std::fs::read(ACCOUNTS).unwrap_or_default();
    let accounts = String::from_utf8_lossy(&accounts);
    let listed = accounts.lines().filter_map(|account| account.split(':').nth(5)).map(PathBuf::from);
    let known = etcetera::home_dir().ok().into_iter().chain([PathBuf::from("/root")]);
    // System accounts have the home `/`, which would make every directory too wide.
    known.chain(listed).filter(|home| home.is_absolute() && home.parent().is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S07: neither `/`, nor a system directory, nor a home is proposed.
    #[test]
    fn what_holds_too_much_is_not_proposed() {
        let homes = [PathBuf::from("/home/me"), "/data/people/her".into(), "/root".into()];
        for (directory, expected) in [
            ("/", Some(TooWide::Everything)),
            ("/etc", Some(TooWide::System)),
            ("/etc/nginx/sites", Some(TooWide::System)),
            ("/usr", Some(TooWide::System)),
            ("/usr/share/doc", Some(TooWide::System)),
            ("/usr/src/app", None),
            ("/usr/local/src", Some(TooWide::System)),
            ("/usr/local/src/app", None),
            ("/dev/shm", Some(TooWide::System)),
            ("/dev/shm/work/deep", None),
            ("/tmp", Some(TooWide::System)),
            ("/tmp/work", None),
            ("/var/log", Some(TooWide::System)),
            ("/var/log/app", None),
            ("/home", Some(TooWide::Home)),
            ("/home/me", Some(TooWide::Home)),
            ("/home/nobody-knows", Some(TooWide::Home)),
            ("/home/me/.ssh", Some(TooWide::Settings)),
            ("/home/me/work", None),
            ("/home/me/work/.git", None),
            ("/data", Some(TooWide::Home)),
            ("/data/people", Some(TooWide::Home)),
            ("/data/people/her", Some(TooWide::Home)),
            ("/data/people/her/work", None),
            ("/root", Some(TooWide::Home)),
            ("/app", None),
        ] {
            assert_eq!(too_wide(Path::new(directory), &homes), expected, "{directory}");
        }
    }

    /// S07: the proposal is the narrowest existing directory.
    #[test]
    fn the_narrowest_directory_is_proposed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join("link")).unwrap();
        let grant = |name: &str| Proposal::Grant(place.path().join(name));
        assert_eq!(Proposal::for_path(&place.path().join("a/file")), grant("a"));
        assert_eq!(Proposal::for_path(&place.path().join("a/b")), grant("a/b"));
        assert_eq!(Proposal::for_path(&place.path().join("a/new/deep/file")), grant("a"));
        let link = place.path().join("link");
        assert_eq!(Proposal::for_path(&link.join("new")), Proposal::TooWide(link, TooWide::System));
        assert_eq!(
            Proposal::for_path(Path::new("/tmpfoo")),
            Proposal::TooWide("/".into(), TooWide::Everything)
        );
    }
}
