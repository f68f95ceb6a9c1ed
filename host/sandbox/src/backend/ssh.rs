//! Another host as a target, through the system's `ssh` with the user's configuration, keys and agent. All
//! scripts share one connection (`ControlMaster`) over a socket of haft's own, which ends with haft. Never
//! prompts: a user who needs a password or has to accept a host key connects by hand first. Never opens a
//! second connection if the first is lost.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::HostContext;
use crate::backend::remote_script::{self, Nowhere, Report};
use crate::backend::script::{BOOT, Script, quoted};
use crate::backend::transport::{Line, Messenger, RunAs, Transport};
use crate::error::{BackendError, invalid_name, joined_lines};
use crate::process::service::{self, Life, ServiceSpec};
use haft_core::lookup::HostPrograms;
use haft_manifest::ProcessLimits;

/// The program.
const SSH: &str = "ssh";
/// Time limit of a connection, including authentication.
const CONNECT: Duration = Duration::from_secs(20);
/// ssh's time limit for the TCP connection alone.
const CONNECT_OPTION: &str = "ConnectTimeout=10";
/// Interval between two checks for the connection.
const ROUND: Duration = Duration::from_millis(20);
/// Limit on concurrent scripts: servers permit ten sessions per connection by default.
const MAX_SCRIPTS: usize = 8;
/// Limit on the bytes of the socket's path: the kernel permits 107, and ssh appends 17 temporarily.
const MAX_SOCKET: usize = 85;
/// The prefix of haft's directories among those of other programs.
const FOLDER: &str = "haft-ssh-";
/// Random characters of such a directory's name.
const RANDOM: usize = 8;
/// Limit on the characters of a target.
const MAX_TARGET: usize = 255;

/// Options in addition to the user's configuration: no prompts, no forwarding, and detection of a dead
/// connection within a minute.
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    CONNECT_OPTION,
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ControlPersist=no",
    "LogLevel=ERROR",
];

/// The command prefix that confines a command on a host with haft.
const WRAPPER: &str = "haft exec";
/// The script that checks whether haft on the host can confine.
const FIND: &str = r#"[ "$(haft --version 2>/dev/null)" = "$haft_version" ] && haft exec -- true >/dev/null 2>&1
printf '%s %s\n' "$haft_nonce" $? >&2"#;

#[derive(Debug)]
pub(crate) struct Ssh {
    target: String,
    config: Option<PathBuf>,
    messenger: Messenger,
    /// The socket's folder; removed at the end.
    folder: TempDir,
    master: Mutex<Option<Life>>,
    slots: Arc<Semaphore>,
    /// Whether haft on the host confines commands.
    is_confined: bool,
}

impl Ssh {
    pub(crate) async fn connect(
        host_context: &HostContext,
        target: &str,
        config: Option<&Path>,
    ) -> Result<Self, BackendError> {
        check(target)?;
        let messenger = Messenger::new(host_context);
        if !messenger.has(SSH) {
            return Err(BackendError::Target(HostPrograms::missing(SSH)));
        }
        let folder = folder(&host_context.state)?;
        let mut host = Self {
            target: target.to_owned(),
            config: config.map(Path::to_owned),
            messenger,
            folder,
            master: Mutex::default(),
            slots: Arc::new(Semaphore::new(MAX_SCRIPTS)),
            is_confined: false,
        };
        host.ensure().await?;
        host.is_confined = host.can_confine().await?;
        Ok(host)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Returns the arguments of both the connection and every script.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(config) = &self.config {
            words.extend(["-F".into(), config.into()]);
        }
        for option in OPTIONS {
            words.extend(["-o".into(), (*option).into()]);
        }
        words.extend(["-S".into(), self.socket().into()]);
        words
    }

