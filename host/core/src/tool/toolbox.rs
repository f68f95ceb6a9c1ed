//! Tools by name, and the only way to call them: [`Toolbox::dispatch`] resolves the tool, begins the call's record,
//! admits the call, runs it and ends the record. Every failure becomes an answer; `dispatch` returns no error.

mod resolve;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::bounds::Bounds;
use super::entry::Entry;
use super::rules::Rules;
use super::session::Session;
use super::watch::{Ended, Watch};
use super::{Hook, Tool, ToolError, coercion};
use crate::call::{ToolCall, ToolDef, ToolResult};
use crate::grant::Grant;
use crate::limit::Limits;
use crate::pattern::ToolPattern;
use crate::trace::Operation;

/// Tools by name, in the order of their insertion.
#[derive(Clone, Default)]
pub struct Toolbox {
    pub(super) entries: Vec<Arc<Entry>>,
    /// Every name and alias, to the index of its entry.
    names: HashMap<String, usize>,
    /// Prompts and resources: models are not offered them, and [`Toolbox::find`] does not find them.
    offers: Vec<Arc<Entry>>,
    /// The tools that models are offered, if not all fit.
    pub(super) offered: Option<Offered>,
    /// Name prefixes of absent tools, and the reasons.
    pub(super) withheld: Arc<[(String, String)]>,
}

/// Two tools with one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two tools have the name `{name}`: one from {first}, one from {second}")]
pub struct DuplicateTool {
    /// The name both claim.
    pub name: String,
    /// The origin of the first tool.
    pub first: String,
    /// The origin of the second tool.
    pub(crate) second: String,
}

impl Toolbox {
    /// Inserts a tool. `origin` is its origin, for people.
    pub fn insert(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: Grant,
        limits: Limits,
        origin: impl Into<String>,
    ) -> Result<(), DuplicateTool> {
        self.put(Entry::new(tool, grant, limits, origin))
    }

    /// Inserts a tool before all others, so that models are offered it under every budget.
    pub fn insert_first(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: Grant,
        limits: Limits,
        origin: impl Into<String>,
    ) -> Result<(), DuplicateTool> {
        self.insert(tool, grant, limits, origin)?;
        self.entries.rotate_right(1);
        let last = self.entries.len() - 1;
        for index in self.names.values_mut() {
            *index = if *index == last { 0 } else { *index + 1 };
        }
        Ok(())
    }

    /// Inserts a tool whose calls need the user's approval. `setting` is the line of program.toml that demands it.
    pub fn insert_asking(
        &mut self,
        tool: Arc<dyn Tool>,
        grant: Grant,
        limits: Limits,
        origin: impl Into<String>,
        setting: impl Into<Arc<str>>,
    ) -> Result<(), DuplicateTool> {
        let entry = Entry::new(tool, grant, limits, origin);
        self.put(entry.asking(setting))
    }

    /// Inserts a prompt or resources, which [`Toolbox::dispatch_to`] calls. With `setting` the user is asked
    /// before.
    ///
    /// # Errors
    /// A tool or offer of this name exists.
    pub fn insert_offer(
        &mut self,
        offer: Arc<dyn Tool>,
        (grant, limits): (Grant, Limits),
        origin: impl Into<String>,
        setting: Option<String>,
    ) -> Result<(), DuplicateTool> {
        let entry = Entry::new(offer, grant, limits, origin);
        if let Some(first) = self.find_offer(&entry.def().name) {
            let (name, second) = (entry.def().name.clone(), entry.origin().into());
            return Err(DuplicateTool { name, first: first.origin().into(), second });
        }
        let entry = setting.into_iter().fold(entry, Entry::asking);
        self.offers.push(Arc::new(entry));
        Ok(())
    }

