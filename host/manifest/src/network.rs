//! `[network]`: the way to other machines. Connects to nothing.

use std::path::PathBuf;

use super::entry::Located;
use super::secret::SecretSource;
use super::section::Section;
use super::table::{Kind, table, texts};
use haft_core::grant::HostName;
use haft_core::upstream::ProxyUrl;

texts! { ProxyUrl: Kind::Pattern("^http://[^/?#@]+/?$") }

table! {
    /// The way to other machines: of haft's own requests, and of processes with single hosts.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Network = "[network]" => Self::checked {
        /// the proxy, which connects to other machines: `http://proxy.example:3128`; default that of the environment
        #[also("https_proxy", "http_proxy", "upstream")]
        pub proxy: Option<ProxyUrl> = None,
        /// where the user and password at the proxy are stored, as `user:password`
        #[also("password", "user", "auth")]
        pub login: Option<SecretSource> = None,
        /// a file with certificate authorities in PEM, in addition to those of the system; for a proxy that opens TLS
        #[also("ca_file", "certificate")]
        pub ca: Option<Located<PathBuf>> = None,
        /// hosts that are reached without the proxy, with their subdomains
        #[also("direct", "exclude")]
        pub no_proxy: Vec<HostName> = Vec::new(),
    }
}

impl Network {
    /// Rejects what has no meaning without a proxy.
    fn checked(self, section: &Section<'_>) -> Self {
        for key in ["login", "ca", "no_proxy"] {
            if section.has(key) && !section.has("proxy") {
                section.reject(key, "also needs `proxy`");
            }
        }
        self
    }
}
