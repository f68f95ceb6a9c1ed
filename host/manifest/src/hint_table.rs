//! `[plugins.hints]`: how tools behave whose component does not say so itself.

use haft_core::call::Hints;
use haft_core::pattern::ToolPattern;

use super::table::table;

table! {
    /// How the plugin's tools behave, by their own names; clients are told, and `read_only` is held to.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HintTable = "[plugins.hints]" {
        /// tools that change nothing: they get no right to write, such as `get_*`
        #[also("readonly", "read-only")]
        pub read_only: Vec<ToolPattern> = Vec::new(),
        /// tools that may destroy or overwrite what was there
        pub destructive: Vec<ToolPattern> = Vec::new(),
        /// tools that change nothing more when they are called again
        pub idempotent: Vec<ToolPattern> = Vec::new(),
        /// tools that reach beyond this machine
        #[also("open-world")]
        pub open_world: Vec<ToolPattern> = Vec::new(),
    }
}

impl HintTable {
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
