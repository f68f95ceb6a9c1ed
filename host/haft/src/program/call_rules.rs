//! The rules for calls in `[agent]`: made into values, and checked against the tools that there are. What a rule means is
//! decided in `haft_core::tool`.

use std::path::Path;

use super::Program;
use super::patterns::Why;
use haft_core::manifest::{Effect, Located, Manifest, RulePattern};
use haft_core::report::{Problem, Report};
use haft_core::tool::{Rule, Rules, Toolbox};

/// The rules of program.toml. `home` is what `~` means in them.
pub(super) fn of(manifest: &Manifest, home: &Path) -> Rules {
    let (table, source) = (&manifest.agent.rules, &manifest.source);
    let rule = |(effect, rule): (_, &Located<RulePattern>)| Rule {
        effect,
        pattern: rule.value.clone(),
        place: source.place(rule.span),
        base: None,
        shared: Vec::new(),
    };
    let otherwise = table.otherwise.as_ref().map(|otherwise| (otherwise.value, source.place(otherwise.span)));
    Rules { rules: table.all().map(rule).collect(), otherwise, home: Some(home.to_owned()) }
}

/// `own`, the rules of a program that works for another, whose rules are `outer`: whatever either refuses is refused, and
/// what either asks about is asked about. What `own` allows counts only where `outer` lets calls run that it does not name.
pub(super) fn bounded(own: Rules, outer: &Rules) -> Rules {
    let is_open = |rules: &Rules| rules.otherwise.as_ref().is_none_or(|(effect, _)| *effect == Effect::Allow);
    let (is_own_open, is_outer_open) = (is_open(&own), is_open(outer));
    let binds = |rule: &&Rule| rule.effect != Effect::Allow || !is_outer_open && is_own_open;
    let kept = own.rules.into_iter().filter_map(|rule| match rule.effect {
        Effect::Allow if is_outer_open => Some(rule),
        Effect::Allow if is_own_open => None,
        Effect::Allow => shared(rule, &outer.rules),
        _ => Some(rule),
    });
    let rules = kept.chain(outer.rules.iter().filter(binds).cloned()).collect();
    let is_denied = matches!(own.otherwise, Some((Effect::Deny, _)));
    let otherwise = if is_outer_open || is_denied { own.otherwise } else { outer.otherwise.clone() };
    Rules { rules, otherwise, home: own.home }
}

/// `rule`, one that allows, where one of `outer` says the same: it allows what both mean, wherever their relative paths
/// start.
fn shared(rule: Rule, outer: &[Rule]) -> Option<Rule> {
    let is_same = |other: &&Rule| other.effect == Effect::Allow && other.pattern == rule.pattern;
    let same = outer.iter().find(is_same)?;
    let bases = rule.shared.iter().chain(&same.base).chain(&same.shared).cloned().collect();
    Some(Rule { shared: bases, ..rule })
}

impl Program {
    /// The tools for calls that a person types one by one: that is their answer wherever a rule would have them asked.
    pub fn typed_tools(&self) -> Toolbox {
        self.toolbox.ruled(&of(&self.manifest, &self.dirs.home).for_a_person())
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
    use super::*;

    fn rules(text: &str) -> Rules {
        let text = format!("[agent]\n{text}\n");
        of(&Manifest::parse(&text, Path::new("program.toml")).unwrap(), Path::new("/home/me"))
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

    /// Relative paths of a caller's rules start where the caller works; what both allow is what both mean.
    #[test]
    fn a_rule_that_is_handed_down_keeps_its_base() {
        let outer = rules("allow = [\"write(src/*)\"]\ndeny = [\"read(x/*)\"]\notherwise = \"ask\"");
        let outer = outer.based(Path::new("/caller"));
        let bases = |rules: Rules| {
            let bases = rules.rules.into_iter().map(|rule| (rule.effect, rule.base, rule.shared));
            bases.collect::<Vec<_>>()
        };
        let caller = || Path::new("/caller").to_owned();
        let deny = (Effect::Deny, Some(caller()), Vec::new());
        let open = bounded(rules(""), &outer);
        assert_eq!(bases(open), [deny.clone(), (Effect::Allow, Some(caller()), Vec::new())]);
        let own = rules("allow = [\"write(src/*)\"]\notherwise = \"deny\"");
        let both = bounded(own.clone(), &outer);
        assert_eq!(bases(both.clone()), [(Effect::Allow, None, vec![caller()]), deny]);
        let third = bounded(own, &both.based(Path::new("/agent")));
        let shared = vec![Path::new("/agent").to_owned(), caller()];
        assert_eq!(bases(third)[0], (Effect::Allow, None, shared));
    }
}
