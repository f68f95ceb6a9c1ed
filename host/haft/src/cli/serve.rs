//! `haft serve`: serves the program's tools to MCP clients, on standard input and output or over HTTP. Standard
//! output carries only the protocol.

pub(super) mod snippet;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::snippet::Client;
use super::common::{Common, propose_pane};
use super::pipes::{signals_in_haste, streams};
use super::terminal::Terminal;
use super::{approvals, common, grant, page};
use crate::cli::Exit;
use crate::cli::elicitation;
use haft::program::{Dirs, Live, News, Options, ToolChoice, telemetry, widening};
use haft_callers::Callers;
use haft_journal as journal;
use haft_manifest::Secrets;
use haft_manifest::{self as manifest, KeyringEntry, Manifest, SecretSource, ToolPattern, Variable};
use haft_mcp::server::http::{Admission, Drain, PATH, Patience, Room, Server, Settings, Token};
use haft_mcp::server::{ToolSnapshots, stdio};
use haft_telemetry::METRICS;

/// Time limit for the end of MCP servers, agents and the backend after the client has closed its connection.
/// Processes that still run are killed. Together with the end of calls it is less than the 100 ms in which haft must
/// end.
const HUNG_UP: Duration = Duration::from_millis(20);

/// Time limit for the end of MCP servers, agents and the backend after a signal.
const CLOSING: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(after_help = "\
The list of tools comes from a cache; a plugin or MCP server that is not in the cache is listed first, for at \
most 8 s. Changes to program.toml, program.lock and plugin files take effect at once; tools that need more \
rights than you agreed to (`haft trust`) are left out. When standard input ends, haft answers the last requests \
for at most 10 s and stops older calls.

Examples:
  haft serve --print-config claude > .mcp.json
  haft serve --plugin wordcount
  haft serve --http 127.0.0.1:8080 --page
  HAFT_TOKEN=… haft serve --http 0.0.0.0:8080 --token-env HAFT_TOKEN --allow-host tools.example.org")]
pub(super) struct Serve {
    /// Serve over HTTP at this address, port 0 for any; the path is /mcp
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::common::address)]
    http: Option<SocketAddr>,
    /// The environment variable with the token that clients must send [default: a random token]
    #[arg(long, value_name = "NAME", requires = "http", group = "token")]
    token_env: Option<Variable>,
    /// The file with the token
    #[arg(long, value_name = "FILE", requires = "http", group = "token")]
    token_file: Option<PathBuf>,
    /// The keyring's entry with the token
    #[arg(long, value_name = "SERVICE/USER", requires = "http", group = "token")]
    token_keyring: Option<KeyringEntry>,
    /// Accept requests without a token; only for a loopback address
    #[arg(long, requires = "http", group = "token")]
    no_token: bool,
    /// Another host name that clients may use for this machine
    #[arg(long, value_name = "NAME", requires = "http")]
    allow_host: Vec<String>,
    /// Serve only tools with these names; `*` matches any characters
    #[arg(long, value_name = "PATTERN", add = super::completions::tools())]
    tools: Vec<ToolPattern>,
    /// Serve only the tools of this plugin, under their own names
    #[arg(long, value_name = "NAME", add = super::completions::plugins())]
    plugin: Option<String>,
    /// Serve only this MCP server, with the server's own names and URIs of tools, prompts and resources
    #[arg(long, value_name = "NAME", conflicts_with = "plugin")]
    server: Option<String>,
    /// Serve the dashboard too (as `haft dashboard` does); its link is printed once
    #[arg(long)]
    page: bool,
    /// Serve Prometheus metrics over HTTP at this address, port 0 for any; the path is /metrics, without a
    /// token
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::common::address)]
    metrics: Option<SocketAddr>,
    /// Print the lines for a client's configuration, and exit
    #[arg(long, value_name = "CLIENT", value_enum)]
    print_config: Option<Client>,
}

