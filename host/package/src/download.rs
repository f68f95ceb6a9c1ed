//! Downloads one file by HTTPS. Follows few redirects: never from the public internet into a private network,
//! never from encrypted to plain, and never without a limit on bytes and time.

use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

pub(crate) use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, LOCATION};
use reqwest::{Client, Response};

use super::listing::{TreeError, io_error};
use super::{Progress, Step};
use haft_core::grant::local;
use haft_core::net::{chain, is_loopback, is_loopback_address};
use haft_core::upstream::Upstream;

/// Limit on redirects: enough for a download site, its mirrors and their storage.
const MAX_REDIRECTS: usize = 5;

/// Time limit for connecting to a server.
const CONNECT: Duration = Duration::from_secs(10);

/// Time limit between two reads.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// Time limit for a complete download: the maximum size over a slow line.
const TOTAL: Duration = Duration::from_mins(15);

/// Any media type.
pub(super) const ANYTHING: &str = "*/*";

/// The `User-Agent` header.
const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));

/// Reasons why a file cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL's scheme is not supported.
    #[error("cannot fetch from `{0}`: expected `https://`")]
    Scheme(String),
    /// The URL redirects to a server other than the one that supplied it.
    #[error("`{0}` is on another server")]
    Elsewhere(String),
    /// The server cannot be reached, or closed the connection.
    #[error("cannot fetch `{url}`: {why}")]
    Unreachable { url: String, why: String },
    /// The server returned an error status.
    #[error("cannot fetch `{url}`: the server answered {status}")]
    Status { url: String, status: String },
    /// The redirect is not permitted.
    #[error("`{from}` redirects to `{to}`, {why}")]
    Redirect { from: String, to: String, why: &'static str },
    /// The server redirects more than `MAX_REDIRECTS` times.
    #[error("`{0}` redirects more than {MAX_REDIRECTS} times")]
    Redirects(String),
    /// The file exceeds the limit.
    #[error("`{url}` is larger than {most} bytes")]
    TooLarge { url: String, most: u64 },
    /// The response ended before its `Content-Length`.
    #[error("`{url}` ended after {got} of {expected} bytes")]
    Truncated { url: String, expected: u64, got: u64 },
    /// The download exceeded its time limit.
    #[error("`{0}` did not arrive within {most} minutes", most = TOTAL.as_secs() / 60)]
    TimedOut(String),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] TreeError),
}

/// Downloads `url`, at most `most` bytes, to the new read-only file `to`. Returns its size in bytes.
pub(super) async fn download(
    url: &str,
    to: &Path,
    most: u64,
    progress: &Progress,
) -> Result<u64, DownloadError> {
    let fetching = async {
        let response = respond(url, ANYTHING).await?;
        store(response, to, most, progress).await
    };
    match tokio::time::timeout(TOTAL, fetching).await {
        Ok(done) => done,
        Err(_) => Err(DownloadError::TimedOut(shown_text(url))),
    }
}