    /// Opens the connection, unless it is open.
    async fn ensure(&self) -> Result<(), BackendError> {
        let mut master = self.master.lock().await;
        if master.as_ref().is_some_and(|life| life.ending().is_none()) {
            return Ok(());
        }
        // An ended connection may have left its socket.
        let _ = std::fs::remove_file(self.socket());
        let mut arguments = self.words();
        arguments.extend(["-M", "-N", "-T", "-o", "StdinNull=yes", "--", &self.target].map(OsString::from));
        let Line { program, arguments, environment, confiner, grant, .. } =
            self.messenger.line(SSH, arguments)?;
        let job = ServiceSpec { program, arguments, environment, limits: ProcessLimits::default() };
        let life = service::start(&confiner, &job, &grant, |_| {}).await?.life;
        let begun = Instant::now();
        while !self.socket().exists() {
            if let Some(ending) = life.ending() {
                return Err(self.unreachable(&life.last_words(), &ending.to_string()));
            }
            if begun.elapsed() > CONNECT {
                return Err(self.unreachable(&life.last_words(), "no answer"));
            }
            sleep(ROUND).await;
        }
        *master = Some(life);
        Ok(())
    }

    fn unreachable(&self, words: &str, ending: &str) -> BackendError {
        let target = &self.target;
        let why = if words.is_empty() { ending.to_owned() } else { joined_lines(words) };
        let hint = hint(words, target);
        BackendError::Unreachable(format!("cannot connect to `{target}`: {why}{hint}"))
    }

    /// Reports whether haft on the host can confine commands: it must have the same version and pass a check.
    async fn can_confine(&self) -> Result<bool, BackendError> {
        let script = Script::new()?;
        let script = script.with("version", concat!("haft ", env!("CARGO_PKG_VERSION"))).then(FIND);
        let stop = CancellationToken::new();
        let _end = stop.clone().drop_guard();
        let late = sleep(CONNECT);
        tokio::select! {
            report = remote_script::run(self, RunAs::Haft, &script, None, &Nowhere, &stop) => {
                Ok(matches!(report?, Report::Status(status) if status == "0"))
            }
            () = late => Err(self.unreachable("", "its shell does not answer")),
        }
    }
}

#[async_trait]
impl Transport for Ssh {
    fn name(&self) -> String {
        format!("ssh:{}", self.target)
    }

    fn kind(&self) -> &'static str {
        "ssh"
    }

    fn confinement(&self) -> String {
        if self.is_confined {
            return format!("confined on `{}` by the installed haft", self.target);
        }
        format!(
            "not confined by haft: commands have all rights of the account on `{}` (to confine them, install \
             haft {} on its PATH)",
            self.target,
            env!("CARGO_PKG_VERSION")
        )
    }

    async fn line(&self, _: RunAs<'_>) -> Result<Line, BackendError> {
        self.ensure().await?;
        let mut arguments = self.words();
        // Without the socket a script must fail: a new connection would authenticate again.
        arguments.extend(
            ["-T", "-o", "ControlMaster=no", "-o", "ProxyCommand=false", "--", &self.target]
                .map(OsString::from),
        );
        arguments.push(format!("exec sh -c {}", quoted(BOOT)).into());
        let line = self.messenger.line(SSH, arguments)?;
        let place = self.slots.clone().acquire_owned().await.ok();
        Ok(Line { place, ..line })
    }

    async fn lost(&self, words: &str) -> String {
        let target = &self.target;
        let words = joined_lines(words);
        // The connection ends shortly after its sessions.
        sleep(ROUND * 5).await;
        let master = self.master.lock().await;
        match master.as_ref().and_then(|life| life.ending().map(|ending| (ending, life.last_words()))) {
            Some((ending, last)) => {
                let why = if last.is_empty() { ending.to_string() } else { joined_lines(&last) };
                format!("the connection to `{target}` was lost: {why}; the next call connects again")
            }
            None if words.is_empty() => format!("the command on `{target}` was cut off"),
            None => format!("the command on `{target}` was cut off: {words}"),
        }
    }

    fn wrapper(&self) -> &'static str {
        if self.is_confined { WRAPPER } else { "" }
    }

    async fn close(&self) {
        if let Some(life) = self.master.lock().await.take() {
            // Terminates it; kills it after 1 second.
            life.stop();
            life.shut_down(Duration::from_secs(1)).await;
        }
    }
}

