//! Attestations of packages of npm and PyPI: the publisher and the source repository. The digests of the installed
//! bytes must be those in the attestation; of an index, only its list of attestations is used.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use super::ForeignError;
use super::written::put;
use crate::download::{self, DownloadError};
use crate::listing::io_error;
use crate::runner::Runner;
use crate::signature::{self, MAX_DOCUMENT, Statement, Subject, Trust, Verdict};
use crate::{Digest, Fetching};

/// Maximum number of characters of npm's metadata of one version: a hundred times the usual.
const MAX_DIST: usize = 100_000;

/// Limit on the bytes of an index's page of one project: twice the longest page.
const MAX_PAGE: usize = 16 << 20;

/// The media type of that page (PEP 691).
const PAGE: &str = "application/vnd.pypi.simple.v1+json";

/// The media type of a provenance (PEP 740).
const PROVENANCE: &str = "application/vnd.pypi.integrity.v1+json";

/// The default index of uv, and the variables that name another one.
const INDEX: &str = "https://pypi.org/simple";
const INDEX_VARIABLES: &[&str] = &["UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// Limit on the wheels of one version whose attestations are fetched: servers have one wheel for all machines.
const MAX_WHEELS: usize = 20;

/// The list of requirements whose main package is an attested wheel, in the directory of a fetch.
const ATTESTED: &str = "attested.txt";

/// Number of bytes of a SHA-512 digest.
const SHA512: usize = 64;

/// Checks the attestations of an installed version of npm, whose tarball has the digests `integrity`; returns a
/// note for the user if they are unavailable.
pub(super) async fn of_npm(
    (name, version): (&str, &Version),
    integrity: Option<&str>,
    npm: &Runner<'_>,
    fetching: &Fetching<'_>,
) -> Result<(Verdict, Option<String>), ForeignError> {
    let wanted = format!("{name}@{version}");
    let arguments = ["view", "--json", "--loglevel=error", "--no-update-notifier", "--", &wanted, "dist"];
    let said = npm.run("view", arguments, MAX_DIST).await?;
    let dist: Value = serde_json::from_str(&said).unwrap_or_default();
    let text = |path: &str| dist.pointer(path).and_then(Value::as_str);
    let (document, trouble) = match text("/attestations/url").zip(text("/tarball")) {
        Some((url, tarball)) => fetched(url, tarball, ("application/json", MAX_DOCUMENT), fetching).await?,
        None => (None, None),
    };
    // With several digests, npm's choice is unknown: no attestation then counts for the installed content.
    let Some(digest) = integrity.and_then(sha512) else {
        return Ok((refused_unless_nobody(fetching)?, trouble));
    };
    let about = purl(name, version);
    let of_npm = |document: &[u8]| signature::of_npm(document, &about);
    let statements = document.as_deref().map(of_npm).unwrap_or_default();
    Ok((judge(&statements, Subject::Sha512(&digest), fetching)?, trouble))
}

/// Returns the SHA-512 digest of an integrity text (W3C Subresource Integrity) with only this digest: npm accepts a
/// tarball with any one of several digests.
fn sha512(integrity: &str) -> Option<Vec<u8>> {
    let digest = STANDARD.decode(integrity.strip_prefix("sha512-")?).ok()?;
    (digest.len() == SHA512).then_some(digest)
}

/// Returns the name of a version of npm as the subject of an attestation (package URL).
fn purl(name: &str, version: &Version) -> String {
    format!("pkg:npm/{}@{version}", name.replace('@', "%40"))
}

#[derive(Default)]
pub(super) struct Checked {
    pub(super) verdict: Verdict,
    /// A note for the user.
    pub(super) trouble: Option<String>,
    /// The list of requirements that allows attested wheels of the package alone, if it is signed.
    pub(super) required: Option<PathBuf>,
}

/// An index page of one project (PEP 691).
#[derive(Deserialize)]
struct Page {
    files: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    filename: String,
    hashes: Hashes,
    provenance: Option<String>,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

impl Listed {
    fn digest(&self) -> Option<Digest> {
        self.hashes.sha256.as_deref()?.parse().ok()
    }
}

/// Checks the attestations of the wheels of `name` that the list of requirements `locked` allows. All of them must
/// have one signer, because the machine determines which wheel is installed.
pub(super) async fn of_pypi(
    name: &str,
    locked: &Path,
    fetching: &Fetching<'_>,
) -> Result<Checked, ForeignError> {
    let text = fs::read_to_string(locked).map_err(io_error("read", locked))?;
    let allowed = allowed(&text, name);
    let index = index();
    let page = format!("{}/{}/", index.trim_end_matches('/'), spelt(name).replace('_', "-"));
    let (page, mut trouble) = fetched(&page, &page, (PAGE, MAX_PAGE), fetching).await?;
    let page: Option<Page> = page.and_then(|page| serde_json::from_slice(&page).ok());
    let files = page.into_iter().flat_map(|page| page.files);
    let is_allowed = |file: &Listed| file.digest().is_some_and(|digest| allowed.contains(&digest));
    let is_wheel = |file: &Listed| Path::new(&file.filename).extension().is_some_and(|end| end == "whl");
    let wheels: Vec<Listed> = files.filter(|file| is_wheel(file) && is_allowed(file)).collect();
    if wheels.len() > MAX_WHEELS {
        return too_many(wheels.len(), fetching.trust);
    }
    let mut verdicts = Vec::new();
    for wheel in &wheels {
        let (verdict, why) = judged(wheel, &index, fetching).await?;
        trouble = trouble.or(why);
        verdicts.push(verdict);
    }
    let mut checked = Checked { verdict: common(verdicts, fetching)?, trouble, required: None };
    if checked.verdict.signer().is_some() {
        let file = fetching.directory.join(ATTESTED);
        put(&file, &narrowed(&text, name, &wheels))?;
        checked.required = Some(file);
    }
    Ok(checked)
}

/// Returns the result for a version with too many wheels: a note, or an error if a signer is required.
fn too_many(count: usize, trust: &Trust) -> Result<Checked, ForeignError> {
    let error = ForeignError::Wheels { count, most: MAX_WHEELS };
    match trust {
        Trust::Nobody => Ok(Checked { trouble: Some(error.to_string()), ..Checked::default() }),
        Trust::Named(_) | Trust::Pinned(_) => Err(error),
    }
}

async fn judged(
    wheel: &Listed,
    index: &str,
    fetching: &Fetching<'_>,
) -> Result<(Verdict, Option<String>), ForeignError> {
    let (document, trouble) = match &wheel.provenance {
        Some(url) => fetched(url, index, (PROVENANCE, MAX_DOCUMENT), fetching).await?,
        None => (None, None),
    };
    let statements = document.as_deref().map(signature::of_pypi).unwrap_or_default();
    let digest = wheel.digest().map(|digest| digest.bytes()).unwrap_or_default();
    Ok((judge(&statements, Subject::Sha256(&digest), fetching)?, trouble))
}

/// Returns the verdict on all wheels: the common signer, or the result of the first wheel with another one.
fn common(verdicts: Vec<Verdict>, fetching: &Fetching<'_>) -> Result<Verdict, ForeignError> {
    let mut verdicts = verdicts.into_iter();
    let Some(first) = verdicts.next() else { return refused_unless_nobody(fetching) };
    Ok(match verdicts.find(|verdict| *verdict != first) {
        None => first,
        Some(Verdict::Signed(other)) => {
            Verdict::Unchecked(vec![format!("partly {}; the rest has no attestation", other.describe())])
        }
        Some(other) => other,
    })
}

fn refused_unless_nobody(fetching: &Fetching<'_>) -> Result<Verdict, ForeignError> {
    judge(&[], Subject::Sha256(&[]), fetching)
}

fn judge(
    statements: &[Statement],
    subject: Subject<'_>,
    fetching: &Fetching<'_>,
) -> Result<Verdict, ForeignError> {
    Ok(signature::judge(statements, subject, fetching.trust, fetching.root)?)
}

/// Fetches a document of this media type, of at most `most` bytes, from the server of `known`, which was contacted
/// before. Unless a signer is required, an unavailable document is a note for the user.
async fn fetched(
    url: &str,
    known: &str,
    (accept, most): (&'static str, usize),
    fetching: &Fetching<'_>,
) -> Result<(Option<Vec<u8>>, Option<String>), ForeignError> {
    let answer = match refuse_elsewhere(url, known) {
        Ok(()) => download::document(url, most, accept).await,
        Err(error) => Err(error),
    };
    match (answer, fetching.trust) {
        (Ok(document), _) => Ok((Some(document), None)),
        (Err(error), Trust::Nobody) => {
            Ok((None, Some(format!("its attestations cannot be fetched: {error}"))))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Refuses a URL that is not on the server of `known`.
fn refuse_elsewhere(url: &str, known: &str) -> Result<(), DownloadError> {
    if download::is_one_server(url, known) {
        return Ok(());
    }
    Err(DownloadError::Elsewhere(download::shown_text(url)))
}

fn index() -> String {
    let named =
        INDEX_VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    // `NAME=URL` names an index for other settings.
    let named =
        named.map(|url| url.split_once("=http").map_or(url.clone(), |(_, rest)| format!("http{rest}")));
    named.unwrap_or_else(|| INDEX.to_owned())
}

/// Returns a line of a list of requirements, with those that continue it.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let is_start = |line: &str| !line.starts_with([' ', '\t']);
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.split_inclusive('\n').next()?.len();
        let more = rest.get(first..).unwrap_or_default().split_inclusive('\n');
        let length = first + more.take_while(|line| !is_start(line)).map(str::len).sum::<usize>();
        let (requirement, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(requirement)
    })
}

/// Returns the normalised spelling of a PyPI name.
pub(super) fn spelt(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}

fn is_of(requirement: &str, name: &str) -> bool {
    requirement.split_once("==").is_some_and(|(found, _)| {
        let found = found.split('[').next().unwrap_or(found);
        spelt(found.trim()) == spelt(name)
    })
}

/// Returns the digests that the list of requirements allows for `name`.
fn allowed(text: &str, name: &str) -> Vec<Digest> {
    let own = requirements(text).filter(|requirement| is_of(requirement, name));
    let words = own.flat_map(str::split_ascii_whitespace);
    words.filter_map(|word| word.strip_prefix("--hash=")?.parse().ok()).collect()
}

/// Returns the list of requirements with the digests of these wheels alone for `name`.
fn narrowed(text: &str, name: &str, wheels: &[Listed]) -> String {
    let digests: Vec<Digest> = wheels.iter().filter_map(Listed::digest).collect();
    let hashes: String = digests.iter().map(|digest| format!(" \\\n    --hash={digest}")).collect();
    let own = |requirement: &str| {
        let plain = requirement.split(" \\").next().unwrap_or(requirement).trim_end();
        format!("{plain}{hashes}\n")
    };
    let line = |requirement: &str| {
        if is_of(requirement, name) { own(requirement) } else { requirement.to_owned() }
    };
    requirements(text).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attested_wheels_are_allowed() {
        let digests = [Digest::hash(b"wheel"), Digest::hash(b"sdist"), Digest::hash(b"other")];
        let [wheel, sdist, other] = &digests;
        let lock = format!(
            "a-server==1.0 \\\n    --hash={wheel} \\\n    --hash={sdist}\nother==2 ; x \\\n    --hash={other}\n"
        );
        assert_eq!(allowed(&lock, "A.Server"), [wheel.clone(), sdist.clone()]);
        assert_eq!(allowed(&lock, "server"), []);
        let listed = Listed {
            filename: "a_server-1.0-py3-none-any.whl".into(),
            hashes: Hashes { sha256: Some(wheel.hex().to_owned()) },
            provenance: None,
        };
        let expected = format!("a-server==1.0 \\\n    --hash={wheel}\nother==2 ; x \\\n    --hash={other}\n");
        assert_eq!(narrowed(&lock, "a-server", &[listed]), expected);
    }

    #[test]
    fn the_digest_of_a_tarball_is_that_which_npm_compared() {
        let word = |byte: u8| format!("sha512-{}", STANDARD.encode([byte; SHA512]));
        assert_eq!(sha512(&word(1)), Some(vec![1; SHA512]));
        for other in [
            format!("{} {}", word(1), word(2)),
            format!("{}\n{}", word(1), word(2)),
            format!("sha1-AAAA {}", word(1)),
            "sha512-AQI=".to_owned(),
            "sha512-".to_owned(),
            "sha1-AAAA".to_owned(),
        ] {
            assert_eq!(sha512(&other), None, "{other}");
        }
    }

    #[test]
    fn another_server_is_named_without_its_password() {
        let known = "https://a.test/x";
        assert!(refuse_elsewhere("https://ci:pw@a.test/y", known).is_ok());
        for url in ["https://ci:pw@b.test/y?token=1", "ci:pw@b.test/y"] {
            let shown = refuse_elsewhere(url, known).unwrap_err().to_string();
            assert!(
                shown.contains("b.test/y") && !shown.contains("pw") && !shown.contains("token"),
                "{shown}"
            );
        }
    }

    #[test]
    fn more_wheels_than_are_judged_are_told_by_their_number() {
        let told = "it has 33 wheels; haft checks the attestations of at most 20";
        let noted = too_many(33, &Trust::Nobody).unwrap_or_default();
        assert_eq!((noted.trouble.as_deref(), noted.verdict), (Some(told), Verdict::Unsigned));
        let trust = Trust::Named("sigstore:https://a.test#https://b.test/c".parse().unwrap());
        assert_eq!(too_many(33, &trust).err().map(|error| error.to_string()).as_deref(), Some(told));
    }

    #[test]
    fn an_attestation_of_npm_names_the_package_as_a_url() {
        let version = Version::new(1, 2, 0);
        assert_eq!(purl("@a/b", &version), "pkg:npm/%40a/b@1.2.0");
        assert_eq!(purl("b", &version), "pkg:npm/b@1.2.0");
    }
}
