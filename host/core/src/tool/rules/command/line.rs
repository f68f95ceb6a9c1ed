//! A rule about a command line, word by word: options that stand before the words of the rule are passed over.

use std::collections::BTreeSet;

use super::Glob;
use super::name_of;
use super::parts::UNKNOWN;

/// Places that the words of a rule may stand at. What has more is taken for anything.
const MAX_PLACES: usize = 64;

/// A rule.
pub(super) struct Line {
    /// Its first words, as far as nothing in them is a star.
    words: Vec<String>,
    /// What follows them.
    rest: Glob,
}

impl Line {
    pub(super) fn of(rule: &Glob) -> Self {
        let (words, rest) = rule.split_words();
        Self { words, rest }
    }

    /// Whether these words are a command that is meant; where it is not certain that they are one, nothing that is only known
    /// when it runs is taken for its program.
    pub(super) fn means(&self, words: &[String], is_certain: bool) -> bool {
        let Some((program, rest)) = words.split_first() else { return false };
        let program = match program.trim_start_matches(['!', ':', '@']) {
            "" => program.as_str(),
            program => program,
        };
        // What a shell makes of a program with a star in it is as unknown as `$X`.
        let is_known = matches!(program, "[" | "[[" | "{");
        let program = if is_known { program.to_owned() } else { program.replace(['*', '?', '['], "\0") };
        let is_path = is_certain || program.starts_with(['/', '.', '~']);
        let own = if is_path { name_of(&program) } else { &program };
        [program.as_str(), own].into_iter().filter(|name| is_certain || self.begins_with(name)).any(|name| {
            let words: Vec<&str> = std::iter::once(name).chain(rest.iter().map(String::as_str)).collect();
            self.is_met(&words)
        })
    }

    /// Whether the rule names this very program.
    fn begins_with(&self, program: &str) -> bool {
        let head = self.rest.head();
        let begins = !head.is_empty() && program.starts_with(head);
        self.words.first().map_or(begins, |first| first == program)
    }

    fn is_met(&self, words: &[&str]) -> bool {
        let mut places = BTreeSet::from([0]);
        for (index, own) in self.words.iter().enumerate() {
            if index > 0 {
                places = beyond_options(words, places, own);
            }
            if places.len() > MAX_PLACES {
                return true;
            }
            let at = |place: &usize| words.get(*place).copied();
            if places.iter().filter_map(at).any(|word| may_become(word, own)) {
                return true;
            }
            places = places.iter().filter(|place| at(place) == Some(own)).map(|place| place + 1).collect();
        }
        if !self.words.is_empty() {
            places = beyond_options(words, places, self.rest.head());
        }
        places.len() > MAX_PLACES
            || places.iter().filter_map(|place| words.get(*place..)).any(|words| self.is_rest(words))
    }

    fn is_rest(&self, words: &[&str]) -> bool {
        let line = words.join(" ");
        match line.split_once(UNKNOWN) {
            Some((known, _)) => self.rest.may_begin_with(known),
            None => self.rest.matches(&line) || self.rest.matches(&format!("{line} ")),
        }
    }
}

/// Whether a word that is only known when the command runs may be `own`, and whatever follows it.
fn may_become(word: &str, own: &str) -> bool {
    word.split_once(UNKNOWN).is_some_and(|(known, _)| own.starts_with(known))
}

/// The places where `own` of a rule may stand: `places`, and what options and their values lie before. An option of the rule
/// may stand anywhere.
fn beyond_options(words: &[&str], mut places: BTreeSet<usize>, own: &str) -> BTreeSet<usize> {
    let Some(mut place) = places.first().copied() else { return places };
    if own.starts_with('-') {
        let own = own.split(' ').next().unwrap_or(own);
        let is_alike = |place: &usize| words.get(*place).is_some_and(|word| word.starts_with(own));
        places.extend((place..words.len()).filter(is_alike));
        return places;
    }
    while places.len() <= MAX_PLACES {
        if let Some(word) = words.get(place).filter(|word| word.starts_with(['-', '+'])) {
            places.insert(place + 1);
            if !word.contains('=') && place + 1 < words.len() {
                places.insert(place + 2);
            }
        }
        match places.range(place + 1..).next() {
            Some(next) => place = *next,
            None => break,
        }
    }
    places
}
