//! The requests of a package, one line each: shown on installation and recorded in program.lock, so that an
//! update with further requests is recognised. Grants nothing.

use std::fmt;
use std::mem::discriminant;
use std::time::Duration;

use haft_core::grant::Right;
use haft_core::limit::Limits;
use haft_core::report::item;
use haft_manifest::units::{self, format_duration, format_size};
use haft_manifest::{
    CommandTool, GrantTable, McpServer, PluginSecret, SecretSource, TextOrSecret, Transport,
};
use haft_plugin_host::inspect::Asked;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A right, for the plugin of this name; `None` for a component or the package's commands.
    Right(Option<String>, Right),
    /// A limit above the default.
    Limit(Option<String>, Limit),
    /// A header with a secret that is added to a plugin's requests.
    Secret(Option<String>, PluginSecret),
    /// A command, started by a call of its tool with the rights of the program's commands: the tool's name and
    /// the words.
    Command(String, Vec<String>),
    /// An MCP server: its name, and its command line or URL.
    Server(String, String),
    /// All rights that program.toml grants the plugin, for the server or the scripts of this name: their author
    /// proposes no rights, and nothing limits them further.
    AnyGrant(String),
    /// The instructions of `SKILL.md` to the model.
    Instructions,
    /// A request that haft does not support and does not grant.
    Unknown(String),
}

/// A requested limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Memory in bytes.
    Memory(u64),
    /// The time limit of one call.
    Time(Duration),
    /// The limit on the bytes of one result.
    Result(u64),
    /// Bytes written to files.
    Disk(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(f, "memory={}", format_size(*bytes)),
            Self::Time(time) => write!(f, "time={}", format_duration(*time)),
            Self::Result(bytes) => write!(f, "result={}", format_size(*bytes)),
            Self::Disk(bytes) => write!(f, "disk={}", format_size(*bytes)),
        }
    }
}

impl Request {
    /// Returns the kind of request in one or two words.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Right(_, Right::Read(_)) => "read",
            Self::Right(_, Right::Write(_)) => "read and write",
            Self::Right(_, Right::Host(_)) => "reach",
            Self::Right(_, Right::Env(_)) => "read variable",
            Self::Right(_, Right::Credentials(_)) => "open credentials",
            Self::Right(_, Right::Service(_)) => "use service",
            Self::Right(_, Right::State(_)) => "store state",
            Self::Right(_, Right::Cache(_)) => "use cache",
            Self::Limit(..) => "use more",
            Self::Secret(..) => "send secret",
            Self::Command(..) => "run command",
            Self::Server(..) => "MCP server",
            Self::AnyGrant(_) => "take",
            Self::Instructions => "instruct",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns the details for display; the text is not neutralised.
    pub fn detail(&self) -> String {
        match self {
            Self::Right(_, Right::Read(path) | Right::Write(path)) => path.clone(),
            Self::Right(_, Right::Host(host)) if host.is_any() => "* (every public host)".to_owned(),
            Self::Right(_, Right::Host(host)) => host.to_string(),
            Self::Right(_, Right::Env(name)) => name.clone(),
            Self::Right(_, Right::Credentials(store)) => store.to_string(),
            Self::Right(_, Right::Service(service)) => service.to_string(),
            Self::Right(_, Right::State(bytes) | Right::Cache(bytes)) => format_size(*bytes),
            Self::Limit(_, limit) => limit.to_string().replace('=', " "),
            Self::Secret(_, secret) => secret_text(secret),
            Self::Command(_, words) => shell_words::join(words),
            Self::Server(_, how) => how.clone(),
            Self::AnyGrant(_) => "all of `[packages.grant]`: the author proposes no rights".to_owned(),
            Self::Instructions => "the model, by its SKILL.md".to_owned(),
            Self::Unknown(what) => what.clone(),
        }
    }

    /// Returns the plugin, command or server that makes the request; `None` for the package itself.
    pub fn plugin_name(&self) -> Option<&str> {
        match self {
            Self::Right(plugin_name, _) | Self::Limit(plugin_name, _) | Self::Secret(plugin_name, _) => {
                plugin_name.as_deref()
            }
            Self::Command(name, _) | Self::Server(name, _) | Self::AnyGrant(name) => Some(name),
            Self::Instructions | Self::Unknown(_) => None,
        }
    }

    /// Reports whether consent to `text` covers this request.
    fn is_covered_by(&self, text: &str) -> bool {
        if self.to_string() == text {
            return true;
        }
        let rest = match self.plugin_name() {
            Some(plugin_name) => text.strip_prefix(plugin_name).and_then(|rest| rest.strip_prefix(':')),
            None => Some(text),
        };
        let Some(rest) = rest else { return false };
        match self {
            Self::Right(_, right) => rest.parse().is_ok_and(|agreed: Right| agreed.covers(right)),
            Self::Limit(_, limit) => limit.is_within(rest),
            _ => false,
        }
    }
}

