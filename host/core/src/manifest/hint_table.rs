//! `[plugins.hints]`: how tools behave whose component does not say so itself.

use super::entry::Entry;
use super::pattern::ToolPattern;
use super::section::Section;
use crate::call::Hints;

/// `[plugins.hints]`: patterns of a plugin's tools, by the tools' own names. What is named has the hint besides those that
/// its component gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintTable {
    /// Tools that change nothing outside themselves, which haft holds them to.
    pub read_only: Vec<ToolPattern>,
    /// Tools that may destroy or overwrite what was there.
    pub destructive: Vec<ToolPattern>,
    /// Tools of which a second call with the same arguments changes nothing more.
    pub idempotent: Vec<ToolPattern>,
    /// Tools that reach beyond this machine.
    pub open_world: Vec<ToolPattern>,
}

impl HintTable {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let list = |key| section.list(key, Entry::parse);
        Self {
            read_only: list("read_only"),
            destructive: list("destructive"),
            idempotent: list("idempotent"),
            open_world: list("open_world"),
        }
    }

    /// The hints of the tool that is `own` to the plugin, of which its component says `said`. Who writes the program has
    /// the last word: a tool that reads only destroys nothing.
    pub fn hints(&self, own: &str, said: Hints) -> Hints {
        let is_in = |patterns: &[ToolPattern]| patterns.iter().any(|pattern| pattern.matches(own));
        let read_only = said.read_only || is_in(&self.read_only);
        Hints {
            read_only,
            destructive: !is_in(&self.read_only) && said.destructive || is_in(&self.destructive),
            idempotent: said.idempotent || is_in(&self.idempotent),
            open_world: said.open_world || is_in(&self.open_world),
        }
    }

    /// The patterns of each key.
    pub fn patterns(&self) -> [(&'static str, &[ToolPattern]); 4] {
        [
            ("hints.read_only", &self.read_only),
            ("hints.destructive", &self.destructive),
            ("hints.idempotent", &self.idempotent),
            ("hints.open_world", &self.open_world),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_adds_to_what_a_component_says_and_reading_takes_destroying_away() {
        let patterns = |text: &str| vec![text.parse().unwrap()];
        let table =
            HintTable { read_only: patterns("get-*"), destructive: patterns("drop"), ..HintTable::default() };
        let worst = Hints { destructive: true, open_world: true, ..Hints::default() };
        assert_eq!(
            table.hints("get-page", worst),
            Hints { read_only: true, open_world: true, ..Hints::default() }
        );
        assert_eq!(table.hints("drop", Hints::default()), Hints { destructive: true, ..Hints::default() });
        assert_eq!(table.hints("put", worst), worst);
    }
}
