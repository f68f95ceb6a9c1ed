//! Search: plugins and MCP servers in the marketplaces and registries that a person named. Asks no other place, keeps what
//! was answered for a while, and installs nothing.

mod cache;
mod sources;

use std::collections::HashSet;
use std::time::Duration;

use haft_core::report::{plain, shortened};
use serde::{Deserialize, Serialize};

pub use self::cache::Cache;
use self::cache::Kept;
pub use self::sources::{FILE, Sources};
use crate::agent_plugin::{MarketplaceError, marketplace};
use crate::git;
use crate::registry::{Registry, RegistryError, Wanted};
use crate::runner::ProgramError;
use crate::signature::Trust;
use crate::{Installer, PackageSource, StoreError};

/// Maximum number of words of one search: a registry gets a request for each.
const MAX_WORDS: usize = 8;

/// Maximum number of characters of a word.
const MAX_WORD: usize = 100;

/// Maximum number of plugins or servers of one source: three times the largest marketplace in use.
const MAX_OFFERS: usize = 10_000;

/// Time limit for one answer: a marketplace is a few megabytes.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Maximum number of characters that are kept of a description and of keywords.
const MAX_TEXT: usize = 300;

/// An installable plugin or server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The name in its source.
    pub name: String,
    /// The kind.
    pub kind: OfferKind,
    /// The argument for `haft add`.
    pub place: String,
    /// The registry that `haft add` needs as an option; `None` for the first one, its default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registry: Option<String>,
    /// The description, cut after 300 characters, without control characters.
    pub description: String,
    /// The source that lists the offer.
    pub source: String,
    /// Texts that are searched besides.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    keywords: String,
}

impl Offer {
    fn new(kind: OfferKind, name: String, place: String, description: &str, keywords: &str) -> Self {
        let text = |text: &str| shortened(&plain(text.trim()), MAX_TEXT);
        let (description, keywords) = (text(description), text(keywords));
        Self { name, kind, place, registry: None, description, source: String::new(), keywords }
    }
}

/// The kinds of an [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfferKind {
    /// A plugin of a marketplace.
    Plugin,
    /// A server of a registry of MCP servers.
    McpServer,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// The offers that contain all words, the best first.
    pub offers: Vec<Offer>,
    /// The sources in the order in which they are named.
    pub answers: Vec<SourceAnswer>,
}

/// The answer of a source.
#[derive(Debug, Default)]
pub struct SourceAnswer {
    /// The source, without a user's name and password.
    pub source: String,
    /// The age of the oldest answer that was used, where it is not of now.
    pub age: Option<Duration>,
    /// The reason why the source could not be asked again.
    pub problem: Option<SearchError>,
    /// The number of listed plugins that `haft add` refuses: their places have an unsupported form, or are not public.
    pub left_out: usize,
    /// Whether the source has more offers than haft reads.
    pub is_cut: bool,
    /// Whether some of the words got no answer, neither now nor from the cache.
    pub is_partial: bool,
}

/// Reasons for a missing answer of a source.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The repository cannot be fetched.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The repository is not a marketplace.
    #[error(transparent)]
    Marketplace(#[from] MarketplaceError),
    /// The store has no room for the marketplace.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The time limit was exceeded.
    #[error("no answer within {} s", MAX_WAIT.as_secs())]
    TimedOut,
    /// The cache has no answer, and the source is not asked.
    #[error("it is not in the cache")]
    NotKept,
}

/// The words of a search.
#[derive(Clone, Debug)]
pub struct Words(Vec<String>);

