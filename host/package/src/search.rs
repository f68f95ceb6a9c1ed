//! Search: plugins and MCP servers in the marketplaces and registries that a person named. Asks no other place, keeps what
//! was answered for a while, and installs nothing.

mod cache;
mod sources;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use haft_core::report::{plain, shortened};
use serde::{Deserialize, Serialize};

pub use self::cache::Cache;
use self::cache::Kept;
pub use self::sources::{FILE, Sources, SourcesError};
use crate::agent_plugin::{MarketplaceError, marketplace};
use crate::download;
use crate::git;
use crate::registry::{Registry, RegistryError, Wanted};
use crate::runner::ProgramError;
use crate::signature::Trust;
use crate::{Installer, PackageSource, StoreError};

/// Words of one search; a registry is asked for each.
const MAX_WORDS: usize = 8;

/// Characters of a word.
const MAX_WORD: usize = 100;

/// Plugins or servers of one source: three times the largest marketplace in use.
const MAX_OFFERS: usize = 10_000;

/// Characters that are kept of a description and of keywords.
const MAX_TEXT: usize = 300;

/// What can be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The name, as its source has it.
    pub name: String,
    /// The kind.
    pub kind: OfferKind,
    /// What `haft add` takes.
    pub place: String,
    /// The registry that `haft add` has to be told of: it asks the first one by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registry: Option<String>,
    /// Its description, cut after 300 characters, without control characters.
    pub description: String,
    /// The source that names it.
    pub source: String,
    /// Texts that are searched besides.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    keywords: String,
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

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Those that have all words, the best first.
    pub offers: Vec<Offer>,
    /// The sources in the order in which they are named.
    pub answers: Vec<SourceAnswer>,
}

/// How a source answered.
#[derive(Debug)]
pub struct SourceAnswer {
    /// The source, without a user's name and password.
    pub source: String,
    /// The age of the oldest answer that was used, where it is not of now.
    pub age: Option<Duration>,
    /// The reason why it could not be asked again.
    pub problem: Option<SearchError>,
    /// Plugins that it names and `haft add` refuses: their places are in a form that is not read, or are not public.
    pub left_out: usize,
    /// Whether some of the words got no answer, neither now nor from the cache.
    pub is_partial: bool,
}

/// Reasons why a source says nothing.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The registry failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The repository cannot be fetched.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It is no marketplace.
    #[error(transparent)]
    Marketplace(#[from] MarketplaceError),
    /// There is no room to fetch it into.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing of it is kept, and it is not asked.
    #[error("it is not in the cache")]
    NotKept,
}

/// The words of a search.
#[derive(Clone, Debug)]
pub struct Words(Vec<String>);

impl Words {
    /// Takes words as a person wrote them; one with spaces is several.
    ///
    /// # Errors
    /// There are none, more than eight, or one of more than 100 characters.
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

    /// The rank of an offer that has all words: 0 where its name is the words, else one more than there are words that are
    /// not in its name.
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

/// One question to a source, which is kept as a whole.
enum Question<'a> {
    Marketplace(&'a PackageSource),
    Registry(&'a Registry, &'a str),
}

impl Installer<'_> {
    /// Searches the sources, one after the other. One that does not answer keeps the others from nothing.
    pub async fn search(&self, sources: &Sources, words: &Words, cache: &Cache<'_>) -> Found {
        let mut found = Found::default();
        for place in &sources.marketplaces {
            self.ask_all(&place.to_string(), &[Question::Marketplace(place)], cache, &mut found).await;
        }
        for (index, registry) in sources.registries.iter().enumerate() {
            let questions: Vec<_> = words.0.iter().map(|word| Question::Registry(registry, word)).collect();
            let before = found.offers.len();
            self.ask_all(&registry.shown(), &questions, cache, &mut found).await;
            let new = found.offers.iter_mut().skip(before).filter(|_| index > 0);
            new.for_each(|offer| offer.registry = Some(registry.shown()));
        }
        // A registry has one server for several words.
        let mut places = HashSet::new();
        found.offers.retain(|offer| places.insert((offer.place.clone(), offer.registry.clone())));
        let ranked = found.offers.into_iter().filter_map(|offer| Some((words.rank(&offer)?, offer)));
        let mut ranked: Vec<(usize, Offer)> = ranked.collect();
        ranked.sort_by(|(rank, one), (other, two)| (rank, &one.name).cmp(&(other, &two.name)));
        found.offers = ranked.into_iter().map(|(_, offer)| offer).collect();
        found
    }

