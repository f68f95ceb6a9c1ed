//! `haft dashboard`: serves a page to a browser on this machine. The page shows the calls of every haft process of
//! this user, and the user answers waiting calls there. It changes no grant and no program.toml.

use std::io::{self, BufRead, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use clap::Args;
use haft::program::{Ask, Dirs, Options, Program};
use secrecy::ExposeSecret;
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::common::Common;
use super::pipes::signals;
use super::terminal::{Terminal, told};
use super::{Exit, verify};
use haft_core::event::Events;
use haft_core::sync::Lock;
use haft_core::tool::{Toolbox, bytes, tokens};
use haft_journal::Granted;
use haft_page::{Catalogue, Link, Offer, Offered, Places, Server};

#[derive(Debug, Args)]
#[command(after_help = "\
The dashboard shows the calls, sessions and questions of every haft process of this user. The printed link \
works once, in one browser, for one hour; Enter prints another. While the dashboard is open, `haft run`, `haft \
chat`, `haft call` and `haft serve` use it for approvals if they have no terminal to ask at.

Examples:
  haft dashboard
  haft dashboard -p program.toml                   with its tools, their token sizes and changes since program.lock
  haft dashboard --listen 127.0.0.1:7411           the same port in `ssh -L 7411:127.0.0.1:7411 HOST`")]
pub(super) struct Page {
    /// Listen here; an address of this machine alone [default: a loopback address and port of its own]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::common::address)]
    listen: Option<SocketAddr>,
}

impl Page {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let stop = CancellationToken::new();
        let shown = start(common, self.listen, &stop, terminal)?;
        if io::stdin().is_terminal() {
            terminal.message("Enter prints another link, Ctrl-C closes the dashboard");
            let links = shown.links;
            std::thread::spawn(move || print_links(&links, terminal));
        }
        tokio::select! {
            exit = signals(stop.clone()) => Ok(exit),
            () = stop.cancelled() => Ok(Exit::Success),
        }
    }
}

/// A dashboard that is served until this value is dropped.
pub(super) struct Shown {
    links: Links,
    _ends: DropGuard,
}

type Links = Box<dyn Fn() -> io::Result<Link> + Send>;

/// Serves the dashboard, and prints its link once.
pub(super) fn start(
    common: &Common,
    address: Option<SocketAddr>,
    stop: &CancellationToken,
    terminal: Terminal,
) -> anyhow::Result<Shown> {
    let dirs = Dirs::of_this_machine()?;
    // The directories are blocked for tools before the first question is stored in them.
    dirs.own()?;
    let places = Places { journal: dirs.journal(), sessions: dirs.kept_sessions(), desk: dirs.desk() };
    let catalogue = Arc::new(ProgramCatalogue::new(common, terminal)?);
    let server = Server::bind(address, places, catalogue).context("cannot serve the dashboard")?;
    let links: Links = Box::new(server.links());
    let ends = stop.child_token();
    tell(&server.link()?, terminal);
    server.start(ends.clone()).context("cannot serve the dashboard")?;
    Ok(Shown { links, _ends: ends.drop_guard() })
}

/// Prints the link once, before its key is registered as a secret that haft never prints.
fn tell(link: &Link, terminal: Terminal) {
    terminal.message(format_args!(
        "open the dashboard in your browser (the link works once):\n  {}",
        link.url().expose_secret()
    ));
    terminal.redactor().add([link.key()]);
}

/// Prints another link for every line that the user enters.
fn print_links(links: &Links, terminal: Terminal) {
    for line in io::stdin().lock().lines() {
        match line.and_then(|_| links()) {
            Ok(link) => tell(&link, terminal),
            Err(_) => return,
        }
    }
}

// The tools of the dashboard's program, loaded without running anything.

/// How long the result is reused. program.toml may change at any time, and a comparison reads all installed files.
const FRESH: Duration = Duration::from_secs(10);

struct ProgramCatalogue {
    common: Common,
    options: Options,
    terminal: Terminal,
    /// The runtime that loads the program. The dashboard's own runtime must not block.
    runtime: Handle,
    known: Lock<Option<(Instant, Offered)>>,
}

impl ProgramCatalogue {
    fn new(common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let (events, ask, usual) = (Events::none(), Ask::Never, common.lenient_options(terminal, false)?);
        let options = Options { events, ask, known_only: true, person: None, ..usual };
        Ok(Self {
            common: common.clone(),
            options,
            terminal,
            runtime: Handle::current(),
            known: Lock::default(),
        })
    }

    async fn found(&self) -> Offered {
        let options = self.options.clone();
        let loaded = self.runtime.spawn(async move { offered(&options).await });
        let (common, terminal) = (self.common.clone(), self.terminal);
        let changes =
            self.runtime.spawn_blocking(move || verify::changes(&common, terminal).unwrap_or_default());
        let changes = changes.await.unwrap_or_default();
        match loaded.await {
            Ok(Ok(offered)) => Offered { changes, ..offered },
            Ok(Err(error)) => Offered { problem: Some(told(&error)), ..Offered::default() },
            Err(_) => {
                Offered { problem: Some("the program could not be loaded".into()), ..Offered::default() }
            }
        }
    }
}

#[async_trait]
impl Catalogue for ProgramCatalogue {
    async fn offered(&self) -> Offered {
        let known = self.known.lock().clone();
        if let Some((_, offered)) = known.filter(|(since, _)| since.elapsed() < FRESH) {
            return offered;
        }
        let found = self.found().await;
        *self.known.lock() = Some((Instant::now(), found.clone()));
        found
    }
}

async fn offered(options: &Options) -> anyhow::Result<Offered> {
    let program = Program::load(options).await?;
    let begun = program.begun();
    let path = || begun.path.as_ref().map(|path| path.display().to_string());
    let tools = program.toolbox.offered();
    let tools = tools.iter().filter_map(|(def, _)| offer(&program.toolbox, &def.name)).collect();
    let offered = Offered { program: begun.program.clone().or_else(path), tools, ..Offered::default() };
    program.close().await;
    Ok(offered)
}

fn offer(toolbox: &Toolbox, name: &str) -> Option<Offer> {
    let entry = toolbox.find(name)?;
    let def = entry.def();
    Some(Offer {
        name: def.name.clone(),
        description: def.description.clone(),
        origin: entry.origin().to_owned(),
        digest: entry.digest().map(str::to_owned),
        tokens: tokens(bytes(def)),
        asks: entry.asks(),
        grant: Granted::from(entry.grant()),
    })
}
