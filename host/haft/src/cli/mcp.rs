//! `haft mcp`: the user's logins at MCP servers. No other part of haft opens a browser.

mod browser;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Exit;
use super::common::Common;
use super::install_session::with_hint;
use super::terminal::{Hinted, Terminal};
use haft::program::Program;
use haft_core::lookup::HostPrograms;
use haft_core::report::plain;
use haft_mcp::client::oauth::{Login, LoginError, Revoked};
use haft_mcp::client::{Account, Endpoint};

/// Time limit for a login: the user may have to find a password, and a telephone for the second factor.
const PATIENCE: Duration = Duration::from_mins(15);

#[derive(Debug, Args)]
#[command(after_help = "\
A login is stored in your keyring or, without a keyring, in a file that no tool can read, and is renewed automatically. \
If a new login is needed, the server's tools fail with the command to run. A server with `Authorization` in its \
`headers` in program.toml needs no login.

Examples:
  haft mcp login tracker
  haft mcp login tracker --scope 'issues:write'
  haft mcp status
  haft mcp logout tracker")]
pub(super) struct Mcp {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, Subcommand)]
enum Deed {
    /// Log in to a server of program.toml, in a browser
    Login(LoginArgs),
    /// Log out: revoke the tokens, and delete them
    Logout {
        /// The server
        #[arg(value_name = "SERVER", add = super::completions::servers())]
        server: String,
    },
    /// Show your logins
    Status {
        /// The server [default: all of program.toml]
        #[arg(value_name = "SERVER", add = super::completions::servers())]
        server: Option<String>,
    },
}

#[derive(Debug, Args)]
struct LoginArgs {
    /// The server
    #[arg(value_name = "SERVER", add = super::completions::servers())]
    server: String,
    /// Request these scopes in addition to your current ones
    #[arg(long, value_name = "SCOPES")]
    scope: Vec<String>,
    /// Print the address only
    #[arg(long)]
    no_browser: bool,
}

impl Mcp {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let program = common.load(terminal, &common.options(terminal, false)?).await?;
        match self.deed {
            Deed::Login(args) => log_in(&program, &args, terminal).await,
            Deed::Logout { server } => log_out(account(&program, &server)?.as_ref(), terminal).await,
            Deed::Status { server } => {
                let accounts = match server {
                    Some(server) => vec![account(&program, &server)?],
                    None => accounts(&program).map(|(_, account)| account).collect(),
                };
                status(&accounts, terminal).await
            }
        }
    }
}

/// Returns the servers with a login.
fn accounts(program: &Program) -> impl Iterator<Item = (&str, Arc<Account>)> {
    program.servers.iter().filter_map(|server| match &server.config().endpoint {
        Endpoint::Http { account: Some(account), .. } => {
            Some((server.config().name.as_str(), account.clone()))
        }
        _ => None,
    })
}

fn account(program: &Program, wanted: &str) -> anyhow::Result<Arc<Account>> {
    if let Some((_, account)) = accounts(program).find(|(name, _)| *name == wanted) {
        return Ok(account);
    }
    let known = program.servers.iter().find(|server| server.config().name == wanted);
    let why = match known.map(|server| &server.config().endpoint) {
        Some(Endpoint::Stdio { .. }) => "is a local process; only servers with a `url` have logins",
        Some(Endpoint::Http { .. }) => "has `Authorization` in its `headers` and needs no login",
        None => "is not in this program",
    };
    let names: Vec<_> = accounts(program).map(|(name, _)| name).collect();
    let hint = if names.is_empty() {
        "add a server with a `url` to `[[mcp_servers]]`".to_owned()
    } else {
        format!("servers with logins: {}", names.join(", "))
    };
    Err(Hinted::new(format!("MCP server `{}` {why}", plain(wanted)), hint).into())
}