/// Checks a target of ssh: not an option, and without characters that have a meaning to a shell or in a log.
fn check(target: &str) -> Result<(), BackendError> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "'\"`$\\;&|<>(){}*?!#".contains(c);
    let host = target.rsplit('@').next().unwrap_or_default();
    if target.is_empty()
        || target.len() > MAX_TARGET
        || target.contains(is_odd)
        || target.starts_with('-')
        || host.starts_with('-')
    {
        let expected = "expected `host`, `user@host`, `ssh://user@host:port` or a name of ~/.ssh/config";
        return Err(invalid_name("ssh target", target, expected));
    }
    Ok(())
}

fn hint(words: &str, target: &str) -> String {
    let hint = if words.contains("Host key verification failed") {
        format!("connect once by hand and check its key: `ssh {target}`")
    } else if words.contains("Permission denied") {
        format!(
            "haft cannot ask for a password; use a key without a password, or an agent: `ssh -o \
             BatchMode=yes {target} true`"
        )
    } else {
        return String::new();
    };
    format!("\nhint: {hint}")
}

/// Creates a short directory for the socket: in haft's state, or in a system directory if that path is too
/// long. Removes the directories of ended hafts.
fn folder(state: &Path) -> Result<TempDir, BackendError> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let candidates = [Some(state.to_owned()), runtime, Some(std::env::temp_dir()), Some("/tmp".into())];
    let prefix = format!("{FOLDER}{}-", std::process::id());
    let is_short = |place: &PathBuf| place.join(&prefix).as_os_str().len() + RANDOM + 2 <= MAX_SOCKET;
    for place in candidates.into_iter().flatten().filter(is_short) {
        sweep(&place);
        let mut folder = tempfile::Builder::new();
        folder.prefix(&prefix).rand_bytes(RANDOM).permissions(Permissions::from_mode(0o700));
        if let Ok(folder) = folder.tempdir_in(&place) {
            return Ok(folder);
        }
    }
    Err(BackendError::Target(
        "no directory has a path short enough for the socket of ssh; set `XDG_RUNTIME_DIR`".into(),
    ))
}

/// Removes the directories of processes that have ended.
fn sweep(place: &Path) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.split_once('-')?.0.parse::<u32>().ok());
        let is_gone =
            process.is_some_and(|process| !Path::new(OsStr::new("/proc")).join(process.to_string()).exists());
        if is_gone && Path::new("/proc/self").exists() {
            // The directory may belong to another user.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BE03: a target cannot be an option.
    #[test]
    fn a_target_is_never_an_option() {
        for target in ["host", "me@host", "host.example.org", "ssh://me@host:2222", "10.0.0.1", "me@[::1]"] {
            check(target).unwrap();
        }
        for target in
            ["-oProxyCommand=id", "me@-oProxyCommand=id", "", "a b", "a;id", "$(id)", "a\nb", "`id`"]
        {
            let status = check(target).unwrap_err().to_string();
            assert!(status.starts_with("invalid ssh target `"), "{status}");
        }
    }

    /// BE04: the path of a socket is short, and its folder is private and temporary.
    #[test]
    fn a_socket_s_path_is_short_and_private() {
        let state = tempfile::tempdir().unwrap();
        let deep = state.path().join("x".repeat(100));
        std::fs::create_dir(&deep).unwrap();
        for place in [state.path(), &deep] {
            let made = folder(place).unwrap();
            assert!(made.path().join("s").as_os_str().len() <= MAX_SOCKET);
            assert_eq!(std::fs::metadata(made.path()).unwrap().permissions().mode() & 0o777, 0o700);
            let path = made.path().to_owned();
            drop(made);
            assert!(!path.exists());
        }
    }

    /// BE04: the next haft removes the remains of a killed one.
    #[test]
    fn what_a_killed_haft_left_is_swept() {
        let state = tempfile::tempdir().unwrap();
        let (gone, own) = (
            state.path().join("haft-ssh-4194304-x"),
            state.path().join(format!("haft-ssh-{}-x", std::process::id())),
        );
        std::fs::create_dir(&gone).unwrap();
        std::fs::create_dir(&own).unwrap();
        let another = state.path().join("ssh-4194304-x");
        std::fs::create_dir(&another).unwrap();
        sweep(state.path());
        assert!(!gone.exists() && own.exists());
        assert!(another.exists(), "not haft's");
    }
}
