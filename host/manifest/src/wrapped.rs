//! The rights of a command behind `haft wrap`: one file for each command, in the grammar of `[mcp_servers.grant]`.
//! Parses the file only.

use std::path::Path;

use haft_core::report::{Report, Source};

use super::entry::Notes;
use super::process::ProcessGrant;
use super::section::Section;
use super::table::{FromTable, table};
use super::{absent, syntax};

table! {
    /// What a person agreed to, for one command.
    #[derive(Clone, Debug, Default)]
    pub struct Wrapped = "" {
        /// What the spans of the grant point into.
        #[read(rows &[], absent)]
        pub source: Source = Source::default(),
        /// what messages call the server
        pub name: String,
        /// its program and its arguments, paths in full
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub command: Vec<String>,
        /// the files that it is started from: digest (SHA-256), change stamp and path of each
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub files: Vec<String> = Vec::new(),
        /// rights that a person did not give, and is not asked for again
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub declined: Vec<String> = Vec::new(),
        /// whether a person was asked about its rights; default true
        pub decided: bool = true,
        /// the tools that it may offer: three digests (SHA-256) and name of each
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        pub tools: Vec<String> = Vec::new(),
        /// whether a person was asked about its tools, and agreed to none; default false
        pub tools_asked: bool = false,
        /// whether its tools may change without a question; default false
        pub tools_may_change: bool = false,
        /// what it may do; default nothing
        pub grant: ProcessGrant = ProcessGrant::default(),
    }
}

impl Wrapped {
    /// Checks `text`; `path` is what messages call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Report> {
        let source = Source::new(path.display().to_string(), text);
        let failed = |problems| Report::with_source(source.clone(), problems);
        let table = syntax::parse(text).map_err(failed)?;
        let notes = Notes::default();
        let read = Self::from_table(&Section::root(&table, &Self::TABLE, &notes));
        let problems = notes.into_problems();
        match read.filter(|_| problems.is_empty()) {
            Some(read) => Ok(Self { source, ..read }),
            None => Err(failed(problems)),
        }
    }
}
