//! `[requires_tools]`: tools that an agent of this program needs.

use super::assembly::Assembly;
use haft_core::report::Problem;
use haft_manifest::Located;

/// Notes each that is not there as a problem.
pub(super) fn check(assembly: &mut Assembly<'_>) {
    let missing = |name: &&Located<String>| assembly.toolbox.find(&name.value).is_none();
    let problem = |name: &Located<String>| {
        Problem::new(format!("the program requires the tool `{}`, which it does not have", name.value))
            .at(name.span, "this tool")
    };
    let problems: Vec<_> = assembly.manifest.required_tools.iter().filter(missing).map(problem).collect();
    assembly.problems.extend(problems);
}