impl Words {
    /// Parses words as a person wrote them. A text with spaces is several words.
    ///
    /// # Errors
    /// There are no words, more than eight, or a word of more than 100 characters.
    pub fn new<S: AsRef<str>>(written: &[S]) -> Result<Self, String> {
        let words = written.iter().flat_map(|text| text.as_ref().split_whitespace());
        let words: Vec<String> = words.map(str::to_lowercase).collect();
        if words.is_empty() || words.len() > MAX_WORDS {
            return Err(format!("expected 1 to {MAX_WORDS} words, got {}", words.len()));
        }
        if words.iter().any(|word| word.chars().count() > MAX_WORD) {
            return Err(format!("expected words of at most {MAX_WORD} characters"));
        }
        Ok(Self(words))
    }

    /// Returns the rank of an offer with all words: 0 if its name consists of the words, otherwise the number of words
    /// that are not in its name, plus one.
    fn rank(&self, offer: &Offer) -> Option<usize> {
        let name = offer.name.to_lowercase();
        let all = format!("{name}\n{}\n{}", offer.description.to_lowercase(), offer.keywords.to_lowercase());
        if !self.0.iter().all(|word| all.contains(word)) {
            return None;
        }
        let own = name.rsplit('/').next().unwrap_or_default();
        let is_name = own == self.0.join("-") || name == self.0.concat();
        let elsewhere = self.0.iter().filter(|word| !name.contains(*word)).count();
        Some(if is_name { 0 } else { 1 + elsewhere })
    }
}

/// One question to a source, whose answer is cached as a unit.
enum Question<'a> {
    Marketplace(&'a PackageSource),
    Registry(&'a Registry, &'a str),
}

impl Installer<'_> {
    /// Searches the sources, one after the other. A source that does not answer does not affect the others.
    pub async fn search(&self, sources: &Sources, words: &Words, cache: &Cache<'_>) -> Found {
        let mut found = Found::default();
        for place in &sources.marketplaces {
            let (source, question) = (place.to_string(), Question::Marketplace(place));
            self.ask_all((&source, None), &[question], cache, &mut found).await;
        }
        for (index, registry) in sources.registries.iter().enumerate() {
            let questions: Vec<_> = words.0.iter().map(|word| Question::Registry(registry, word)).collect();
            let shown = registry.shown();
            self.ask_all((&shown, (index > 0).then_some(&shown)), &questions, cache, &mut found).await;
        }
        // A registry may return one server for several words.
        let mut places = HashSet::new();
        found.offers.retain(|offer| places.insert((offer.place.clone(), offer.registry.clone())));
        let ranked = found.offers.into_iter().filter_map(|offer| Some((words.rank(&offer)?, offer)));
        let mut ranked: Vec<(usize, Offer)> = ranked.collect();
        ranked.sort_by(|(rank, one), (other, two)| (rank, &one.name).cmp(&(other, &two.name)));
        found.offers = ranked.into_iter().map(|(_, offer)| offer).collect();
        found
    }

    async fn ask_all(
        &self,
        (source, registry): (&str, Option<&String>),
        questions: &[Question<'_>],
        cache: &Cache<'_>,
        found: &mut Found,
    ) {
        let mut answer = SourceAnswer { source: plain(source), ..SourceAnswer::default() };
        for question in questions {
            let key = question.key();
            let mut known = cache.read(&key).map(|(kept, age)| (kept, Some(age)));
            let is_enough =
                known.as_ref().is_some_and(|(_, age)| age.is_some_and(|age| cache.is_enough(age)));
            // A source that does not answer once is not asked again.
            if !is_enough && answer.problem.is_none() {
                match self.asked(question, cache).await {
                    Ok(new) => known = Some((cache.keep(&key, new), None)),
                    Err(problem) => answer.problem = Some(problem),
                }
            }
            let Some((kept, age)) = known else {
                answer.is_partial = true;
                continue;
            };
            answer.age = answer.age.max(age);
            answer.left_out += kept.left_out;
            answer.is_cut |= kept.is_cut;
            let named = |offer| Offer { source: answer.source.clone(), registry: registry.cloned(), ..offer };
            found.offers.extend(kept.offers.into_iter().map(named));
        }
        found.answers.push(answer);
    }

    async fn asked(&self, question: &Question<'_>, cache: &Cache<'_>) -> Result<Kept, SearchError> {
        if cache.is_offline {
            return Err(SearchError::NotKept);
        }
        let asking = async {
            match question {
                Question::Marketplace(place) => self.plugins(place).await,
                Question::Registry(registry, word) => servers(registry, word).await,
            }
        };
        let mut kept = tokio::time::timeout(MAX_WAIT, asking).await.map_err(|_| SearchError::TimedOut)??;
        kept.is_cut |= kept.offers.len() > MAX_OFFERS;
        kept.offers.truncate(MAX_OFFERS);
        Ok(kept)
    }

    async fn plugins(&self, source: &PackageSource) -> Result<Kept, SearchError> {
        let installing = self.store.install()?;
        let (listed, left_out) = match source {
            PackageSource::Git { url, reference, .. } => {
                let fetching = self.fetching(installing.directory(), &Trust::Nobody);
                let (folder, _) = git::clone(url, reference.as_deref(), &fetching).await?;
                marketplace::list(&folder, false)?
            }
            PackageSource::Path(folder) => marketplace::list(folder, true)?,
            // `Sources` has no others.
            _ => (Vec::new(), 0),
        };
        let mut kept = Kept { left_out, ..Kept::default() };
        for plugin in listed {
            let place = format!("{source}#{}", plugin.name);
            // A name could be that of another place.
            let is_it = match place.parse() {
                Ok(PackageSource::Git { plugin: Some(name), .. }) => name == plugin.name,
                Ok(PackageSource::Path(_)) => !plugin.name.contains(['#', '/']),
                _ => false,
            };
            if is_it && !plugin.name.is_empty() {
                let (description, keywords) = (&plugin.description, &plugin.keywords);
                kept.offers.push(Offer::new(OfferKind::Plugin, plugin.name, place, description, keywords));
            } else {
                kept.left_out += 1;
            }
        }
        Ok(kept)
    }
}

