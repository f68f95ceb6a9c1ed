//! Services of this machine that processes may use: TCP ports of loopback, and unix sockets by their path or by the
//! name of a well-known service. A table only: this file opens nothing.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{HostPattern, in_home};
use crate::report::nearest;

/// A well-known service behind unix sockets. Services are compared by their names, which come first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    name: &'static str,
    /// The rights of a process that reaches it, so that it follows "that".
    gives: &'static str,
    /// Paths of its sockets, with variables as `$NAME` and the home directory as `~`. A path with a variable that is
    /// not set is left out.
    places: &'static [&'static str],
    /// The variables by which its clients find it, which a process with this service sees.
    variables: &'static [&'static str],
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("containerd", "is root on this machine: it starts containers with any file", &["/run/containerd/containerd.sock"]),
    row("dbus", "starts programs as you outside of the sandbox, and reads your keyring", &["$XDG_RUNTIME_DIR/bus"])
        .variables(&["DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"]),
    row("dbus-system", "asks services of the system, such as systemd, with your rights", &["/run/dbus/system_bus_socket"]),
    row("docker", "is root on this machine: it starts containers with any file", &[
        "/run/docker.sock", "$XDG_RUNTIME_DIR/docker.sock", "~/.docker/run/docker.sock", "~/.docker/desktop/docker.sock",
    ]).variables(&["DOCKER_HOST"]),
    row("gpg-agent", "signs and decrypts with your keys", &["$XDG_RUNTIME_DIR/gnupg/S.gpg-agent"]),
    row("mysql", "opens the databases that your login opens", &[
        "/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock",
    ]),
    row("podman", "has your rights outside of the sandbox: it starts containers with any of your files", &[
        "$XDG_RUNTIME_DIR/podman/podman.sock", "/run/podman/podman.sock",
    ]).variables(&["CONTAINER_HOST", "XDG_RUNTIME_DIR"]),
    row("postgresql", "opens the databases that your login opens", &["/run/postgresql/.s.PGSQL.5432", "/tmp/.s.PGSQL.5432"])
        .variables(&["PGHOST", "PGPORT"]),
    row("ssh-agent", "logs in as you where your keys do", &["$SSH_AUTH_SOCK"]).variables(&["SSH_AUTH_SOCK"]),
    row("tmux", "types into your terminals: it runs commands as you outside of the sandbox", &["$TMUX_SOCKET"])
        .variables(&["TMUX"]),
    row("wayland", "opens windows and reads the clipboard", &["$XDG_RUNTIME_DIR/$WAYLAND_DISPLAY"])
        .variables(&["WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"]),
    row("x11", "sees your screen and types into every window", &["/tmp/.X11-unix/X$DISPLAY_NUMBER"])
        .variables(&["DISPLAY", "XAUTHORITY"]),
];

const fn row(name: &'static str, gives: &'static str, places: &'static [&'static str]) -> Row {
    Row { name, gives, places, variables: &[] }
}

impl Row {
    const fn variables(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }
}

/// A service of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service(Form);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// `*`: every unix socket.
    Every,
    Port(u16),
    Known(&'static Row),
    /// The path of a unix socket.
    Socket(PathBuf),
}

/// Why a text is not a [`Service`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a port, the path of a unix socket, `*` for all unix sockets, or a service; {0}")]
pub struct ServiceError(String);

