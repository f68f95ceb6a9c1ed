//! The contribution of one source of tools to a program, as a value, and the merge of all contributions into one
//! toolbox. Knows no source.

use std::path::PathBuf;
use std::sync::Arc;

use super::chosen_tools::Watching;
use super::machines::Placed;
use super::patterns::Unseen;
use super::rights::Rights;
use super::server_pins::FirstList;
use super::server_set::Servers;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::{Problem, Span};
use haft_core::skill::Shelved;
use haft_core::tool::{DuplicateTool, Tool, Toolbox};
use haft_manifest::Label;
use haft_nats::NatsTool;
use haft_sandbox::Backend;

/// The contribution of one source of tools to a program.
#[derive(Default)]
pub(super) struct Contribution {
    /// Tools, in the order in which models see them.
    pub(super) tools: Vec<NewTool>,
    /// Prompts and resources.
    pub(super) offers: Vec<NewTool>,
    /// Skills of MCP servers.
    pub(super) skills: Vec<Shelved>,
    /// Hooks that see the calls of tools.
    pub(super) hooks: Vec<Watching>,
    /// Problems that do not affect the rest of the program.
    pub(super) problems: Vec<Problem>,
    /// Exports of plugins that cannot be called, one line each.
    pub(super) uncallable: Vec<String>,
    /// Possible tools that are not in the toolbox.
    pub(super) unseen: Unseen,
    pub(super) files: Vec<PathBuf>,
    /// Whether a part of the source was not loaded.
    pub(super) is_partial: bool,
    /// Name prefixes of withheld tools, and the reasons.
    pub(super) held: Vec<(String, String)>,
    /// MCP servers whose first list waits for consent.
    pub(super) first_lists: Vec<FirstList>,
    /// Notices for the user about completed actions, one a line.
    pub(super) notices: Vec<String>,
    /// The MCP servers of some of the tools.
    pub(super) servers: Servers,
    /// The backend that commands run on; `None` for this machine.
    pub(super) backend: Option<Arc<dyn Backend>>,
}

/// A tool, a prompt or resources before the insertion into the toolbox.
pub(super) struct NewTool {
    pub(super) tool: Arc<dyn Tool>,
    /// The grant, before a calling program narrows it.
    pub(super) grant: Grant,
    pub(super) limits: Limits,
    /// The origin of the tool, for people.
    pub(super) origin: String,
    /// Labels of the workers that run the tool; empty: this process.
    pub(super) on: Vec<Label>,
    /// The line of program.toml that demands the user's approval.
    pub(super) asking: Option<String>,
    /// Another name that callers may write.
    pub(super) alias: Option<String>,
    /// The entry of the package that contains the tool. A duplicate name in a package is a problem of that package
    /// alone.
    pub(super) package: Option<Span>,
}

impl NewTool {
    /// Creates a local tool that needs no approval.
    pub(super) fn new(tool: Arc<dyn Tool>, grant: Grant, limits: Limits, origin: String) -> Self {
        Self { tool, grant, limits, origin, on: Vec::new(), asking: None, alias: None, package: None }
    }
}

impl Contribution {
    pub(super) fn append(&mut self, more: Self) {
        self.tools.extend(more.tools);
        self.offers.extend(more.offers);
        self.skills.extend(more.skills);
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

/// The contributions of all sources.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) toolbox: Toolbox,
    /// Everything except the tools.
    pub(super) rest: Contribution,
}

impl Merged {
    /// Inserts the tools of `more` into the toolbox, with the grants that `rights` permit. Fails if two tools have one
    /// name.
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

    /// Inserts a prompt or resources, unless their plugin runs on workers, which offer only tools.
    fn insert_offer(&mut self, rights: &Rights<'_>, new: NewTool) {
        let Placed::Here(offer) = rights.placement.of(&new.on, new.tool) else { return };
        let grant = self.bound(rights, &new.grant, &new.origin);
        let inserted = self.toolbox.insert_offer(offer, (grant, new.limits), new.origin, new.asking);
        // If two plugins have one name, which is an error for tools, the first offer is used.
        if let Err(error) = inserted {
            self.rest.problems.push(Problem::new(error.to_string()));
        }
    }

    /// Returns the remaining grant of a tool from `origin`. Reports removed rights as a warning, once for each origin.
    fn bound(&mut self, rights: &Rights<'_>, wanted: &Grant, origin: &str) -> Grant {
        let (grant, withheld) = rights.bound(wanted, origin);
        let problems = &mut self.rest.problems;
        problems.extend(withheld.filter(|problem| !problems.contains(problem)));
        grant
    }
}
