//! `[[packages]]`: the packages of a program, and the most that their plugins are granted. Does not read the
//! content of a package.

use haft_core::pattern::ToolPattern;

use super::config::{SETTINGS, Settings, settings};
use super::entry::Located;
use super::name::Name;
use super::plugin::{GrantTable, PluginSecret, SECRETS, secrets};
use super::source::PackageSource;
use super::table::{FromTable, Table, table};

table! {
    /// A package of other people, as `haft add` writes it; program.lock says what exactly it is.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Package = "[[packages]]" {
        /// its own name, or another that you gave it, with which the names of its plugins begin then
        pub name: Located<Name>,
        /// a folder, an archive, `https://…`, `oci://…`, `git+https://…`, `npm:…`, `pypi:…` or an MCP bundle
        #[also("path", "url", "component", "from")]
        pub source: Located<PackageSource>,
        /// by whom it must be signed: a key as program.lock writes it, or `sigstore:ISSUER#SUBJECT`
        #[also("signature", "signed_by", "key", "identity")]
        pub signer: Option<Located<String>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// which of its tools to offer, by exposed name; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// the most that its plugins get of what they ask for; default nothing
        #[read(Kind::Table(&PACKAGE_GRANT), |entry| entry.table::<GrantTable>(&PACKAGE_GRANT))]
        #[also("grants", "permissions", "allow", "capabilities")]
        pub grant: GrantTable = GrantTable::default(),
        /// what its plugins read of their configuration, in the place of what the package says itself
        #[read(SETTINGS, settings)]
        #[also("configuration", "settings", "options", "variables")]
        pub config: Option<Settings> = None,
        /// headers that its plugins send but never see, by the names that they ask for them
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<PluginSecret> = Vec::new(),
    }
}

static PACKAGE_GRANT: Table = Table {
    header: "[packages.grant]",
    doc: "The most that the plugins of a package get. Each gets what it asks for and this allows.",
    ..GrantTable::TABLE
};
