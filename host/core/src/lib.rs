//! The types and functions that all other crates of haft use. A module uses only modules that stand **above** it
//! here.

pub mod report;

pub mod sync;

pub mod encoding;

pub mod json;

pub mod random;

pub mod scan;

pub mod call;

pub mod limit;

pub mod units;

pub mod usage;

pub mod trace;

pub mod heap;

pub mod replicas;

pub mod pattern;

pub mod grant;

pub mod upstream;

pub mod net;

pub mod lookup;

pub mod event;

pub mod rule;

pub mod model;

pub mod secret;

pub mod replace;

pub mod undo;

pub mod journal;

pub mod tool;

pub mod project;

pub mod skill;

/// Declares an enum whose variants a person writes as words, in program.toml or on a command line.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every variant with its word.
            pub const ALL: &[(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            /// Returns the word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}