async fn log_in(program: &Program, args: &LoginArgs, terminal: Terminal) -> anyhow::Result<Exit> {
    let account = account(program, &args.server)?;
    let scopes: Vec<String> =
        args.scope.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect();
    let login = account.sign_in(&scopes).await.map_err(|error| told(&account, &error))?;
    let opens = !args.no_browser && browser::open(login.url(), &HostPrograms::of(&program.grant));
    let how = if opens { "your browser opens this address" } else { "open this address in your browser" };
    terminal.message(format_args!("to log in to `{}`, {how}:\n  {}", account.server(), login.url()));
    let pasted = if terminal.has_person() {
        terminal.message(
            "if the browser runs on another machine, it ends at a 127.0.0.1 address that it cannot open: \
             paste that address here",
        );
        terminal.lines()
    } else {
        mpsc::channel(1).1
    };
    let finished = timeout(PATIENCE, login.finish(pasted, |why| terminal.message(why))).await;
    let finished =
        finished.with_context(|| format!("no login within {} minutes", PATIENCE.as_secs() / 60))?;
    let login = finished.map_err(|error| told(&account, &error))?;
    terminal.message(format_args!("logged in to `{}`{}", account.server(), facts(&account, &login)));
    Ok(Exit::Success)
}

async fn log_out(account: &Account, terminal: Terminal) -> anyhow::Result<Exit> {
    let server = account.server();
    match account.log_out().await.map_err(|error| told(account, &error))? {
        None => terminal.message(format_args!("you were not logged in to `{server}`")),
        Some(Revoked::Yes) => {
            terminal.message(format_args!("logged out of `{server}`: the token is revoked"));
        }
        Some(Revoked::NotOffered) => terminal.message(format_args!(
            "logged out of `{server}`: the token is deleted here; the server does not support revocation, so \
             the token is valid until it expires"
        )),
        Some(Revoked::No(why)) => {
            terminal.warning(&format!("`{server}` did not revoke the token: {}", plain(&why)));
            terminal.message(format_args!("logged out of `{server}`: the token is deleted here"));
        }
    }
    Ok(Exit::Success)
}

async fn status(accounts: &[Arc<Account>], terminal: Terminal) -> anyhow::Result<Exit> {
    let (mut lines, mut data) = (Vec::new(), Vec::new());
    for account in accounts {
        let login = account.login().await.map_err(|error| told(account, &error))?;
        data.push(json!({
            "server": account.server(),
            "logged_in": login.is_some(),
            "issuer": login.as_ref().and_then(Login::issuer),
            "client_id": login.as_ref().map(Login::client_id),
            "scopes": login.as_ref().map(Login::scopes),
            "renewable": login.as_ref().map(Login::is_renewable),
            "expires": login.as_ref().and_then(Login::expires).map(seconds),
            "kept_in": account.place(),
        }));
        let facts =
            login.as_ref().map_or_else(|| ": not logged in".to_owned(), |login| facts(account, login));
        lines.push(format!("{}{facts}\n", account.server()));
    }
    if terminal.json {
        terminal.json(&data)?;
    } else if accounts.is_empty() {
        terminal.message("no server of this program has logins");
    } else {
        terminal.data(&lines.concat())?;
    }
    Ok(Exit::Success)
}

/// Returns the facts about a login, to follow the name of its server.
fn facts(account: &Account, login: &Login) -> String {
    let scopes = login.scopes();
    let parts = [
        login.issuer().map(|issuer| format!(": by {}", plain(issuer))),
        (!scopes.is_empty()).then(|| format!(", for {}", plain(&scopes.join(" ")))),
        Some(if login.is_renewable() { ", renewed automatically" } else { ", not renewable" }.to_owned()),
        account.place().map(|place| format!(", stored in {place}")),
    ];
    parts.into_iter().flatten().collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn told(account: &Account, error: &LoginError) -> anyhow::Error {
    with_hint(error.hint(), format!("MCP server `{}`: {error}", account.server()))
}