async fn servers(registry: &Registry, word: &str) -> Result<Kept, SearchError> {
    let (servers, is_cut) = registry.search(word).await?;
    let servers = servers.into_iter().filter(|server| Wanted::parse(&server.name).is_ok());
    let offer = |server: crate::registry::Named| {
        let place = format!("mcp:{}", server.name);
        Offer::new(OfferKind::McpServer, server.name, place, &server.description, &server.title)
    };
    Ok(Kept { offers: servers.map(offer).collect(), is_cut, ..Kept::default() })
}

impl Question<'_> {
    fn key(&self) -> String {
        match self {
            Self::Marketplace(source) => format!("marketplace {source}"),
            Self::Registry(registry, word) => format!("registry {} {word}", registry.shown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_ranked_by_their_names() {
        let offer = |name: &str, description: &str| {
            Offer::new(OfferKind::Plugin, name.to_owned(), name.to_owned(), description, "Category")
        };
        let words = Words::new(&["Git hub"]).unwrap();
        assert_eq!(words.rank(&offer("git-hub", "")), Some(0));
        assert_eq!(words.rank(&offer("io.github.a/git-hub", "")), Some(0));
        assert_eq!(words.rank(&offer("github", "")), Some(0));
        assert_eq!(words.rank(&offer("github-tools", "")), Some(1));
        assert_eq!(words.rank(&offer("hub", "for GIT")), Some(2));
        assert_eq!(words.rank(&offer("tools", "for GIT and its HUB")), Some(3));
        assert_eq!(words.rank(&offer("git", "alone")), None);
        assert_eq!(Words::new(&["category"]).unwrap().rank(&offer("x", "")), Some(2));
        for wrong in [vec![" ".to_owned()], vec!["x".repeat(101)], vec!["x".to_owned(); 9]] {
            assert!(Words::new(&wrong).unwrap_err().starts_with("expected"), "{wrong:?}");
        }
    }
}
