//! What a program says of the calls of agents that work for it: its rules, and what it has a person asked about. It counts
//! besides what the agents say themselves: the strictest of all does. It grants nothing, and lifts nothing that an agent
//! says.

use std::path::Path;
use std::sync::Arc;

use super::rules::{Rules, Ruling, ToolRules};
use super::subject::Subject;
use crate::rule::Effect;

/// What a program says of the calls of agents that work for it.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Its rules.
    pub rules: Rules,
    /// The line of its program.toml that has a person asked before a command line runs; `None`: nobody is asked.
    pub commands: Option<Arc<str>>,
    /// The same before an address is asked.
    pub addresses: Option<Arc<str>>,
}

/// What it says of the calls of one tool.
#[derive(Clone, Debug)]
pub(super) struct ToolBounds {
    rules: Option<Arc<ToolRules>>,
    commands: Option<Arc<str>>,
    addresses: Option<Arc<str>>,
}

impl Bounds {
    /// What it says of the calls of a tool that is called by `names`; `None` where that is nothing.
    pub(super) fn of(&self, names: &[&str]) -> Option<ToolBounds> {
        let (rules, commands, addresses) =
            (self.rules.of(names, false), self.commands.clone(), self.addresses.clone());
        let is_something = rules.is_some() || commands.is_some() || addresses.is_some();
        is_something.then_some(ToolBounds { rules, commands, addresses })
    }
}

impl ToolBounds {
    /// What it says of a call: a rule that means it, else whether it has a person asked about such calls.
    pub(super) fn ruling(&self, subject: impl Fn() -> Subject, workspace: Option<&Path>) -> Option<Ruling> {
        let ruling = self.rules.as_ref().and_then(|rules| rules.ruling(&subject, workspace));
        ruling.or_else(|| {
            let because = self.setting(&subject())?.to_string();
            Some(Ruling { effect: Effect::Ask, because })
        })
    }

    fn setting(&self, subject: &Subject) -> Option<&Arc<str>> {
        match subject {
            Subject::Command(_) => self.commands.as_ref(),
            Subject::Address(_) => self.addresses.as_ref(),
            Subject::Path(_) | Subject::Arguments(_) => None,
        }
    }

    /// Whether a person may be asked about some call. What it is about is only known when it is made.
    pub(super) fn may_ask(&self) -> bool {
        let has_setting = self.commands.is_some() || self.addresses.is_some();
        has_setting || self.rules.as_ref().is_some_and(|rules| rules.may_ask())
    }
}

#[cfg(test)]
mod tests;
