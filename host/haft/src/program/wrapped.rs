//! What a command behind `haft wrap` may do: run, in a home of its own, with what a person gave it. It has neither the
//! network nor the folder that it is started in, unless one of the rights says so.

use std::io;
use std::path::{Path, PathBuf};

use super::dirs::create_private;
use super::grants::{self, Grants};
use super::{Dirs, start_up};
use haft_core::grant::{Grant, Reach, Root};
use haft_manifest::{Manifest, Wrapped};

/// Programs of the system, and what they read to start: read-only for every wrapped command.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt/homebrew",
    "/sbin",
    "/usr",
    "/Library/Frameworks",
    "/System",
    "/private/etc",
    // How many processors there are, and how much memory.
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];

/// What a link of the system leads to elsewhere.
const LINKED: &[&str] = &["/etc/resolv.conf", "/etc/localtime"];

/// What an installation is made of that is not the system's: of an interpreter, or a virtual environment.
const INSTALLATION: &[&str] = &["bin", "lib", "lib64", "libexec", "pyvenv.cfg"];

/// Where packages lie beside each other that use each other.
const PACKAGES: &[&str] = &["node_modules", "site-packages"];

/// Variables that name certificates, which every child is told of.
const CERTIFICATES: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
];

/// What a wrapped command runs with.
#[derive(Debug)]
pub struct Wrap {
    /// What it may do. It works in the current directory, also where it cannot read that.
    pub grant: Grant,
    /// Its home directory.
    pub home: PathBuf,
    /// Its directory for temporary files.
    pub temporary: PathBuf,
}

impl Wrap {
    /// What `record` gives. `key` names its home; `files` are what it is started from, and are read with what is installed
    /// beside them.
    ///
    /// # Errors
    /// A right cannot be granted, or a directory not be made.
    pub fn new(dirs: &Dirs, key: &str, record: &Wrapped, files: &[PathBuf]) -> anyhow::Result<Self> {
        let own = dirs.wrapped.join(key);
        let (home, temporary) = (own.join("home"), own.join("tmp"));
        create_private(&home)?;
        create_private(&temporary)?;
        let manifest = Manifest { source: record.source.clone(), ..Manifest::default() };
        let granted = Grants::new(&manifest, dirs, &[])?.table(&record.grant)?;
        let closed = closed(dirs, &own, &granted)?;
        let has_network = granted.hosts().iter().any(haft_core::grant::HostPattern::is_any);
        let grant = start_up::fixing(granted).with_write(root(&home)?).with_write(root(&temporary)?);
        let grant = needed(files, &dirs.home).into_iter().fold(grant, Grant::with_read);
        let grant = grant.with_network(has_network).with_workspace(root(&dirs.here)?);
        let grant = grant.with_protected_paths_of(&closed);
        grants::refuse_links(&grant)?;
        Ok(Self { grant, home, temporary })
    }
}

/// What a command reads to run at all.
fn needed(files: &[PathBuf], home: &Path) -> Vec<Root> {
    let certificates = CERTIFICATES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let places = SYSTEM.iter().chain(LINKED).map(PathBuf::from);
    let places = places.chain(certificates).chain(files.iter().cloned());
    let places = places.chain(files.iter().flat_map(|file| installation(file, home)));
    places
        .filter(|place| place.is_absolute() && place.exists())
        .filter_map(|place| root(&place).ok())
        .collect()
}

/// What is installed together with a program: the parts of `PREFIX` of `PREFIX/bin/NAME`, all of a version manager's with
/// `PREFIX/shims/NAME`, and packages beside its own. A home directory is no installation.
fn installation(program: &Path, home: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(program);
    let mut all = match folder.parent().filter(|prefix| !home.starts_with(prefix)) {
        Some(prefix) if folder.ends_with("bin") => {
            INSTALLATION.iter().map(|part| prefix.join(part)).collect()
        }
        Some(prefix) if folder.ends_with("shims") => vec![prefix.to_owned()],
        _ => Vec::new(),
    };
    let is_of_packages = |place: &&Path| PACKAGES.iter().any(|packages| place.ends_with(packages));
    all.extend(folder.ancestors().filter(is_of_packages).last().map(Path::to_owned));
    all
}

/// Whether `path` belongs to the system, which nobody but its administrator changes.
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|place| path.starts_with(place))
}

/// What is closed to a wrapped command: what is closed to every tool, and of the homes of others what it would reach.
fn closed(dirs: &Dirs, own: &Path, granted: &Grant) -> io::Result<Grant> {
    let closed = dirs.closed_to_wrapped()?;
    let mut closed = dirs.answers_for_read()?.into_iter().fold(closed, Grant::with_hidden);
    let homes = root(&dirs.wrapped)?;
    let is_reached = match granted.readable() {
        Reach::Anywhere => true,
        Reach::Roots(roots) => roots.iter().any(|root| root.contains(&homes) || homes.contains(root)),
    };
    if is_reached {
        for other in dirs.wrapped.read_dir()? {
            let other = other?.path();
            if other != own {
                closed = closed.with_hidden(root(&other)?);
            }
        }
    }
    Ok(closed)
}

fn root(path: &Path) -> io::Result<Root> {
    Root::resolve(Path::new("/"), path)
}
