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
    /// An installed package, as `haft add` writes it; program.lock pins its content.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Package = "[[packages]]" {
        /// its own name, or the name of `haft add --as`; the names of its plugins then start with that name
        pub name: Located<Name>,
        /// a folder, an archive, `https://…`, `oci://…`, `git+https://…`, `npm:…`, `pypi:…` or an MCP bundle
        #[also("path", "url", "component", "from")]
        pub source: Located<PackageSource>,
        /// the required signer: a key as in program.lock, or `sigstore:ISSUER#SUBJECT`
        #[also("signature", "signed_by", "key", "identity")]
        pub signer: Option<Located<String>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// the tools to offer, by exposed name; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// the upper bound of the rights that its plugins request; default none
        #[read(Kind::Table(&PACKAGE_GRANT), |entry| entry.table::<GrantTable>(&PACKAGE_GRANT))]
        #[also("grants", "permissions", "allow", "capabilities")]
        pub grant: GrantTable = GrantTable::default(),
        /// configuration of its plugins; overrides the package's own
        #[read(SETTINGS, settings)]
        #[also("configuration", "settings", "options", "variables")]
        pub config: Option<Settings> = None,
        /// headers that haft adds to the plugins' requests, by the names in the package
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<PluginSecret> = Vec::new(),
    }
}

static PACKAGE_GRANT: Table = Table {
    header: "[packages.grant]",
    doc: "The upper bound of the rights of a package's plugins. Each plugin gets the rights that it requests \
        and this table allows. A server of npm, PyPI or a bundle gets all rights of this table.",
    ..GrantTable::TABLE
};
