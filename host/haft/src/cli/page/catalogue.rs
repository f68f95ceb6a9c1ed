//! What the page is told of the tools of the program that it was opened for: as that is loaded without running anything.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::runtime::Handle;

use crate::cli::common::Common;
use crate::cli::terminal::{Terminal, told};
use crate::cli::{trusted, verify};
use haft::program::{Ask, Options, Program};
use haft_core::event::Events;
use haft_core::sync::Lock;
use haft_core::tool::{Toolbox, bytes, tokens};
use haft_journal::Granted;
use haft_page::{Catalogue, Offer, Offered};

/// How long what was found is shown: program.toml may change at any time, and installed files are all read to compare them.
const FRESH: Duration = Duration::from_secs(10);

/// The tools of a program.
pub(super) struct ProgramCatalogue {
    common: Common,
    options: Options,
    terminal: Terminal,
    /// On which the program is loaded: the page's own waits for nothing.
    runtime: Handle,
    known: Lock<Option<(Instant, Offered)>>,
}

impl ProgramCatalogue {
    pub(super) fn new(common: &Common, terminal: Terminal) -> anyhow::Result<Self> {
        let (events, ask, usual) = (Events::none(), Ask::Never, common.options(terminal, false)?);
        let trust = trusted::or_left_out(usual.trust.clone());
        let options = Options { trust, events, ask, known_only: true, person: None, ..usual };
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