    /// Returns these tools with `tools` in place of those whose names `are_replaced`. New tools are last. They have
    /// the grant, the limits and the origin of `like`, and no rules or hooks. `withheld` are the names of absent tools
    /// among them, with the reasons.
    #[must_use]
    pub fn replacing(
        &self,
        are_replaced: impl Fn(&str) -> bool,
        like: &Entry,
        tools: Vec<Arc<dyn Tool>>,
        withheld: Vec<(String, String)>,
    ) -> Self {
        let is_kept = |def: &ToolDef| !are_replaced(&def.name) || tools.iter().any(|tool| tool.def() == def);
        let gone: Vec<String> =
            self.entries().map(Entry::def).filter(|def| !is_kept(def)).map(|def| def.name.clone()).collect();
        let mut renewed = if gone.is_empty() { self.clone() } else { self.without(&gone) };
        for tool in tools {
            // An existing tool is unchanged.
            let _same: Result<_, _> = renewed.put(like.of(tool));
        }
        let others = self.withheld.iter().filter(|(name, _)| !are_replaced(name)).cloned();
        let withheld: Vec<_> = withheld.into_iter().chain(others).collect();
        renewed.withholding(withheld)
    }

    fn put(&mut self, entry: Entry) -> Result<(), DuplicateTool> {
        let name = entry.def().name.clone();
        if let Some(first) = self.names.get(&name).and_then(|index| self.entries.get(*index)) {
            return Err(DuplicateTool { name, first: first.origin().into(), second: entry.origin().into() });
        }
        self.names.insert(name, self.entries.len());
        self.entries.push(Arc::new(entry));
        Ok(())
    }

    /// Returns these tools with the name prefixes of absent tools and the reasons.
    #[must_use]
    pub fn withholding(self, withheld: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { withheld: withheld.into_iter().collect(), ..self }
    }

    /// Returns the reason why the tool `name` is absent, if known.
    pub fn withheld(&self, name: &str) -> Option<&str> {
        let is_meant =
            |(prefix, _): &&(String, String)| !prefix.is_empty() && name.starts_with(prefix.as_str());
        self.withheld.iter().find(is_meant).map(|(_, why)| why.as_str())
    }

    /// Allows callers to write `alias` for the tool `name`. A tool's own name takes precedence over an alias.
    pub fn alias(&mut self, alias: impl Into<String>, name: &str) {
        if let Some(index) = self.names.get(name).copied() {
            self.names.entry(alias.into()).or_insert(index);
        }
    }

    /// Returns the tools that `patterns` match, with their grants narrowed to `grant`. Without a pattern the result
    /// is empty. Models are offered all of them: a budget is set last.
    #[must_use]
    pub fn select(&self, patterns: &[ToolPattern], grant: Option<&Grant>) -> Self {
        self.chosen(|name| patterns.iter().any(|pattern| pattern.matches(name)), grant)
    }

    /// Returns the tools that `patterns` name with no more than `grant`, and the names of those omitted that would
    /// have more: their rights are fixed before a call.
    pub fn bound_by(&self, patterns: &[ToolPattern], grant: &Grant) -> (Self, Vec<String>) {
        let narrowed = self.select(patterns, Some(grant));
        let is_unbound = |(wide, narrow): (Option<&Entry>, &Entry)| {
            wide.is_some_and(|wide| wide.ignores_grant_of(narrow)).then(|| narrow.def().name.clone())
        };
        let tools = narrowed.entries().map(|entry| (self.find(&entry.def().name), entry));
        let own: HashMap<&str, &Entry> =
            self.offers().map(|offer| (offer.def().name.as_str(), offer)).collect();
        let offers = narrowed.offers().map(|offer| (own.get(offer.def().name.as_str()).copied(), offer));
        let unbound: Vec<String> = tools.chain(offers).filter_map(is_unbound).collect();
        (narrowed.without(&unbound), unbound)
    }

    /// Returns the tools, prompts and resources except those with these original names.
    #[must_use]
    pub fn without(&self, names: &[String]) -> Self {
        let gone: HashSet<&str> = names.iter().map(String::as_str).collect();
        let is_left = |name: &str| {
            let entry = self.names.get(name).and_then(|index| self.entries.get(*index));
            !gone.contains(entry.map_or(name, |entry| entry.def().name.as_str()))
        };
        self.chosen(is_left, None)
    }

