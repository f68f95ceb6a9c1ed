//! Tools that are the host's own: they start processes, which no component can. It refuses to
//! be a second way for what a component can do.

pub mod bash;
pub mod command;

mod answer;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::confine::Confiner;
use crate::limit::Limits;
use crate::tool::Tool;

/// One native tool.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// Its name: the model's, and program.toml's for switching it off.
    pub name: &'static str,
    /// Makes it.
    pub build: fn(&Settings) -> Arc<dyn Tool>,
    /// What one call of it may use, its own timeout included.
    pub limits: fn(&Settings) -> Limits,
}

/// What a program can say about native tools.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What holds commands to their grant.
    pub confiner: Confiner,
    /// How long a command of `bash` may take where the call does not say.
    pub bash_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confiner: Confiner::new(), bash_timeout: bash::DEFAULT_TIMEOUT }
    }
}

/// All native tools, in the order in which models see them.
pub const NATIVE: &[Native] = &[Native {
    name: bash::NAME,
    build: |settings| Arc::new(bash::Bash::new(settings.confiner.clone(), settings.bash_timeout)),
    limits: |settings| bash::limits(settings.bash_timeout),
}];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// TE06: the catalogue agrees with the tools it builds, and names none twice.
    #[test]
    fn te06_every_row_names_its_tool() {
        let settings = Settings::default();
        for native in NATIVE {
            assert_eq!((native.build)(&settings).def().name, native.name);
            assert!((native.limits)(&settings).time > settings.bash_timeout);
        }
        let names: BTreeSet<_> = NATIVE.iter().map(|native| native.name).collect();
        assert_eq!(names.len(), NATIVE.len());
    }
}
