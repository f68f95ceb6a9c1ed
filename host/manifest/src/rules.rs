//! The rules for calls of `[agent]`.

use haft_core::rule::{Effect, RulePattern};

use super::entry::Located;
use super::table::table;

table! {
    /// `allow`, `ask`, `deny` and `otherwise` of `[agent]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RuleTable = "" {
        /// calls that run without a question, such as `bash(git status *)`
        #[also("allowed", "permissions")]
        pub allow: Vec<Located<RulePattern>> = Vec::new(),
        /// calls that a person is asked about; stronger than `allow`
        #[also("confirm", "approve")]
        pub ask: Vec<Located<RulePattern>> = Vec::new(),
        /// calls that never run; stronger than `ask` and `allow`
        #[also("denied", "forbid", "block")]
        pub deny: Vec<Located<RulePattern>> = Vec::new(),
        // Where it is absent they run too, unless `confirm` and its like ask.
        /// what becomes of calls that no rule names: `allow` (default), `ask` or `deny`
        #[also("default", "rest")]
        pub otherwise: Option<Located<Effect>> = None,
    }
}

impl RuleTable {
    /// Every rule with its effect, in the order in which they count: what refuses before what asks, before what allows.
    pub fn all(&self) -> impl Iterator<Item = (Effect, &Located<RulePattern>)> {
        let lists = [(Effect::Deny, &self.deny), (Effect::Ask, &self.ask), (Effect::Allow, &self.allow)];
        lists.into_iter().flat_map(|(effect, rules)| rules.iter().map(move |rule| (effect, rule)))
    }
}