    async fn ask_all(&self, source: &str, questions: &[Question<'_>], cache: &Cache<'_>, found: &mut Found) {
        let mut answer =
            SourceAnswer { source: plain(source), age: None, problem: None, left_out: 0, is_partial: false };
        for question in questions {
            // Who does not answer once is not asked again.
            let is_silent = answer.problem.is_some();
            let kept = cache.read(&question.key());
            let is_enough = kept.as_ref().is_some_and(|(_, age)| cache.is_enough(*age));
            if !is_enough && !is_silent {
                match self.asked(question, source, cache).await {
                    Ok(Kept { offers, left_out, .. }) => {
                        answer.left_out += left_out;
                        found.offers.extend(offers);
                        continue;
                    }
                    Err(problem) => answer.problem = Some(problem),
                }
            }
            if let Some((Kept { offers, left_out, .. }, age)) = kept {
                answer.left_out += left_out;
                answer.age = answer.age.max(Some(age));
                found.offers.extend(offers);
            } else {
                answer.is_partial = true;
            }
        }
        found.answers.push(answer);
    }

    async fn asked(
        &self,
        question: &Question<'_>,
        source: &str,
        cache: &Cache<'_>,
    ) -> Result<Kept, SearchError> {
        if cache.is_offline {
            return Err(SearchError::NotKept);
        }
        let (mut offers, left_out) = match question {
            Question::Marketplace(place) => self.plugins(place).await?,
            Question::Registry(registry, word) => (servers(registry, word).await?, 0),
        };
        offers.truncate(MAX_OFFERS);
        for offer in &mut offers {
            source.clone_into(&mut offer.source);
            offer.description = shortened(&plain(offer.description.trim()), MAX_TEXT);
            offer.keywords = shortened(&plain(&offer.keywords), MAX_TEXT);
        }
        Ok(cache.keep(question.key(), offers, left_out))
    }

    /// The plugins of a marketplace, and how many of them `haft add` refuses.
    async fn plugins(&self, source: &PackageSource) -> Result<(Vec<Offer>, usize), SearchError> {
        let installing = self.store.install()?;
        let (listed, mut left_out) = match source {
            PackageSource::Git { url, reference, .. } => {
                let fetching = self.fetching(installing.directory(), &Trust::Nobody);
                let (folder, _) = git::clone(url, reference.as_deref(), &fetching).await?;
                marketplace::list(&folder, false)?
            }
            folder => marketplace::list(Path::new(&folder.to_string()), true)?,
        };
        let mut offers = Vec::new();
        for plugin in listed {
            let place = format!("{source}#{}", plugin.name);
            // A name could be that of another place.
            let is_it = match place.parse() {
                Ok(PackageSource::Git { plugin: Some(name), .. }) => name == plugin.name,
                Ok(PackageSource::Path(_)) => !plugin.name.contains(['#', '/']),
                _ => false,
            };
            if !is_it || plugin.name.is_empty() {
                left_out += 1;
                continue;
            }
            offers.push(Offer {
                name: plugin.name,
                kind: OfferKind::Plugin,
                place,
                registry: None,
                description: plugin.description,
                source: String::new(),
                keywords: plugin.keywords,
            });
        }
        Ok((offers, left_out))
    }
}

async fn servers(registry: &Registry, word: &str) -> Result<Vec<Offer>, RegistryError> {
    let servers = registry.search(word).await?.into_iter();
    let servers = servers.filter(|server| Wanted::parse(&server.name).is_ok());
    let offer = |server: crate::registry::Named| Offer {
        place: format!("mcp:{}", server.name),
        name: server.name,
        kind: OfferKind::McpServer,
        registry: None,
        description: server.description,
        source: String::new(),
        keywords: server.title,
    };
    Ok(servers.map(offer).collect())
}

impl Question<'_> {
    /// What its answer is kept under.
    fn key(&self) -> String {
        match self {
            Self::Marketplace(source) => format!("marketplace {source}"),
            Self::Registry(registry, word) => {
                format!("registry {} {word}", download::shown_text(&registry.url))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_ranked_by_their_names() {
        let offer = |name: &str, description: &str| Offer {
            name: name.to_owned(),
            kind: OfferKind::Plugin,
            place: name.to_owned(),
            registry: None,
            description: description.to_owned(),
            source: String::new(),
            keywords: "Category".to_owned(),
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