/// Downloads the signature beside `url`, if there is one.
pub(super) async fn signature(url: &str) -> Result<Option<String>, DownloadError> {
    let mut beside = Url::parse(url).map_err(|_| DownloadError::Scheme(shown_text(url)))?;
    let path = format!("{}{}", beside.path(), super::signature::BESIDE);
    beside.set_path(&path);
    match document(beside.as_str(), super::signature::MAX_BESIDE, ANYTHING).await {
        Ok(text) => Ok(super::signature::text_beside(text)),
        // A server reports a missing signature by an error status, or by a page, which is longer than a signature.
        Err(DownloadError::Status { .. } | DownloadError::TooLarge { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reports whether both URLs are of one scheme, host and port.
pub(super) fn is_one_server(one: &str, other: &str) -> bool {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    origin(one).is_some_and(|one| one.is_tuple() && origin(other) == Some(one))
}

/// Downloads a document of at most `most` bytes, in the media type `accept`.
pub(super) async fn document(url: &str, most: usize, accept: &'static str) -> Result<Vec<u8>, DownloadError> {
    let fetching = async {
        match read_up_to(respond(url, accept).await?, most).await {
            Ok((text, true)) => Ok(text),
            Ok((_, false)) => Err(DownloadError::TooLarge { url: shown_text(url), most: most as u64 }),
            Err(error) => Err(DownloadError::Unreachable {
                url: shown_text(url),
                why: haft_core::report::plain(&chain(&error.without_url())),
            }),
        }
    };
    tokio::time::timeout(IDLE, fetching).await.map_err(|_| DownloadError::TimedOut(shown_text(url)))?
}

/// A URL to request, and the limits on its redirects.
struct Hop {
    url: Url,
    /// The requested media type.
    accept: &'static str,
    /// Whether a public server was asked: all later hops must then be public.
    public_only: bool,
}

/// Returns the first response that is not a redirect.
async fn respond(url: &str, accept: &'static str) -> Result<Response, DownloadError> {
    let url = Url::parse(url).map_err(|_| DownloadError::Scheme(shown_text(url)))?;
    let first = display_url(&url);
    let mut hop = Hop { public_only: false, accept, url };
    if !hop.is_encrypted() && !is_this_machine(&hop.url) {
        return Err(DownloadError::Scheme(first));
    }
    for _ in 0..=MAX_REDIRECTS {
        let response = hop.get().await?;
        let status = response.status();
        if status.is_redirection() {
            hop = hop.follow(&response)?;
        } else if status.is_success() {
            return Ok(response);
        } else {
            return Err(DownloadError::Status { url: display_url(&hop.url), status: status.to_string() });
        }
    }
    Err(DownloadError::Redirects(first))
}

impl Hop {
    fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    async fn get(&self) -> Result<Response, DownloadError> {
        let client = client(self.is_encrypted(), is_this_machine(&self.url), self.public_only);
        let client = client.map_err(|why| unreachable(&self.url, &why))?;
        let request =
            client.get(self.url.clone()).header(ACCEPT_ENCODING, "identity").header(ACCEPT, self.accept);
        request.send().await.map_err(|error| unreachable(&self.url, &chain(&error.without_url())))
    }

    /// Returns the hop after a redirect, if it is permitted.
    fn follow(&self, response: &Response) -> Result<Self, DownloadError> {
        let from = display_url(&self.url);
        let refuse = |to: String, why| DownloadError::Redirect { from: from.clone(), to, why };
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let location = location.ok_or_else(|| refuse("nowhere".into(), "without a target"))?;
        let url = self.url.join(location);
        let url = url.map_err(|_| refuse(shown_text(location), "which is not a URL"))?;
        let next = Self { public_only: self.public_only || is_public(response), url, ..*self };
        match self.objection(&next) {
            Some(why) => Err(refuse(display_url(&next.url), why)),
            None => Ok(next),
        }
    }

    /// Returns the reason why `next` is not permitted; host names are checked when they are resolved.
    fn objection(&self, next: &Self) -> Option<&'static str> {
        let url = &next.url;
        if !url.username().is_empty() || url.password().is_some() {
            return Some("with a user name in it");
        }
        match url.scheme() {
            "https" => {}
            "http" if self.is_encrypted() => return Some("which is not encrypted"),
            "http" if is_this_machine(url) => {}
            _ => return Some("which is neither `https` nor on this machine"),
        }
        let is_private = is_this_machine(url) || address(url).is_some_and(|address| local(address).is_some());
        (next.public_only && is_private).then_some("a private address, from a public one")
    }
}

fn unreachable(url: &Url, why: &str) -> DownloadError {
    DownloadError::Unreachable { url: display_url(url), why: haft_core::report::plain(why) }
}

/// Reports whether the responding server has a public address; unknown, and so false, behind a proxy.
pub(super) fn is_public(response: &Response) -> bool {
    response.remote_addr().is_some_and(|address| local(address.ip()).is_none())
}

/// Returns a client with haft's limits, as [`haft_core::net::client`]. With `public_only` it reaches no name with a
/// private address.
pub(super) fn client(secure: bool, is_local: bool, public_only: bool) -> Result<Client, String> {
    let builder = haft_core::net::client(secure, is_local).map_err(|error| error.to_string())?;
    let builder = builder
        .user_agent(USER_AGENT)
        .dns_resolver(Names { public_only })
        .connect_timeout(CONNECT)
        .read_timeout(IDLE);
    builder.build().map_err(|error| chain(&error))
}

/// Reads the body up to `limit` bytes. Returns whether the body is complete.
pub(super) async fn read_up_to(mut response: Response, limit: usize) -> reqwest::Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// A DNS resolver that drops addresses that are not permitted.
#[derive(Clone, Copy)]
struct Names {
    public_only: bool,
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let is_localhost = name.as_str() == "localhost";
            let is_proxy = Upstream::is(name.as_str());
            let good: Vec<_> = found
                .filter(|address| is_proxy || resolver.is_allowed(is_localhost, address.ip().to_canonical()))
                .collect();
            if good.is_empty() {
                return Err("a public server redirects to a name with a private address".into());
            }
            Ok(Box::new(good.into_iter()) as Addrs)
        })
    }
}

impl Names {
    fn is_allowed(self, is_localhost: bool, address: IpAddr) -> bool {
        match (self.public_only, is_localhost) {
            (_, true) => is_loopback_address(address) && !self.public_only,
            (true, false) => local(address).is_none(),
            (false, false) => true,
        }
    }
}

