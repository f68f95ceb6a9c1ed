//! A haft that is installed in a folder, and whoever publishes releases of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haft::package::Digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::STALLED;
use crate::common::cache;
use crate::http::server::{Server, with};

/// A version that no haft has yet.
pub(super) const NEW: &str = "999.1.0";

/// What haft said.
pub(super) struct Said {
    stdout: String,
    pub(super) stderr: String,
    code: Option<i32>,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
    }
}

impl Said {
    pub(super) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    pub(super) fn fails(self, expected: &str) {
        assert_eq!(self.code, Some(5), "{}{}", self.stdout, self.stderr);
        assert!(self.stderr.contains(expected), "expected {expected:?} in:\n{}", self.stderr);
    }
}

/// The haft of these tests and its helper, as other names of the same files: replacing a name leaves them alone.
pub(super) struct Installed {
    directory: tempfile::TempDir,
    inodes: Vec<u64>,
}

impl Installed {
    pub(super) fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(super) fn within(place: &Path) -> Self {
        let directory = tempfile::tempdir_in(place).unwrap();
        let folder = directory.path().join("bin");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        for (name, program) in
            [("haft", env!("CARGO_BIN_EXE_haft")), ("haft-confine", env!("CARGO_BIN_EXE_haft-confine"))]
        {
            let to = folder.join(name);
            fs::hard_link(program, &to).or_else(|_| fs::copy(program, &to).map(|_| ())).unwrap();
        }
        let mut own = Self { directory, inodes: Vec::new() };
        own.inodes = own.files();
        own
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("bin")
    }

    pub(super) fn haft(&self) -> PathBuf {
        self.folder().join("haft")
    }

    /// Writes a file as the installer of another channel does.
    pub(super) fn write(&self, name: &str, content: &str) {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn command(&self, program: &Path, more: &[&str]) -> Command {
        let mut command = self.plain(program);
        command.arg("self-update").args(more);
        command
    }

    fn plain(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path().join("home"))
            .env("HOME", self.directory.path().join("home"))
            .env("XDG_CACHE_HOME", cache())
            .env_remove("HAFT_LOG")
            .env_remove("HAFT_UPDATE_FROM")
            .envs(["http_proxy", "https_proxy", "all_proxy"].map(|proxy| (proxy, "http://127.0.0.1:1")))
            .stdin(Stdio::null());
        command
    }

    pub(super) fn run(&self, program: &Path, more: &[&str]) -> Said {
        Said::from(self.command(program, more).output().unwrap())
    }

    pub(super) fn update(&self, more: &[&str]) -> Said {
        self.run(&self.haft(), more)
    }

    /// The haft of these tests itself, with such words.
    pub(super) fn haft_with(&self, words: &[&str]) -> Said {
        let mut command = self.plain(Path::new(env!("CARGO_BIN_EXE_haft")));
        let output = command.args(words).output().unwrap();
        // `haft exec` ends as its command did.
        Said::from(output)
    }

    /// What the installed program calls itself.
    pub(super) fn version(&self) -> String {
        Said::from(self.plain(&self.haft()).arg("--version").output().unwrap()).good()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn files(&self) -> Vec<u64> {
        self.names().iter().map(|name| fs::metadata(self.folder().join(name)).unwrap().ino()).collect()
    }

    /// Whether the folder has the two files that were installed, and nothing else.
    pub(super) fn is_untouched(&self) -> bool {
        self.names() == ["haft", "haft-confine"] && self.files() == self.inodes
    }
}

/// What is wrong with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    Unsigned,
    SumsChanged,
    OtherSigner,
    TarballChanged,
    TarballCut,
    NoHelper,
    OtherVersion,
    Fails,
    NoTarball,
}

/// Whoever has the key; signs as minisign's first versions did, over the whole file.
pub(super) struct Publisher(Ed25519KeyPair);

impl Publisher {
    pub(super) fn new() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    /// The public key.
    pub(super) fn word(&self) -> String {
        STANDARD.encode([b"Ed12345678", self.0.public_key().as_ref()].concat())
    }

