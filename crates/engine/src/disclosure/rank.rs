//! Which tools fit a request in plain words: BM25 over their names, titles, descriptions, categories and arguments.
//!
//! Pure, and knows no agent: whoever asks hands over the tools that may be found, and nothing else has any say in the order,
//! not even in how rare a word is.

use std::collections::BTreeMap;

use super::words::{alike, words};

/// How soon more of the same word counts for nothing.
const SATURATION: f64 = 1.2;
/// How much a long description weighs against a tool.
const LENGTH: f64 = 0.4;
/// What a word that means nearly the same counts for.
const ALIKE_COUNTS: f64 = 0.45;

/// What a tool is found by: its words, and how much each counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    weights: BTreeMap<String, f64>,
    length: f64,
}

/// The texts of a tool, from the one that says most about it.
pub(super) struct Texts<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) line: &'a str,
    pub(super) description: &'a str,
    pub(super) category: &'a str,
    /// Names of arguments.
    pub(super) arguments: Vec<&'a str>,
}

impl Document {
    pub(super) fn of(texts: &Texts<'_>) -> Document {
        let mut document = Document::default();
        let arguments = texts.arguments.join(" ");
        for (text, weight) in [
            (texts.name, 3.0),
            (texts.title, 2.0),
            (texts.line, 1.5),
            (texts.description, 0.7),
            (texts.category, 0.5),
            (arguments.as_str(), 0.7),
        ] {
            let words = words(text);
            document.length += words.len() as f64 * weight;
            for word in words {
                *document.weights.entry(word).or_default() += weight;
            }
        }
        document
    }
}

/// The places of those documents that have anything to do with a request, the best first. Equals stay in order.
pub(super) fn rank(request: &str, documents: &[&Document]) -> Vec<usize> {
    let count = documents.len() as f64;
    let mean = documents.iter().map(|document| document.length).sum::<f64>() / count.max(1.0);
    let mut scores = vec![0.0; documents.len()];
    for wanted in words(request) {
        let similar = alike(&wanted);
        let forms: Vec<(&str, f64)> = std::iter::once((wanted.as_str(), 1.0))
            .chain(similar.iter().map(|word| (word.as_str(), ALIKE_COUNTS)))
            .map(|(word, counts)| (word, counts * rarity(word, documents, count)))
            .collect();
        for (document, score) in documents.iter().zip(&mut scores) {
            // A word and those like it are one wish: the best of them counts, not their sum.
            let best = forms
                .iter()
                .map(|(word, counts)| counts * document.saturated(word, mean))
                .fold(0.0, f64::max);
            *score += best;
        }
    }
    let mut order: Vec<usize> = (0..documents.len()).collect();
    let score = |place: &usize| scores.get(*place).copied().unwrap_or_default();
    order.retain(|place| score(place) > 0.0);
    order.sort_by(|one, other| score(other).total_cmp(&score(one)));
    order
}

/// How much it says that a tool has a word: less, the more of them do.
fn rarity(word: &str, documents: &[&Document], count: f64) -> f64 {
    let having = documents.iter().filter(|document| document.weights.contains_key(word)).count() as f64;
    (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
}

impl Document {
    fn saturated(&self, word: &str, mean: f64) -> f64 {
        let weight = self.weights.get(word).copied().unwrap_or_default();
        let length = 1.0 - LENGTH + LENGTH * self.length / mean.max(1.0);
        weight * (SATURATION + 1.0) / (weight + SATURATION * length)
    }
}