    /// Returns the tools, prompts and resources with a name for which `is_meant` holds.
    pub(super) fn chosen(&self, is_meant: impl Fn(&str) -> bool, grant: Option<&Grant>) -> Self {
        let meant = self.names.iter().filter(|(name, _)| is_meant(name));
        let chosen: BTreeSet<usize> = meant.map(|(_, index)| *index).collect();
        let own: HashMap<usize, usize> =
            chosen.iter().enumerate().map(|(own, index)| (*index, own)).collect();
        let names = self.names.iter().filter_map(|(name, index)| Some((name.clone(), *own.get(index)?)));
        let entries = chosen.iter().filter_map(|index| self.entries.get(*index));
        let narrowed =
            |entry: &Arc<Entry>| grant.map_or_else(|| entry.clone(), |grant| Arc::new(entry.narrowed(grant)));
        let offers = self.offers.iter().filter(|offer| is_meant(&offer.def().name)).map(narrowed).collect();
        let (entries, names) = (entries.map(narrowed).collect(), names.collect());
        Self { entries, names, offers, offered: None, withheld: self.withheld.clone() }
    }

    /// Returns these tools with rules for their calls. Rules may also name a tool by its alias.
    #[must_use]
    pub fn ruled(&self, rules: &Rules) -> Self {
        self.each(|entry, names| match rules.of(names, entry.setting.is_some()) {
            None if entry.rules.is_none() => entry.clone(),
            own => Arc::new(entry.ruled(own)),
        })
    }

    /// Returns these tools with the bounds of the calling programs, nearest first.
    #[must_use]
    pub fn bounded(&self, bounds: &[Bounds]) -> Self {
        self.each(|entry, names| {
            Arc::new(entry.bounded(bounds.iter().filter_map(|bounds| bounds.of(names)).collect()))
        })
    }

    /// Returns these tools with `change` applied to each tool, prompt and resource and all its names.
    pub(super) fn each(&self, change: impl Fn(&Arc<Entry>, &[&str]) -> Arc<Entry>) -> Self {
        let entries = self.entries.iter().zip(self.all_names());
        let entries = entries.map(|(entry, names)| change(entry, &names)).collect();
        let offers = self.offers.iter().map(|offer| change(offer, &[&offer.def().name])).collect();
        Self { entries, offers, ..self.clone() }
    }

    /// Returns every name of each tool, unordered, for all tools together: a search for each tool would take time
    /// that grows with the square of their number.
    fn all_names(&self) -> Vec<Vec<&str>> {
        let mut all = vec![Vec::new(); self.entries.len()];
        for (name, index) in &self.names {
            if let Some(own) = all.get_mut(*index) {
                own.push(name.as_str());
            }
        }
        all
    }

    /// Returns these tools with `hook` added to those that `tools` match, also by alias.
    #[must_use]
    pub fn hooked(&self, tools: &[ToolPattern], hook: &Arc<dyn Hook>) -> Self {
        let is_seen =
            |names: &[&str]| names.iter().any(|name| tools.iter().any(|pattern| pattern.matches(name)));
        self.each(
            |entry, names| {
                if is_seen(names) { Arc::new(entry.hooked(hook.clone())) } else { entry.clone() }
            },
        )
    }

    /// Returns the tools, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// Returns the prompts and resources, in order.
    pub fn offers(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.offers.iter().map(Arc::as_ref)
    }

    /// Returns the prompt or the resources of exactly this name.
    pub fn find_offer(&self, name: &str) -> Option<&Entry> {
        self.offers().find(|offer| offer.def().name == name)
    }

