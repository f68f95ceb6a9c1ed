//! What program.toml may say and this version does not do. Where doing nothing would be less safe
//! than what was asked for, the tools concerned are left out; nothing is passed over in silence.

use super::Assembly;
use haft_core::manifest::Located;
use haft_core::report::Problem;

impl Assembly<'_> {
    /// `[requires_tools]` that are not there.
    pub(super) fn required_tools(&mut self) {
        let missing = |name: &&Located<String>| self.toolbox.find(&name.value).is_none();
        let problem = |name: &Located<String>| {
            Problem::new(format!("the program requires the tool `{}`, which it does not have", name.value))
                .at(name.span, "this tool")
        };
        let problems: Vec<_> = self.manifest.required_tools.iter().filter(missing).map(problem).collect();
        self.problems.extend(problems);
    }
}
