//! What one source of tools adds to a program, as a value, and how the values of all sources become one toolbox. Knows no
//! source.

use std::path::PathBuf;
use std::sync::Arc;

use super::machines::Placed;
use super::patterns::Unseen;
use super::rights::Rights;
use super::server_pins::FirstList;
use super::server_set::Servers;
use super::watching::Watching;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::{Problem, Span};
use haft_core::tool::{DuplicateTool, Tool, Toolbox};
use haft_manifest::Label;
use haft_nats::NatsTool;
use haft_sandbox::Backend;

/// What one source of tools adds to a program.
#[derive(Default)]
pub(super) struct Contribution {
    /// Tools, in the order in which models see them.
    pub(super) tools: Vec<NewTool>,
    /// Prompts and resources.
    pub(super) offers: Vec<NewTool>,
    /// What sees the calls of tools.
    pub(super) hooks: Vec<Watching>,
    /// What is wrong without keeping the rest from working.
    pub(super) problems: Vec<Problem>,
    /// Exports of plugins that cannot be called, one line each.
    pub(super) uncallable: Vec<String>,
    /// Tools that there may be, and that are not in the toolbox.
    pub(super) unseen: Unseen,
    pub(super) files: Vec<PathBuf>,
    /// Whether something was skipped.
    pub(super) is_partial: bool,
    /// What the names of tools begin with that are held back, and why.
    pub(super) held: Vec<(String, String)>,
    /// MCP servers whose tools nobody agreed to yet.
    pub(super) first_lists: Vec<FirstList>,
    /// What was done that a person should know, a line each.
    pub(super) notices: Vec<String>,
    /// The MCP servers that have some of the tools.
    pub(super) servers: Servers,
    /// Where commands run, if that was chosen.
    pub(super) backend: Option<Arc<dyn Backend>>,
}

/// A tool, a prompt or resources on the way into the toolbox.
pub(super) struct NewTool {
    pub(super) tool: Arc<dyn Tool>,
    /// What it may do, where no program that this one works for narrows it.
    pub(super) grant: Grant,
    pub(super) limits: Limits,
    /// Where it comes from, for people.
    pub(super) origin: String,
    /// Labels of the workers that it lives on; none: it lives here.
    pub(super) on: Vec<Label>,
    /// The line of program.toml that has a person asked before it runs.
    pub(super) asking: Option<String>,
    /// Another name that callers may write.
    pub(super) alias: Option<String>,
    /// The entry of the package that it comes in. A package's choice of names keeps nothing else from working.
    pub(super) package: Option<Span>,
}

impl NewTool {
    /// One that lives here and asks nobody.
    pub(super) fn new(tool: Arc<dyn Tool>, grant: Grant, limits: Limits, origin: String) -> Self {
        Self { tool, grant, limits, origin, on: Vec::new(), asking: None, alias: None, package: None }
    }
}

impl Contribution {
    /// Takes in what `more` has, after what is here.
    pub(super) fn append(&mut self, more: Self) {
        self.tools.extend(more.tools);
        self.offers.extend(more.offers);
        self.hooks.extend(more.hooks);
        self.problems.extend(more.problems);
        self.uncallable.extend(more.uncallable);
        self.unseen.append(more.unseen);
        self.files.extend(more.files);
        self.is_partial |= more.is_partial;
        self.held.extend(more.held);
        self.first_lists.extend(more.first_lists);
        self.notices.extend(more.notices);
        self.servers.0.extend(more.servers.0);
        self.backend = self.backend.take().or(more.backend);
    }
}

impl FromIterator<Contribution> for Contribution {
    fn from_iter<I: IntoIterator<Item = Contribution>>(all: I) -> Self {
        let mut whole = Self::default();
        all.into_iter().for_each(|one| whole.append(one));
        whole
    }
}

/// What all sources add to a program.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) toolbox: Toolbox,
    /// All but the tools.
    pub(super) rest: Contribution,
}

impl Merged {
    /// Puts the tools of `more` into the toolbox, with what `rights` leave of their grants. Fails where two tools have one name.
    pub(super) fn add(&mut self, rights: &Rights<'_>, mut more: Contribution) -> Result<(), DuplicateTool> {
        let (tools, offers) = (std::mem::take(&mut more.tools), std::mem::take(&mut more.offers));
        self.rest.append(more);
        for tool in tools {
            self.insert(rights, tool)?;
        }
        for offer in offers {
            self.insert_offer(rights, offer);
        }
        Ok(())
    }

    fn insert(&mut self, rights: &Rights<'_>, new: NewTool) -> Result<(), DuplicateTool> {
        let name = new.tool.def().name.clone();
        let (tool, limits) = match rights.placement.of(&new.on, new.tool) {
            Placed::Here(tool) => (tool, new.limits),
            Placed::There(tool) => (tool, NatsTool::limits(new.limits)),
            Placed::Elsewhere(why) => {
                let why = why.map(|why| (name.clone(), format!("`{name}` is not available: {why}")));
                self.rest.unseen.extend(why);
                return Ok(());
            }
        };
        let grant = self.bound(rights, &new.grant, &new.origin);
        let inserted = match new.asking {
            Some(setting) => self.toolbox.insert_asking(tool, grant, limits, new.origin, setting),
            None => self.toolbox.insert(tool, grant, limits, new.origin),
        };
        match (inserted, new.package) {
            (Err(error), Some(package)) => {
                self.rest.problems.push(Problem::new(error.to_string()).at(package, "this package"));
            }
            (inserted, _) => {
                inserted?;
                new.alias.into_iter().for_each(|alias| self.toolbox.alias(alias, &name));
            }
        }
        Ok(())
    }

    /// Puts a prompt or resources in, unless their plugin runs on workers: those are asked for tools alone.
    fn insert_offer(&mut self, rights: &Rights<'_>, new: NewTool) {
        let Placed::Here(offer) = rights.placement.of(&new.on, new.tool) else { return };
        let grant = self.bound(rights, &new.grant, &new.origin);
        let inserted = self.toolbox.insert_offer(offer, (grant, new.limits), new.origin, new.asking);
        // Of two plugins of one name, which tools are refused for, the first counts.
        if let Err(error) = inserted {
            self.rest.problems.push(Problem::new(error.to_string()));
        }
    }

    /// What is left of the grant of a tool from `origin`. What is not is a warning, once for each origin.
    fn bound(&mut self, rights: &Rights<'_>, wanted: &Grant, origin: &str) -> Grant {
        let (grant, withheld) = rights.bound(wanted, origin);
        let problems = &mut self.rest.problems;
        problems.extend(withheld.filter(|problem| !problems.contains(problem)));
        grant
    }
}