impl Limit {
    /// Reports whether the limit `agreed`, as [`fmt::Display`] writes it, allows this limit.
    pub fn is_within(&self, agreed: &str) -> bool {
        let Some((name, agreed)) = agreed.split_once('=') else { return false };
        let size =
            |own: &str, bytes| name == own && units::parse_size(agreed).is_ok_and(|most| bytes <= most);
        match *self {
            Self::Memory(bytes) => size("memory", bytes),
            Self::Result(bytes) => size("result", bytes),
            Self::Disk(bytes) => size("disk", bytes),
            Self::Time(time) => {
                name == "time" && units::parse_duration(agreed).is_ok_and(|most| time <= most)
            }
        }
    }
}

/// Writes the line of program.lock: `words:read=./docs`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Self::Right(..) | Self::Limit(..) | Self::Secret(..), Some(plugin_name)) =
            (self, self.plugin_name())
        {
            write!(f, "{plugin_name}:")?;
        }
        match self {
            Self::Right(_, right) => right.fmt(f),
            Self::Limit(_, limit) => limit.fmt(f),
            Self::Secret(_, secret) => write!(f, "secret={}", secret_text(secret)),
            Self::Command(name, words) => write!(f, "command={name}: {}", shell_words::join(words)),
            Self::Server(name, command) => write!(f, "server={name}: {command}"),
            Self::AnyGrant(name) => write!(f, "any-grant={name}"),
            Self::Instructions => f.write_str("instructions=SKILL.md"),
            Self::Unknown(what) => write!(f, "unknown={what}"),
        }
    }
}

/// Returns the requests of `new` that the agreed ones do not cover.
pub fn more<'r>(agreed: &[String], new: &'r [Request]) -> Vec<&'r Request> {
    let is_new = |request: &&Request| !agreed.iter().any(|text| request.is_covered_by(text));
    new.iter().filter(is_new).collect()
}

/// Returns the grants of an entry with `new` ones: a new secret or limit replaces the one of its name.
pub fn with_new(granted: &[Request], new: &[Request]) -> Vec<Request> {
    let is_replaced = |old: &&Request| {
        new.iter().any(|new| match (old, new) {
            (Request::Secret(_, old), Request::Secret(_, new)) => old.name.value == new.name.value,
            (Request::Limit(_, old), Request::Limit(_, new)) => discriminant(old) == discriminant(new),
            _ => false,
        })
    };
    granted.iter().filter(|old| !is_replaced(old)).chain(new).cloned().collect()
}

pub(super) fn table_requests(plugin_name: Option<&str>, table: &GrantTable) -> Vec<Request> {
    table.rights().into_iter().map(|right| Request::Right(plugin_name.map(str::to_owned), right)).collect()
}

pub(super) fn limits_requests(plugin_name: Option<&str>, limits: &Limits) -> Vec<Request> {
    let usual = Limits::default();
    let memory = (limits.memory > usual.memory).then_some(Limit::Memory(limits.memory));
    let time = (limits.time > usual.time).then_some(Limit::Time(limits.time));
    let result = (limits.result > usual.result).then_some(Limit::Result(limits.result));
    let disk = (limits.disk > usual.disk).then_some(Limit::Disk(limits.disk));
    let limit = |limit| Request::Limit(plugin_name.map(str::to_owned), limit);
    memory.into_iter().chain(time).chain(result).chain(disk).map(limit).collect()
}

/// Returns a command, and the environment variables that it may see.
pub(super) fn command_requests(tool: &CommandTool) -> Vec<Request> {
    let command = Request::Command(tool.name.as_str().to_owned(), tool.command.value.clone());
    let env = tool.env.iter().map(|name| Request::Right(None, Right::Env(name.clone())));
    std::iter::once(command).chain(env).collect()
}

/// Returns a server with its environment or headers, and the variables whose values the server gets.
pub(super) fn server_requests(server: &McpServer) -> Vec<Request> {
    let (line, handed) = match &server.transport {
        Transport::Stdio { command, env } => (shell_words::join(&command.value), env),
        Transport::Http { url, headers, oauth } => {
            (format!("{}{}", url.value, oauth.terms(source_text)), headers)
        }
    };
    let variables = handed.iter().filter_map(|(_, value)| match value {
        TextOrSecret::Secret(SecretSource::Env(name)) => Some(Right::Env(name.to_string())),
        TextOrSecret::Secret(_) | TextOrSecret::Text(_) => None,
    });
    let variables = variables.map(|right| Request::Right(None, right));
    let handed = handed.iter().map(|(name, value)| match value {
        // `NODE_OPTIONS` affects the executed code as much as a word of the command does.
        TextOrSecret::Text(text) => format!("{name}={}", item(text)),
        TextOrSecret::Secret(source) => format!("{name} from {}", source_text(source)),
    });
    let handed: Vec<_> = handed.collect();
    let line = if handed.is_empty() { line } else { format!("{line} (with {})", handed.join(", ")) };
    std::iter::once(Request::Server(server.name.as_str().to_owned(), line)).chain(variables).collect()
}