    fn sign(&self, content: &[u8]) -> String {
        let signature = self.0.sign(content);
        let both = self.0.sign(&[signature.as_ref(), b"haft"].concat());
        let line = STANDARD.encode([b"Ed12345678", signature.as_ref()].concat());
        format!("untrusted comment: x\n{line}\ntrusted comment: haft\n{}\n", STANDARD.encode(both.as_ref()))
    }

    pub(super) fn release(&self, version: &str) -> Release {
        self.faulty(version, Fault::Nothing)
    }

    pub(super) fn faulty(&self, version: &str, fault: Fault) -> Release {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let release = Release { directory, version: version.to_owned() };
        let mut tarball = release.pack(fault);
        if fault == Fault::TarballCut {
            tarball.truncate(tarball.len() / 2);
        }
        let target = haft::package::release::target().unwrap();
        let name = format!("haft-{version}-{target}.tar.gz");
        let listed = if fault == Fault::NoTarball { "install.sh" } else { &name };
        let mut sums =
            format!("{}  {listed}\n{}  install.sh\n", Digest::hash(&tarball).hex(), "0".repeat(64));
        let signer = if fault == Fault::OtherSigner { &Self::new() } else { self };
        let signature = signer.sign(sums.as_bytes());
        if fault == Fault::SumsChanged {
            sums.push('\n');
        }
        if fault == Fault::TarballChanged {
            tarball.push(0);
        }
        release.write(&name, &tarball);
        release.write("SHA256SUMS", sums.as_bytes());
        if fault != Fault::Unsigned {
            release.write("SHA256SUMS.minisig", signature.as_bytes());
        }
        release
    }
}

/// The files of a release, in a folder.
pub(super) struct Release {
    directory: tempfile::TempDir,
    version: String,
}

impl Release {
    pub(super) fn folder(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.folder().join(name), content).unwrap();
    }

    /// The new helper: no program that could help the old haft.
    pub(super) fn helper(&self) -> String {
        format!("#!/bin/sh\n# of haft {}\nexit 1\n", self.version)
    }

    fn pack(&self, fault: Fault) -> Vec<u8> {
        let haft = match fault {
            Fault::OtherVersion => "#!/bin/sh\necho haft 1.0.0\n".to_owned(),
            Fault::Fails => "#!/bin/sh\nexit 3\n".to_owned(),
            _ => format!("#!/bin/sh\necho haft {}\n", self.version),
        };
        let helper = self.helper();
        let mut files = vec![("haft", haft.as_str(), 0o755), ("LICENSE", "of the test", 0o644)];
        if fault != Fault::NoHelper {
            files.push(("haft-confine", &helper, 0o755));
        }
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        let target = haft::package::release::target().unwrap();
        for (name, content, mode) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(mode);
            let path = format!("haft-{}-{target}/{name}", self.version);
            archive.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    /// A server with the files.
    pub(super) fn serve(&self) -> Server {
        let folder = self.folder().to_owned();
        Server::at("127.0.0.1:0", move |head, stream| {
            let _ = stream.write_all(&answer(&folder, head));
        })
    }

    /// One whose tarball breaks off, as a proxy's does that lost its own server.
    pub(super) fn serve_cut(&self) -> Server {
        let folder = self.folder().to_owned();
        Server::at("127.0.0.1:0", move |head, stream| {
            let broken = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nlost\r\n";
            let is_tarball = head.contains(".tar.gz");
            let answer = if is_tarball { broken.to_vec() } else { answer(&folder, head) };
            let _ = stream.write_all(&answer);
        })
    }

    /// One that keeps the tarball back for as long as it is `held`.
    pub(super) fn serve_held(&self, held: Arc<AtomicBool>) -> Server {
        let folder = self.folder().to_owned();
        Server::at("127.0.0.1:0", move |head, stream| {
            let begun = Instant::now();
            while head.contains(".tar.gz") && held.load(Ordering::Relaxed) && begun.elapsed() < STALLED {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            let _ = stream.write_all(&answer(&folder, head));
        })
    }
}

/// What a server of files answers.
fn answer(folder: &Path, head: &str) -> Vec<u8> {
    let name = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    match fs::read(folder.join(name)) {
        Ok(bytes) => {
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
            [head.into_bytes(), bytes].concat()
        }
        Err(_) => with("404 Not Found", "", ""),
    }
}