impl Service {
    /// Returns the well-known services with the rights that each gives a process.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        ROWS.iter().map(|row| (Self(Form::Known(row)), row.gives))
    }

    /// Returns the service with the socket at `path`, which has no links: a well-known one if it has that socket.
    pub fn of_socket(path: &Path) -> Self {
        let has = |known: &Self| known.real_sockets().any(|own| own == path);
        let known = Self::all().map(|(known, _)| known).find(has);
        known.unwrap_or_else(|| Self(Form::Socket(path.to_owned())))
    }

    /// Returns whether the service is one of the well-known ones.
    pub fn is_known(&self) -> bool {
        matches!(self.0, Form::Known(_))
    }

    /// Returns whether it is every unix socket.
    pub fn is_every(&self) -> bool {
        self.0 == Form::Every
    }

    /// Returns the destination, if the service is a port.
    pub fn host(&self) -> Option<HostPattern> {
        let Form::Port(port) = self.0 else { return None };
        format!("localhost:{port}").parse().ok()
    }

    /// Returns this service with its path made absolute by `resolve`.
    #[must_use]
    pub fn resolved(self, resolve: impl FnOnce(&Path) -> PathBuf) -> Self {
        match self.0 {
            Form::Socket(path) => Self(Form::Socket(resolve(&path))),
            form => Self(form),
        }
    }

    /// Returns the possible paths of its sockets.
    pub fn sockets(&self) -> Vec<PathBuf> {
        match &self.0 {
            Form::Known(row) => places(row, variable),
            Form::Socket(path) => vec![path.clone()],
            Form::Every | Form::Port(_) => Vec::new(),
        }
    }

    /// Returns the paths of its sockets without links in their directories, if the directories exist.
    pub fn real_sockets(&self) -> impl Iterator<Item = PathBuf> {
        let real = |path: PathBuf| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        self.sockets().into_iter().filter_map(real)
    }

    /// Returns the variables by which clients find it.
    pub fn variables(&self) -> &'static [&'static str] {
        if let Form::Known(row) = self.0 { row.variables } else { &[] }
    }

    /// Returns the rights of a process that reaches it, so that they follow the process's name.
    pub fn meaning(&self) -> String {
        match &self.0 {
            Form::Every => "uses every unix socket of this machine".to_owned(),
            Form::Port(port) => format!("reaches port {port} of this machine"),
            Form::Known(row) => format!("uses {}, with which it {}", row.name, row.gives),
            Form::Socket(path) => format!("uses the service at {}", path.display()),
        }
    }
}

fn places(row: &Row, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let home = || etcetera::home_dir().ok();
    let place = |text: &&str| {
        let mut path = PathBuf::new();
        for part in text.split_inclusive('/') {
            let (fixed, name) = part.trim_end_matches('/').split_once('$').unwrap_or((part, ""));
            let value = if name.is_empty() { OsString::new() } else { variable(name)? };
            path = path.join(OsString::from_iter([fixed.into(), value]));
        }
        let path = if path.starts_with("~") { in_home(&path, &home()?) } else { path };
        path.is_absolute().then_some(path)
    };
    row.places.iter().filter_map(place).collect()
}

/// Returns a variable of haft's environment, or the part of one that is a path.
fn variable(name: &str) -> Option<OsString> {
    let text = |name: &str| std::env::var(name).ok();
    match name {
        // `SOCKET,PROCESS,SESSION`
        "TMUX_SOCKET" => text("TMUX")?.split(',').next().map(Into::into),
        // `HOST:NUMBER.SCREEN`
        "DISPLAY_NUMBER" => text("DISPLAY")?.rsplit_once(':')?.1.split('.').next().map(Into::into),
        name => std::env::var_os(name).filter(|value| !value.is_empty()),
    }
}

impl FromStr for Service {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        if text == "*" {
            return Ok(Self(Form::Every));
        }
        if text.contains('/') {
            return Ok(Self(Form::Socket(text.into())));
        }
        if let Some(port) = text.parse().ok().filter(|port| *port > 0) {
            return Ok(Self(Form::Port(port)));
        }
        let names = || ROWS.iter().map(|row| row.name);
        ROWS.iter().find(|row| row.name == text).map(|row| Self(Form::Known(row))).ok_or_else(|| {
            ServiceError(match nearest(text, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the services are {}", names().collect::<Vec<_>>().join(", ")),
            })
        })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Every => f.write_str("*"),
            Form::Port(port) => port.fmt(f),
            Form::Known(row) => f.write_str(row.name),
            Form::Socket(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_read_and_written_alike() {
        for text in ["*", "5432", "docker", "/run/x.sock", "~/x.sock", "./x.sock"] {
            assert_eq!(text.parse::<Service>().unwrap().to_string(), text);
        }
        for wrong in ["", "0", "65536", "dokcer", "unix"] {
            assert!(wrong.parse::<Service>().is_err(), "{wrong}");
        }
        assert!("dokcer".parse::<Service>().unwrap_err().to_string().ends_with("did you mean `docker`?"));
    }

    #[test]
    fn places_follow_the_variables_that_are_set() {
        let set = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some("/run/user/7".into()),
            "DISPLAY_NUMBER" => Some("1".into()),
            _ => None,
        };
        let of = |name: &str| {
            let row = ROWS.iter().find(|row| row.name == name).unwrap();
            places(row, set).iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("dbus"), ["/run/user/7/bus"]);
        assert_eq!(of("x11"), ["/tmp/.X11-unix/X1"]);
        assert!(of("docker").iter().any(|path| path == "/run/docker.sock"));
        assert!(of("ssh-agent").is_empty() && of("wayland").is_empty());
    }
}
