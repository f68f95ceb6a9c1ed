//! The rules for calls in `[agent]`: made into values, and checked against the tools that there are. What a rule means is
//! decided in `haft_core::tool`.

use super::Program;
use super::patterns::Why;
use haft_core::manifest::{Effect, Located, Manifest, RulePattern};
use haft_core::report::{Problem, Report};
use haft_core::tool::{Rule, Rules, Toolbox};

/// The rules of program.toml.
pub(super) fn of(manifest: &Manifest) -> Rules {
    let (table, source) = (&manifest.agent.rules, &manifest.source);
    let rule = |(effect, rule): (_, &Located<RulePattern>)| Rule {
        effect,
        pattern: rule.value.clone(),
        place: source.place(rule.span),
    };
    let otherwise = table.otherwise.as_ref().map(|otherwise| (otherwise.value, source.place(otherwise.span)));
    Rules { rules: table.all().map(rule).collect(), otherwise }
}

/// `own`, the rules of a program that works for another, whose rules are `outer`: whatever either refuses is refused, and
/// what either asks about is asked about. What `own` allows counts only where `outer` lets calls run that it does not name.
pub(super) fn bounded(own: Rules, outer: &Rules) -> Rules {
    let is_open = |rules: &Rules| rules.otherwise.as_ref().is_none_or(|(effect, _)| *effect == Effect::Allow);
    let (is_own_open, is_outer_open) = (is_open(&own), is_open(outer));
    let is_shared = |rule: &Rule, others: &[Rule]| {
        others.iter().any(|other| other.effect == Effect::Allow && other.pattern == rule.pattern)
    };
    let stays = |rule: &&Rule| {
        rule.effect != Effect::Allow || is_outer_open || !is_own_open && is_shared(rule, &outer.rules)
    };
    let binds = |rule: &&Rule| rule.effect != Effect::Allow || !is_outer_open && is_own_open;
    let rules = own.rules.iter().filter(stays).chain(outer.rules.iter().filter(binds)).cloned().collect();
    let is_denied = |rules: &Rules| matches!(rules.otherwise, Some((Effect::Deny, _)));
    let otherwise = match (is_outer_open, is_denied(&own)) {
        (true, _) | (false, true) => own.otherwise,
        (false, false) => outer.otherwise.clone(),
    };
    Rules { rules, otherwise }
}

impl Program {
    /// The tools for calls that a person types one by one: that is their answer wherever a rule would have them asked.
    pub fn typed_tools(&self) -> Toolbox {
        self.toolbox.ruled(&of(&self.manifest).for_a_person())
    }

    /// Rules and hooks that name no tool, and what cannot be checked yet.
    pub fn misnamed_rules(&self) -> (Vec<Problem>, Vec<String>) {
        let (mut wrong, mut unknown, tools) = (Vec::new(), Vec::new(), self.with_read_skill());
        for (effect, rule) in self.manifest.agent.rules.all() {
            let place = format!("`{}` in `[agent]`", effect.key());
            for idle in self.idle(&tools, [rule.value.tools()]) {
                match idle.why {
                    Why::Nothing(_) => wrong.push(idle.problem(&place).at(rule.span, "this rule")),
                    Why::Unseen(_) => unknown.push(format!("{place}: {idle}")),
                }
            }
        }
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            let place = format!("`hooks` of plugin `{}`", plugin.name.as_str());
            for pattern in plugin.hooks.iter().flatten() {
                for idle in self.idle(&tools, [&pattern.value]) {
                    match idle.why {
                        Why::Nothing(_) => wrong.push(idle.problem(&place).at(pattern.span, "this pattern")),
                        Why::Unseen(_) => unknown.push(format!("{place}: {idle}")),
                    }
                }
            }
        }
        (wrong, unknown)
    }

    /// The same, as one report, of those that can be told.
    pub(super) fn report_of_rules(&self) -> Option<Report> {
        let (wrong, _) = self.misnamed_rules();
        (!wrong.is_empty()).then(|| self.manifest.report(wrong))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rules(text: &str) -> Rules {
        of(&Manifest::parse(&format!("[agent]\n{text}\n"), Path::new("program.toml")).unwrap())
    }

    /// The rules that are left, and what becomes of other calls.
    fn left(own: &str, outer: &str) -> (Vec<String>, Option<Effect>) {
        let rules = bounded(rules(own), &rules(outer));
        let named = rules.rules.iter().map(|rule| format!("{} {}", rule.effect.key(), rule.pattern));
        (named.collect(), rules.otherwise.map(|(effect, _)| effect))
    }

    #[test]
    fn no_rule_of_an_agent_allows_what_its_caller_s_do_not() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let open = left("allow = [\"read\"]\notherwise = \"ask\"", "allow = [\"bash\"]\ndeny = [\"edit\"]");
        assert_eq!(open, (texts(&["allow read", "deny edit"]), Some(Effect::Ask)));
        let closed = left("allow = [\"bash\"]\nask = [\"edit\"]", "allow = [\"read\"]\notherwise = \"deny\"");
        assert_eq!(closed, (texts(&["ask edit", "allow read"]), Some(Effect::Deny)));
        let both = left(
            "allow = [\"bash\", \"read\"]\notherwise = \"deny\"",
            "allow = [\"read\", \"edit\"]\notherwise = \"ask\"",
        );
        assert_eq!(both, (texts(&["allow read"]), Some(Effect::Deny)));
    }
}