async fn store(
    mut response: Response,
    to: &Path,
    most: u64,
    progress: &Progress,
) -> Result<u64, DownloadError> {
    let url = display_url(response.url());
    let expected = response.content_length();
    if expected.is_some_and(|expected| expected > most) {
        return Err(DownloadError::TooLarge { url, most });
    }
    let mut file = File::options();
    let file = file.write(true).create_new(true).mode(0o600).open(to);
    let mut file = file.map_err(io_error("write", to))?;
    let _transfer = progress.begin(Step::Started { what: &url, total: expected });
    let mut got = 0;
    let answered = response.url().clone();
    let failed = |error: reqwest::Error| unreachable(&answered, &chain(&error.without_url()));
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        got += chunk.len() as u64;
        if got > most {
            return Err(DownloadError::TooLarge { url, most });
        }
        file.write_all(&chunk).map_err(io_error("write", to))?;
        progress.report(Step::Received { bytes: got });
    }
    if let Some(expected) = expected.filter(|expected| *expected != got) {
        return Err(DownloadError::Truncated { url, expected, got });
    }
    let settled = file.set_permissions(fs::Permissions::from_mode(0o444)).and_then(|()| file.sync_all());
    settled.map_err(io_error("write", to))?;
    Ok(got)
}

/// Reports whether the URL's host is a loopback address or `localhost`.
pub(super) fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback)
}

fn address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Renders a URL for messages, without user name, password, query and fragment.
pub(super) fn display_url(url: &Url) -> String {
    let mut bare = url.clone();
    // These fail only for URLs that cannot have a user name or password.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    haft_core::report::plain(bare.as_str().split(['?', '#']).next().unwrap_or_default())
}

/// Returns a text that should be a URL, without a password.
pub(super) fn shown_text(url: &str) -> String {
    if let Some(url) = Url::parse(url).ok().filter(Url::has_host) {
        return display_url(&url);
    }
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    haft_core::report::plain(bare.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(url: &str, public_only: bool) -> Hop {
        Hop { url: Url::parse(url).unwrap(), accept: ANYTHING, public_only }
    }

    #[test]
    fn no_password_of_a_url_is_shown() {
        for url in ["https://ci:pw@a.test/x?token=1#y", "ci:pw@a.test/x?token=1", "https://ci:pw@[/x"] {
            let shown = shown_text(url);
            assert!(shown.contains("/x") && !shown.contains("pw") && !shown.contains("token"), "{shown}");
        }
    }

    /// FU02, PR08: the permitted targets of redirects.
    #[test]
    fn redirects_never_lead_inwards_nor_to_plain_http() {
        let objection = |from: &str, to: &str, public: bool| hop(from, public).objection(&hop(to, public));
        let (site, near) = ("https://site.test/x", "http://127.0.0.1:1/x");
        for (from, to, public) in [
            (site, "https://other.test/", true),
            (site, "https://10.0.0.1/", false),
            (near, "http://localhost:2/", false),
            (near, "https://site.test/", false),
        ] {
            assert_eq!(objection(from, to, public), None, "{from} {to}");
        }
        for (from, to, public) in [
            (site, "http://other.test/", true),
            (site, "http://127.0.0.1/", false),
            (site, "https://127.0.0.1/", true),
            (site, "https://localhost/", true),
            (site, "https://[::ffff:127.0.0.1]/", true),
            (site, "https://10.1.2.3/", true),
            (site, "https://169.254.169.254/latest", true),
            (site, "https://u:p@other.test/", true),
            (site, "file:///etc/passwd", true),
            (near, "http://other.test/", false),
            (near, "ftp://other.test/", false),
        ] {
            assert!(objection(from, to, public).is_some(), "{from} {to}");
        }
    }

    #[test]
    fn names_are_judged_by_their_addresses() {
        let allowed = |public_only, name, address: &str| {
            Names { public_only }.is_allowed(name == "localhost", address.parse().unwrap())
        };
        assert!(allowed(false, "x.test", "10.0.0.1") && allowed(true, "x.test", "1.1.1.1"));
        assert!(!allowed(true, "x.test", "10.0.0.1") && !allowed(true, "x.test", "::1"));
        assert!(allowed(false, "localhost", "127.0.0.1") && !allowed(false, "localhost", "1.1.1.1"));
        assert!(!allowed(true, "localhost", "127.0.0.1"));
    }

    #[test]
    fn urls_are_shown_without_what_may_be_a_key() {
        assert_eq!(shown_text("https://a.test/b?token=secret#x"), "https://a.test/b");
    }
}
