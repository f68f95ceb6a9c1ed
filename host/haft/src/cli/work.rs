//! `haft worker`: runs calls of other machines, with the rights that this machine's program.toml grants.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::common::Common;
use super::pipes::signals;
use super::serve::{answer_prometheus, report_news};
use super::terminal::{Hinted, Terminal, counted};
use super::trusted;
use crate::cli::Exit;
use haft::program::{Ask, Live, News, Options, Program};
use haft_author::watch::Moment;
use haft_journal as journal;
use haft_manifest::{Label, Name};
use haft_nats::WorkerSettings;

/// Default number of concurrent calls of a worker. Each may use the memory of its limits.
const PLACES: u32 = 32;

/// Maximum number of concurrent calls: one process has no threads and memory for more.
const MAX_PLACES: i64 = 4096;

/// Time limit for the tools of MCP servers that had none at the first request.
const SETTLING: Duration = Duration::from_secs(10);

/// The name of a worker without a name, on a machine that does not state its own.
const NAMELESS: &str = "worker";

#[derive(Debug, Args)]
#[command(after_help = "\
A worker runs the tools of program.toml whose `on` has one of its labels, or `*`. It takes calls from gates \
with the same program.lock and NATS server: `haft serve`, `run`, `chat` and `call` with the same `[nats]` or \
`--nats`. The worker's own program.toml sets the rights of its calls. Changes to program.toml, program.lock and \
plugin files take effect at once; for gates that have not read them yet, the old tools stay for at most an \
hour. On a signal the worker finishes its running calls and exits.

Examples:
  haft worker --nats nats://127.0.0.1:4222 --label eu,gpu
  haft worker --label eu --name eu-1 --places 4")]
pub(super) struct Work {
    /// The worker's labels; `on` in program.toml selects workers by label
    #[arg(short, long, value_name = "LABEL", value_delimiter = ',')]
    label: Vec<Label>,
    /// The worker's name; NATS permissions can bind a user to one name [default: the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// The maximum number of calls at once
    #[arg(long, value_name = "N", default_value_t = PLACES, value_parser = clap::value_parser!(u32).range(1..=MAX_PLACES))]
    places: u32,
    /// Serve Prometheus metrics over HTTP at this address, port 0 for any; the path is /metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::common::address)]
    metrics: Option<SocketAddr>,
}

impl Work {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if let Some(star) = self.label.iter().find(|label| label.is_any()) {
            anyhow::bail!(
                "`--label {star}` is not a label: give a name; `on = [\"*\"]` in program.toml means any \
                 worker"
            );
        }
        let name = self.name.clone().map_or_else(own_name, String::from);
        answer_prometheus(self.metrics, terminal).await?;
        let options = common.options(terminal, true)?;
        let machines = options.machines.clone().worker(self.label.clone());
        // Only a user at a gate can be asked.
        let pins_first_lists = trusted::pins_first_lists(&options, terminal);
        let options = Options { machines, ask: Ask::WhereUnknown, person: None, pins_first_lists, ..options };
        let read = Moment::now();
        let program = load(common, terminal, &options).await?.of_worker(&name);
        let done = self.work(&name, &program, (options, read), terminal).await;
        program.close().await;
        done
    }

    async fn work(
        &self,
        name: &str,
        program: &Program,
        (options, read): (Options, Moment),
        terminal: Terminal,
    ) -> anyhow::Result<Exit> {
        let count = program.toolbox.entries().len();
        if count == 0 {
            return Err(self.nothing().into());
        }
        program.journal.gather();
        let settings =
            WorkerSettings { name: name.to_owned(), labels: self.label.clone(), places: self.places };
        let worker = program.worker(settings).await?;
        let stop = CancellationToken::new();
        let ending = tokio::spawn(signals(stop.clone()));
        let (own, name, places) = (worker.clone(), name.to_owned(), self.places);
        let ready = move || {
            let tools = own.tools();
            terminal.message(format_args!(
                "worker `{name}` takes calls: {} ({}), {places} at one time",
                counted(tools.len(), "tool"),
                tools.join(", "),
            ));
        };
        let shipping = program.shipper(&worker).map(|shipper| tokio::spawn(shipper.run(stop.clone())));
        let on_news = move |news: News<'_>| report_news(terminal, &news);
        let live = Live::of_worker(options, program, read, worker.clone(), on_news);
        let (running, kept) = (live.running.clone(), tokio::spawn(live.keep()));
        let exit = tokio::select! {
            ended = worker.run(stop.clone(), ready) => ended.map(|()| Exit::Success).context("the worker \
                cannot continue"),
            exit = ending => Ok(exit?),
        };
        kept.abort();
        running.close().await;
        journal::write_through();
        stop.cancel();
        if let Some(shipping) = shipping {
            // Shipping has its own time limit.
            let _ = shipping.await;
        }
        exit
    }

    fn nothing(&self) -> Hinted {
        let labels = match self.label.as_slice() {
            [] => "a worker without labels".to_owned(),
            labels => format!("a worker labelled {}", Label::listed(labels)),
        };
        let text = format!("no tool of this program runs on {labels}");
        let hint = "set `on = [\"LABEL\"]` in `[[plugins]]`, `[[tools]]`, `[[mcp_servers]]` or \
                     `[builtins.on]`";
        Hinted::new(text, hint)
    }
}

/// Loads the program, and waits for late tools of MCP servers: a server that loads plugins has no tools at first, and
/// a worker has a fixed list of tools.
async fn load(common: &Common, terminal: Terminal, options: &Options) -> anyhow::Result<Program> {
    let program = common.load(terminal, options).await?;
    if !program.servers.are_empty()
        || tokio::time::timeout(SETTLING, program.servers.changed()).await.is_err()
    {
        return Ok(program);
    }
    let options = Options { servers: program.servers.clone(), ..options.clone() };
    common.load(terminal, &options).await
}

/// Returns the name of this machine in the environment, in the form of a worker's name.
fn own_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default().to_ascii_lowercase();
    let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let text: String = host.chars().map(kept).take(Name::MAX).collect();
    text.parse::<Name>().map_or_else(|_| NAMELESS.to_owned(), String::from)
}