impl Serve {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if let Some(client) = self.print_config {
            return self.print(client, common, terminal);
        }
        if common.execution.unsafe_no_sandbox {
            terminal
                .warning("no sandbox: `bash` and commands have all your rights: files, processes, network");
        }
        answer_prometheus(self.metrics, terminal).await?;
        let options = Options { pins_first_lists: true, ..common.lenient_options(terminal, true)? };
        let (live, offers) =
            Live::start(options, self.choice(), move |news| report_news(terminal, &news)).await?;
        let admission = self.admission(live.callers.clone(), terminal).await?;
        let is_made_up = matches!(admission, Admission::Token(_)) && self.source().is_none();
        let widening = grant::widening(widening(&Dirs::of_this_machine()?), &live.begun, terminal);
        let offers =
            offers.with_fallback(approvals::of_clients(&live.begun, terminal)?).with_widening(widening);
        if std::io::stdin().is_terminal() {
            self.greet(&live, terminal);
        }
        let stop = CancellationToken::new();
        let (told, haste) = (stop.clone(), CancellationToken::new());
        let drain = Drain { time: live.serve.drain, hurry: haste.clone() };
        let ending = tokio::spawn(signals_in_haste(told, haste));
        let shown = self.page.then(|| page::start(common, None, &stop, terminal)).transpose()?;
        let (running, room, url) = (live.running.clone(), room(&live.serve), live.serve.url.clone());
        let (sender, readiness) = watch::channel(running.readiness());
        let watching = tokio::spawn(running.clone().watch_readiness(sender));
        let kept = tokio::spawn(live.keep());
        let stopped = stop.clone();
        let serving = async {
            match self.http {
                None => {
                    let (input, output) = streams().context("cannot use the standard streams")?;
                    Ok(stdio::serve(offers, input, output, stop).await?)
                }
                Some(address) => {
                    let (hosts, patience) = (self.allow_host, Patience::default());
                    let settings =
                        Settings { address, admission, url, hosts, room, patience, readiness, drain };
                    serve_http(offers, settings, is_made_up, stop, terminal).await
                }
            }
        };
        let exit = tokio::select! {
            served = serving => served.map(|()| Exit::Success),
            exit = ending => Ok(exit?),
        };
        kept.abort();
        watching.abort();
        drop(shown);
        journal::write_through();
        // A client that has closed its connection waits for haft to end. After a signal, running calls may finish.
        let patience = if stopped.is_cancelled() { CLOSING } else { HUNG_UP };
        let _ = tokio::time::timeout(patience, running.close()).await;
        exit
    }

    fn greet(&self, live: &Live, terminal: Terminal) {
        // A client may share its terminal with haft's messages, and draw on it.
        if elicitation::present().is_some() {
            propose_pane(live.is_without_pane, terminal);
        }
        if self.http.is_none() {
            terminal.message(
                "waiting for an MCP client on standard input; `haft serve --print-config claude` prints the \
                 configuration of a client",
            );
        }
    }

    fn choice(&self) -> ToolChoice {
        ToolChoice {
            patterns: self.tools.clone(),
            plugin: self.plugin.clone(),
            server: self.server.clone(),
            for_callers: self.http.is_some(),
        }
    }

    /// Returns who may call: the callers of program.toml, or every client with the token. The token is from a source
    /// of secrets, or random and printed.
    async fn admission(&self, callers: Option<Callers>, terminal: Terminal) -> anyhow::Result<Admission> {
        let Some(address) = self.http else { return Ok(Admission::Anybody) };
        if let Some(callers) = callers {
            if self.no_token || self.source().is_some() {
                anyhow::bail!(
                    "`--no-token`, `--token-env`, `--token-file` and `--token-keyring` cannot be combined \
                     with `[[serve.callers]]` in program.toml"
                );
            }
            return Ok(Admission::Callers(callers));
        }
        let is_loopback = haft_core::net::is_loopback_address(address.ip());
        if let Some(source) = self.source() {
            return Ok(Admission::Token(read(&source, terminal).await?));
        }
        if !is_loopback {
            anyhow::bail!(
                "`{address}` is reachable from other machines: set a token with `--token-env`, \
                 `--token-file` or `--token-keyring`, or list the callers in `[[serve.callers]]`"
            );
        }
        if self.no_token {
            terminal.warning("no token: every program and every user of this machine may call these tools");
            return Ok(Admission::Anybody);
        }
        Ok(Admission::Token(Token::generate()?))
    }

    fn source(&self) -> Option<SecretSource> {
        let env = self.token_env.clone().map(SecretSource::Env);
        let file = || self.token_file.clone().map(SecretSource::File);
        env.or_else(file).or_else(|| self.token_keyring.clone().map(SecretSource::Keyring))
    }

    fn print(self, client: Client, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let variable = self.token_env.as_ref().map_or("HAFT_TOKEN", Variable::as_str);
        let server =
            snippet::Server::new(common.program.as_deref(), self.http, variable, self.words(common))?;
        terminal.message(client.place());
        terminal.verbatim(&client.snippet(&server)?)?;
        Ok(Exit::Success)
    }
}