pub(super) fn act_requests(asked: &Asked) -> Vec<Request> {
    let right = |right| Request::Right(None, right);
    match asked {
        Asked::Files { path, write } => {
            let folder = fixed_part(path);
            vec![right(if *write { Right::Write(folder) } else { Right::Read(folder) })]
        }
        Asked::Host { host, ports } => {
            let texts = hosts(host, ports);
            let patterns: Option<Vec<_>> = texts.iter().map(|text| text.parse().ok()).collect();
            let unknown = || vec![Request::Unknown(format!("host {host}"))];
            patterns.map_or_else(unknown, |all| all.into_iter().map(Right::Host).map(right).collect())
        }
        Asked::Other(what) => vec![Request::Unknown(what.clone())],
    }
}

/// Returns the folders of a glob before its first wildcard.
fn fixed_part(glob: &str) -> String {
    let parts: Vec<_> = glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).collect();
    match parts.join("/").as_str() {
        "" => "/".to_owned(),
        folder => folder.to_owned(),
    }
}

/// Returns the patterns for HTTPS and HTTP to a host on these ports.
fn hosts(host: &str, ports: &[u16]) -> Vec<String> {
    if host == "*" {
        return vec!["*".to_owned()];
    }
    if ports.is_empty() {
        return vec![host.to_owned(), format!("http://{host}")];
    }
    ports.iter().flat_map(|port| [format!("{host}:{port}"), format!("http://{host}:{port}")]).collect()
}

fn secret_text(secret: &PluginSecret) -> String {
    let (name, host, header) = (&secret.name.value, &secret.host, &secret.header);
    format!("{name} ({}) to {host} as `{header}`", source_text(&secret.source))
}

fn source_text(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(variable) => format!("variable {variable}"),
        SecretSource::File(path) => format!("file {}", item(&path.to_string_lossy())),
        SecretSource::Keyring(entry) => format!("keyring {}", item(&entry.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use haft_manifest::Manifest;

    use super::*;

    fn right(plugin_name: Option<&str>, text: &str) -> Request {
        Request::Right(plugin_name.map(str::to_owned), text.parse().unwrap())
    }

    /// PR10: a narrower request, or an equal one in other words, is not a further request.
    #[test]
    fn only_what_goes_beyond_is_more() {
        let agreed: Vec<String> =
            ["a:read=.", "host=*.a.test", "b:memory=256MiB", "command=c: gh pr", "a:time=1m", "any-grant=d"]
                .map(str::to_owned)
                .into();
        let memory = |plugin_name: &str, mebibytes: u64| {
            Request::Limit(Some(plugin_name.into()), Limit::Memory(mebibytes << 20))
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        for (request, is_more) in [
            (right(Some("a"), "read=./docs"), false),
            (right(Some("b"), "read=./docs"), true),
            (right(None, "read=./docs"), true),
            (right(Some("a"), "write=./docs"), true),
            (right(None, "host=x.a.test"), false),
            (right(Some("a"), "host=x.a.test"), true),
            (memory("b", 128), false),
            (memory("b", 512), true),
            (memory("a", 128), true),
            (Request::Limit(Some("a".into()), Limit::Time(Duration::from_mins(1))), false),
            (Request::Command("c".into(), words("gh pr")), false),
            (Request::Command("c".into(), words("gh repo delete")), true),
            (Request::Instructions, true),
            (Request::AnyGrant("a".into()), true),
            (Request::AnyGrant("d".into()), false),
        ] {
            assert_eq!(
                more(&agreed, std::slice::from_ref(&request)).len(),
                usize::from(is_more),
                "{request}"
            );
        }
    }

    /// One variable with the text of two is another request.
    #[test]
    fn another_environment_of_a_server_is_more() {
        let requests = |env: &str| {
            let server = format!("[[mcp_servers]]\nname = \"s\"\ncommand = \"s\"\nenv = {{ {env} }}\n");
            let manifest = Manifest::parse(&server, Path::new("program.toml")).unwrap();
            manifest.mcp_servers.iter().flat_map(server_requests).collect::<Vec<_>>()
        };
        let agreed: Vec<String> =
            requests("A = \"1, NODE_OPTIONS=2\"").iter().map(ToString::to_string).collect();
        assert_eq!(more(&agreed, &requests("A = \"1\", NODE_OPTIONS = \"2\"")).len(), 1);
    }

    #[test]
    fn what_another_host_calls_a_capability_is_said_in_haft_s_words() {
        let texts = |asked| act_requests(&asked).iter().map(ToString::to_string).collect::<Vec<_>>();
        let files = |path: &str, write| Asked::Files { path: path.into(), write };
        assert_eq!(texts(files("**", false)), ["read=/"]);
        assert_eq!(texts(files("/data/x*/y", true)), ["write=/data"]);
        assert_eq!(texts(files("notes/**", true)), ["write=notes"]);
        let host = |host: &str, ports| Asked::Host { host: host.into(), ports };
        assert_eq!(texts(host("a.test", vec![])), ["host=a.test", "host=http://a.test"]);
        assert_eq!(texts(host("*", vec![])), ["host=*"]);
        assert_eq!(texts(host("a b", vec![])), ["unknown=host a b"]);
        assert_eq!(texts(Asked::Other("wasi:sockets".into())), ["unknown=wasi:sockets"]);
    }
}
