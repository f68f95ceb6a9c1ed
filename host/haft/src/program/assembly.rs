//! A toolbox being filled, and what is found out on the way. Knows no source of tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::family::FILE_NAME;
use super::machines::{Placed, Placement};
use super::patterns::Unseen;
use super::under::Under;
use super::watching::Watching;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::Problem;
use haft_core::tool::{DuplicateTool, Tool, Toolbox};
use haft_manifest::{Label, Manifest, Package};
use haft_nats::NatsTool;
use haft_package::lock_path;

/// A toolbox being filled, in the order in which models see the tools.
pub(super) struct Assembly<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) toolbox: Toolbox,
    pub(super) problems: Vec<Problem>,
    pub(super) uncallable: Vec<String>,
    pub(super) known_only: bool,
    pub(super) is_complete: bool,
    /// Whether commands run on a target, whose files are not this machine's.
    pub(super) is_target: bool,
    /// The files that the program is made of.
    pub(super) files: Vec<PathBuf>,
    /// Tools that there may be, and that are not in the toolbox.
    pub(super) unseen: Unseen,
    /// What binds its tools, where it works as an agent of another program.
    under: Option<Under>,
    /// What is closed to its tools besides.
    sealed: Grant,
    /// What sees the calls of tools.
    pub(super) hooks: Vec<Watching>,
    /// Where its tools live.
    pub(super) placement: Placement,
}

impl<'a> Assembly<'a> {
    /// An empty one. `unseen` are the tools that there may be and that nothing here loads.
    pub(super) fn new(manifest: &'a Manifest, unseen: Unseen, known_only: bool) -> Self {
        let named = Some(manifest.path.as_path()).filter(|path| !path.as_os_str().is_empty());
        let program = named.unwrap_or(Path::new(FILE_NAME));
        let files = vec![program.to_owned(), lock_path(program)];
        Self {
            manifest,
            toolbox: Toolbox::default(),
            problems: Vec::new(),
            uncallable: Vec::new(),
            known_only,
            is_complete: true,
            is_target: false,
            files,
            unseen,
            under: None,
            sealed: Grant::none(),
            hooks: Vec::new(),
            placement: Placement::default(),
        }
    }

    /// The same, whose tools live where `placement` says.
    pub(super) fn placed(self, placement: Placement) -> Self {
        let mut problems = self.problems;
        problems.extend(placement.problem(self.manifest));
        Self { problems, placement, ..self }
    }

    /// The same, all of whose tools are bound by `under` and to which is closed what is closed in `sealed`.
    pub(super) fn bound(self, under: Option<Under>, sealed: Grant) -> Self {
        Self { under, sealed, ..self }
    }

    /// What binds its tools, where it works as an agent of another program.
    pub(super) fn under(&self) -> Option<&Under> {
        self.under.as_ref()
    }

    /// What is left of the grant of a tool from `origin`. What is not is a warning, once for each origin.
    fn narrowed(&mut self, wanted: &Grant, origin: &str) -> Grant {
        let grant = match &self.under {
            Some(under) => {
                let withheld = under.withheld(wanted);
                let problem = (!withheld.is_empty()).then(|| withheld_from(origin, &withheld));
                self.problems.extend(problem.filter(|problem| !self.problems.contains(problem)));
                under.narrowed(wanted)
            }
            None => wanted.clone(),
        };
        grant.with_protected_paths_of(&self.sealed)
    }

    /// Puts a tool in, and the line of program.toml that has a person asked before it runs.
    pub(super) fn insert(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: &Grant,
        limits: Limits,
        origin: String,
        asking: Option<String>,
    ) -> Result<(), DuplicateTool> {
        self.insert_on(&[], (tool, grant), limits, origin, asking)
    }

    /// The same for a tool that lives on workers labelled `on`, or here where there are no labels.
    pub(super) fn insert_on(
        &mut self,
        on: &[Label],
        (tool, grant): (Arc<dyn Tool>, &Grant),
        limits: Limits,
        origin: String,
        asking: Option<String>,
    ) -> Result<(), DuplicateTool> {
        let name = tool.def().name.clone();
        let (tool, limits) = match self.placement.of(on, tool) {
            Placed::Here(tool) => (tool, limits),
            Placed::There(tool) => (tool, NatsTool::limits(limits)),
            Placed::Elsewhere(why) => {
                self.unseen.extend(why.map(|why| (name.clone(), format!("`{name}` is not here: {why}"))));
                return Ok(());
            }
        };
        let grant = self.narrowed(grant, &origin);
        match asking {
            Some(setting) => self.toolbox.insert_asking(tool, grant, limits, origin, setting),
            None => self.toolbox.insert(tool, grant, limits, origin),
        }
    }

    /// Puts a prompt or resources of a plugin in, unless the plugin lives on workers: those are asked for tools alone.
    pub(super) fn insert_offer(
        &mut self,
        on: &[Label],
        (offer, grant): (Arc<dyn Tool>, &Grant),
        limits: Limits,
        origin: String,
        asking: Option<String>,
    ) -> Result<(), DuplicateTool> {
        let Placed::Here(offer) = self.placement.of(on, offer) else { return Ok(()) };
        let grant = self.narrowed(grant, &origin);
        self.toolbox.insert_offer(offer, (grant, limits), origin, asking)
    }

    /// Where tools of a package come from, for people.
    pub(super) fn origin_of(&self, package: &Package) -> String {
        let name = &package.name;
        format!("package `{}` at {}", name.as_str(), self.manifest.source.place(name.span))
    }

    /// Notes that a part of a package is not used.
    pub(super) fn left_out(&mut self, package: &Package, why: String) {
        self.problems.push(Problem::new(why).at(package.name.span, "this package"));
    }
}

/// That tools from `origin` do not get what they ask for.
pub(super) fn withheld_from(origin: &str, withheld: &[String]) -> Problem {
    let text = format!("tools of this agent ({origin}) may not {}", withheld.join(", "));
    Problem::new(text).warning().hint("an agent gets no more than the program that calls it has")
}