impl Serve {
    /// Returns the options for the client's command that starts haft.
    fn words(&self, common: &Common) -> Vec<String> {
        let patterns = self.tools.iter().flat_map(|pattern| ["--tools".to_owned(), pattern.to_string()]);
        let plugin = self.plugin.iter().flat_map(|name| ["--plugin".to_owned(), name.clone()]);
        let server = self.server.iter().flat_map(|name| ["--server".to_owned(), name.clone()]);
        let page = self.page.then(|| "--page".to_owned());
        patterns.chain(plugin).chain(server).chain(page).chain(common::words(common, true)).collect()
    }
}

fn room(serve: &manifest::Serve) -> Room {
    let [sessions, connections] =
        [serve.max_sessions, serve.max_connections].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    Room { sessions, connections }
}

async fn read(source: &SecretSource, terminal: Terminal) -> anyhow::Result<Token> {
    let (dirs, manifest, redactor) = (Dirs::of_this_machine()?, Manifest::default(), terminal.redactor());
    let secret = Secrets::new(&manifest, &dirs.home, &redactor).read(source).await?;
    Ok(Token::new(secret)?)
}

async fn serve_http(
    offers: ToolSnapshots,
    settings: Settings,
    is_made_up: bool,
    stop: CancellationToken,
    terminal: Terminal,
) -> anyhow::Result<()> {
    let made_up = match &settings.admission {
        Admission::Token(token) if is_made_up => Some(token.secret().clone()),
        _ => None,
    };
    let server = Server::bind(offers, settings).await?;
    terminal.message(format_args!("serving MCP at http://{}{PATH}", server.address()));
    if let Some(token) = made_up {
        // Printed once, before the token is registered as a secret that haft never prints.
        terminal.message(format_args!("clients must send: Authorization: Bearer {}", token.expose_secret()));
        terminal.redactor().add([&token]);
    }
    Ok(server.run(stop).await?)
}

/// Serves metrics for Prometheus at `address`, if one is given.
pub(super) async fn answer_prometheus(address: Option<SocketAddr>, terminal: Terminal) -> anyhow::Result<()> {
    if let Some(address) = address {
        let address = telemetry::answer_at(address).await?;
        terminal.message(format_args!("metrics for Prometheus at http://{address}{METRICS}"));
    }
    Ok(())
}

pub(super) fn report_news(terminal: Terminal, news: &News<'_>) {
    match news {
        News::Problems(report) => terminal.warn(report),
        News::Broken(error) => {
            terminal.fail(error);
            terminal.hint("the previous program is still served; haft loads the file again when it changes");
        }
        News::Ahead => {
            terminal.warning(
                "the program has changed, but too few workers have the new version: the previous program is \
                 still served",
            );
            terminal.hint("workers load their program.toml and program.lock again when these files change");
        }
        News::Held => {
            terminal
                .warning("the program has changed; the previous program is served until haft is restarted");
            terminal.hint(
                "this kernel cannot stop commands from writing program.toml: a command may have changed it",
            );
        }
        News::Reloaded(is_other) => {
            let tools = if *is_other { ", with other tools" } else { "" };
            terminal.message(format_args!("program loaded again{tools}"));
        }
        News::Notice(notice) => terminal.message(haft_core::report::plain(notice)),
        News::Unwatched(error) => {
            terminal.warning(&format!("changes to the program are not noticed: {error:#}"));
        }
    }
}
