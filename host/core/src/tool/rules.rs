//! Rules for calls: run without a question, ask the user, or refuse. A toolbox gets rules as values and resolves
//! them once for each tool; a tool that no rule names has none. Rules grant no right.

mod command;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::command::may_run;
pub(super) use self::place::Places;
use super::subject::Subject;
use crate::pattern::Glob;
use crate::rule::{Effect, RulePattern};

/// One rule, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The effect on matching calls.
    pub effect: Effect,
    /// The calls.
    pub pattern: RulePattern,
    /// The place of the rule, for people: `program.toml:12:9`.
    pub place: String,
    /// The base of relative paths in the pattern; `None` for the workspace of the called tool.
    pub base: Option<PathBuf>,
}

/// The rules of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules with patterns.
    pub rules: Vec<Rule>,
    /// The effect on calls that no rule matches, and its place; `None`: the tool's own setting decides.
    pub otherwise: Option<(Effect, String)>,
    /// The expansion of `~` in paths of rules and of calls; `None` if unknown.
    pub home: Option<PathBuf>,
}

/// The rules that may apply to calls of one tool.
#[derive(Debug)]
pub(super) struct ToolRules {
    /// Rules that refuse, then rules that ask, then rules that allow.
    rules: Vec<Rule>,
    otherwise: Option<(Effect, String)>,
    home: Option<PathBuf>,
}

/// The decision of the rules about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ruling {
    pub(super) effect: Effect,
    /// The rule that decided, and its place.
    pub(super) because: String,
}

impl Rules {
    /// Returns the rules for a tool with the names `names`; `None` if no rule may match a call of it, unless the
    /// user is asked about its calls anyway (`asks`): the user may allow paths.
    pub(super) fn of(&self, names: &[&str], asks: bool) -> Option<Arc<ToolRules>> {
        let is_meant = |rule: &&Rule| names.iter().any(|name| rule.pattern.tools().matches(name));
        let mut rules: Vec<Rule> = self.rules.iter().filter(is_meant).cloned().collect();
        rules.sort_by_key(|rule| rank(rule.effect));
        let otherwise = self.otherwise.clone().filter(|(effect, _)| *effect != Effect::Allow);
        let (is_needed, home) = (asks && self.home.is_some(), self.home.clone());
        let is_ruled = is_needed || !rules.is_empty() || otherwise.is_some();
        is_ruled.then(|| Arc::new(ToolRules { rules, otherwise, home }))
    }

    /// Returns the rules with `base` as the base of their relative paths, for tools whose relative paths may have
    /// another base.
    #[must_use]
    pub fn based(mut self, base: &Path) -> Self {
        for rule in &mut self.rules {
            rule.base.get_or_insert_with(|| base.to_owned());
        }
        self
    }

    /// Returns the rules for calls that a user types: typing a call answers every question, and denied calls stay
    /// denied.
    #[must_use]
    pub fn for_a_person(mut self) -> Self {
        self.otherwise.take_if(|(effect, _)| *effect != Effect::Deny);
        if self.otherwise.is_some() {
            let asking = self.rules.iter_mut().filter(|rule| rule.effect == Effect::Ask);
            asking.for_each(|rule| rule.effect = Effect::Allow);
        } else {
            self.rules.retain(|rule| rule.effect != Effect::Ask);
        }
        self
    }
}

impl Rule {
    fn is_meant(
        &self,
        subject: &std::cell::LazyCell<Subject, impl FnOnce() -> Subject>,
        places: Places<'_>,
    ) -> bool {
        let Some(about) = self.pattern.about() else { return true };
        let places = Places { base: self.base.as_deref(), ..places };
        match self.effect {
            Effect::Allow => is_allowed(about, subject, places),
            Effect::Ask | Effect::Deny => is_touched(about, subject, places),
        }
    }
}

/// Returns the rank of an effect; the strictest has the lowest.
pub(super) const fn rank(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Ask => 1,
        Effect::Allow => 2,
    }
}

impl ToolRules {
    /// Returns the decision about a call; `None` if no rule matches. `subject` is called only if a rule needs it.
    pub(super) fn ruling(
        &self,
        subject: impl FnOnce() -> Subject,
        workspace: Option<&Path>,
    ) -> Option<Ruling> {
        let subject = std::cell::LazyCell::new(subject);
        let is_meant =
            |rule: &&Rule| rule.is_meant(&subject, Places { base: None, workspace, home: self.home() });
        match self.rules.iter().find(is_meant) {
            Some(Rule { effect, pattern, place, .. }) => {
                let because = format!("the rule `{pattern}` in `{}` of `[agent]` ({place})", effect.as_str());
                Some(Ruling { effect: *effect, because })
            }
            None => self.otherwise.as_ref().map(|(effect, place)| {
                let because = format!("`otherwise = \"{}\"` in `[agent]` ({place})", effect.as_str());
                Ruling { effect: *effect, because }
            }),
        }
    }

    /// Returns the expansion of `~`.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns whether the user may be asked about some call.
    pub(super) fn may_ask(&self) -> bool {
        let effects = self.rules.iter().map(|rule| rule.effect);
        let mut all = effects.chain(self.otherwise.iter().map(|(effect, _)| *effect));
        all.any(|effect| effect == Effect::Ask)
    }
}

/// Returns whether a rule that allows means a call about this. An unknown path does not match.
pub(super) fn is_allowed(about: &str, subject: &Subject, places: Places<'_>) -> bool {
    match subject {
        Subject::Command(command) => command::is_allowed(&Glob::new(about), command),
        Subject::Address(address) => place::is_address_allowed(about, address),
        Subject::Path(path) => place::is_path_meant(about, path, places).unwrap_or(false),
        Subject::Arguments(arguments) => Glob::new(about).matches(arguments),
    }
}

/// Returns whether a rule that refuses or asks means a call about this. An unknown path matches.
fn is_touched(about: &str, subject: &Subject, places: Places<'_>) -> bool {
    match subject {
        Subject::Command(command) => command::is_touched(&Glob::new(about), command),
        Subject::Address(address) => place::is_address_touched(about, address),
        Subject::Path(path) => place::is_path_meant(about, path, places).unwrap_or(true),
        Subject::Arguments(arguments) => Glob::new(about).matches(arguments),
    }
}

#[cfg(test)]
mod tests;
