//! Enums whose variants a person writes as words, in program.toml or on a command line.

/// Declares an enum and the word of each variant.
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