    /// Returns every name that a tool can be called by, and those of prompts and resources, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let offers = self.offers().map(|offer| offer.def().name.as_str());
        self.names.keys().map(String::as_str).chain(offers)
    }

    /// Returns the tools without those of MCP servers that are for user interfaces alone.
    #[must_use]
    pub fn for_models(&self) -> Self {
        let is_hidden = |entry: &&Entry| entry.served().is_some_and(|served| !served.is_visible_to("model"));
        let hidden: Vec<_> = self.entries().filter(is_hidden).map(|entry| entry.def().name.clone()).collect();
        self.without(&hidden)
    }

    /// Returns the definitions for models, in order.
    pub fn defs(&self) -> Vec<&ToolDef> {
        self.offered().into_iter().map(|(def, _)| def).collect()
    }

    /// Returns the tool that `name` means: exactly, as an alias, or without regard to case.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entry(name).map(Arc::as_ref)
    }

    /// Returns the tool that [`Toolbox::find`] finds, to be kept for its call.
    pub fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        let exact = self.names.get(name).and_then(|index| self.entries.get(*index));
        let is_it = |entry: &&Arc<Entry>| entry.def().name.eq_ignore_ascii_case(name);
        let search = self.offered.iter().map(|offered| &offered.search);
        exact.or_else(|| self.entries.iter().chain(search).find(is_it))
    }

    /// Runs a call and returns an answer in every case: finds the tool, reports the begin of the call, admits it,
    /// runs it, and reports its end.
    pub async fn dispatch(&self, call: ToolCall, session: &Session) -> ToolResult {
        let (call, found) = self.resolve(call);
        Self::answer(call, found, session).await
    }

    /// Runs a call of `entry`, which was found by the name in the call: a tool, a prompt or resources.
    pub async fn dispatch_to(entry: &Entry, call: ToolCall, session: &Session) -> ToolResult {
        Self::answer(call, Ok(entry), session).await
    }

    async fn answer(mut call: ToolCall, found: Result<&Entry, Ended>, session: &Session) -> ToolResult {
        let (begun, entry) = (Instant::now(), found.as_ref().ok().copied());
        let coerced = entry
            .map_or(Ok(Vec::new()), |entry| coercion::coerce(&entry.def().parameters, &mut call.arguments));
        let watch = begin(&call, entry, session);
        let found = match coerced {
            Ok(told) => {
                watch.notes().coerced(told);
                found
            }
            Err(inexact) => Err(Ended::Failed(ToolError::InvalidArguments(inexact))),
        };
        let (span, trace) = session.trace.begin_call(|| {
            // An unknown tool has no name in a trace, because the caller chose it.
            Operation::Tool { tool: entry.map_or("", |entry| entry.def().name.as_str()), call: &call.id }
        });
        let ended = match found {
            Ok(entry) => match entry.admit(&call, &watch, session).await {
                Ok(approved) => entry.run(&call, approved, &watch, (session, &trace)).await,
                Err(ended) => ended,
            },
            Err(ended) => ended,
        };
        let result = watch.end(ended);
        span.end(&result.is_error.into());
        if let Some(entry) = entry {
            entry.tell(&call, &result, begun.elapsed(), session).await;
        }
        result
    }

    /// Answers a call with `refusal` instead of running it. It is journalled and emitted like any other call.
    pub fn refuse(&self, call: &ToolCall, refusal: ToolResult, session: &Session) -> ToolResult {
        begin(call, self.find(&call.tool), session).end(Ended::Refused(refusal))
    }
}

/// Begins the record of a call of `entry`, which may not exist.
fn begin<'a>(call: &'a ToolCall, entry: Option<&Entry>, session: &'a Session) -> Watch<'a> {
    let may_wait = !entry.is_some_and(Entry::may_have_effects);
    Watch::begin(call, session, may_wait, |record, redactor| match entry {
        Some(entry) => entry.describe(record, redactor),
        None => record,
    })
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries().map(|entry| &entry.def().name)).finish()
    }
}

/// The tools that models are offered, if not all fit.
#[derive(Clone)]
pub(super) struct Offered {
    /// The number of tools, from the first on.
    pub(super) first: usize,
    /// Finds the others.
    pub(super) search: Arc<Entry>,
}

#[cfg(test)]
mod tests;
