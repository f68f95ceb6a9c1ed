//! `haft page`: a page for a browser on this machine, on which a person watches what every haft of this user calls, and
//! answers what waits. It changes no grant and no program.toml.

mod catalogue;

use std::io::{self, BufRead, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use secrecy::ExposeSecret;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::catalogue::ProgramCatalogue;
use super::Exit;
use super::common::Common;
use super::pipes::signals;
use super::terminal::Terminal;
use haft::program::Dirs;
use haft_page::{Link, Places, Server};

#[derive(Debug, Args)]
#[command(after_help = "\
The page shows the calls, sessions and questions of every haft process of this user. Its link lets in one browser, \
once, within an hour; Enter at the terminal prints another. While a browser shows the page, `haft run`, `haft chat`, \
`haft call` and `haft serve` ask there where nobody can be asked otherwise.

Examples:
  haft page
  haft page -p program.toml                   its tools, what they cost, and what changed since program.lock
  haft page --listen 127.0.0.1:7411           the same port in `ssh -L 7411:127.0.0.1:7411 HOST`")]
pub(super) struct Page {
    /// Listen here; an address of this machine alone [default: a loopback address and port of its own]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

impl Page {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let stop = CancellationToken::new();
        let shown = start(common, self.listen, &stop, terminal)?;
        if io::stdin().is_terminal() {
            terminal.message("Enter prints another link, Ctrl-C ends the page");
            let links = shown.links;
            std::thread::spawn(move || print_links(&links, terminal));
        }
        tokio::select! {
            exit = signals(stop.clone()) => Ok(exit),
            () = stop.cancelled() => Ok(Exit::Success),
        }
    }
}

/// A page that is served until this is dropped.
pub(super) struct Shown {
    links: Links,
    _ends: DropGuard,
}

type Links = Box<dyn Fn() -> io::Result<Link> + Send>;

/// Serves the page, and tells its link once.
pub(super) fn start(
    common: &Common,
    address: Option<SocketAddr>,
    stop: &CancellationToken,
    terminal: Terminal,
) -> anyhow::Result<Shown> {
    let dirs = Dirs::of_this_machine()?;
    // Closed to tools before the first question lies there.
    dirs.own()?;
    let places = Places { journal: dirs.journal(), sessions: dirs.kept_sessions(), desk: dirs.desk() };
    let catalogue = Arc::new(ProgramCatalogue::new(common, terminal)?);
    let server = Server::bind(address, places, catalogue).context("cannot serve the page")?;
    let links: Links = Box::new(server.links());
    let ends = stop.child_token();
    tell(&server.link()?, terminal);
    server.start(ends.clone()).context("cannot serve the page")?;
    Ok(Shown { links, _ends: ends.drop_guard() })
}

/// Told once, before its key counts as a secret that nothing may print.
fn tell(link: &Link, terminal: Terminal) {
    terminal.message(format_args!("open the page in your browser, once:\n  {}", link.url().expose_secret()));
    terminal.redactor().add([link.key()]);
}

/// Another link for every line that a person enters.
fn print_links(links: &Links, terminal: Terminal) {
    for line in io::stdin().lock().lines() {
        match line.and_then(|_| links()) {
            Ok(link) => tell(&link, terminal),
            Err(_) => return,
        }
    }
}
