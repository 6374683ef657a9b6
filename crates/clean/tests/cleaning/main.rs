//! Cleaning, measured: what it finds of what is planted, and what it says of what is clean.
//!
//! `cargo test -p toolgate-clean --test cleaning -- --nocapture` prints the figures.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "what is made here has the length it was made with"
)]
#![expect(clippy::panic, reason = "a template that cannot be read is a mistake in the test")]
#![expect(clippy::print_stdout, reason = "the figures are what people want to see")]

mod benign;
mod making;
mod negatives;
mod pieces;
mod positives;
mod smuggling;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clean::{Category, clean_text};

/// No category may find less of what is planted, or be wrong more often.
const LEAST_RECALL: f64 = 0.99;
const LEAST_PRECISION: f64 = 0.97;

#[derive(Default)]
struct Score {
    planted: u32,
    found: u32,
    wrong: u32,
}

impl Score {
    fn recall(&self) -> f64 {
        f64::from(self.found) / f64::from(self.planted.max(1))
    }

    fn precision(&self) -> f64 {
        f64::from(self.found) / f64::from((self.found + self.wrong).max(1))
    }
}

#[test]
fn what_is_planted_is_found_and_what_is_clean_is_left_alone() {
    let mut scores: BTreeMap<Category, Score> =
        Category::ALL.into_iter().map(|category| (category, Score::default())).collect();
    let mut missed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut misnamed: BTreeMap<String, u32> = BTreeMap::new();
    for positive in positives::all() {
        let cleaned = clean_text(&positive.text, usize::MAX);
        let score = scores.get_mut(&positive.category).unwrap();
        score.planted += 1;
        let spoke = cleaned.findings.kept().iter().any(|finding| finding.category == positive.category);
        let gone = !positive.planted.iter().any(|planted| cleaned.text.contains(planted.as_str()));
        if spoke && gone {
            score.found += 1;
        } else {
            let name = positive.rule.clone().unwrap_or_else(|| positive.category.as_str().to_owned());
            missed.entry(name).or_default().push(cleaned.text.clone());
        }
        let named =
            |rule: &String| cleaned.findings.kept().iter().any(|finding| finding.rule == rule.as_str());
        if let Some(rule) = positive.rule.filter(|rule| !named(rule)) {
            *misnamed.entry(rule).or_default() += 1;
        }
    }
    let mut bytes = 0;
    for negative in negatives::all() {
        let cleaned = clean_text(&negative.text, usize::MAX);
        bytes += negative.text.len();
        for finding in cleaned.findings.kept() {
            scores.get_mut(&finding.category).unwrap().wrong += 1;
            let (start, end) =
                (usize::try_from(finding.start).unwrap(), usize::try_from(finding.end).unwrap());
            println!(
                "wrong: {} {:?} in {}: {:?}",
                finding.category.as_str(),
                finding.rule,
                negative.name,
                &negative.text[start..end]
            );
        }
        if cleaned.findings.is_empty() {
            assert_eq!(cleaned.text, negative.text, "{} is changed without a word", negative.name);
        }
    }
    let mut table = String::new();
    for (category, score) in scores.iter().filter(|(_, score)| score.planted + score.wrong > 0) {
        let (recall, precision) = (score.recall(), score.precision());
        writeln!(
            table,
            "{:<13} planted {:>5}  recall {recall:.3}  precision {precision:.3}",
            category.as_str(),
            score.planted
        )
        .unwrap();
    }
    println!("{table}clean text: {bytes} bytes; found under another name: {misnamed:?}");
    for (rule, texts) in &missed {
        println!("missed {} of {rule}: {:?}", texts.len(), texts);
    }
    for (category, score) in scores.iter().filter(|(category, _)| **category != Category::Encoding) {
        assert!(score.planted > 0, "nothing is planted for {}", category.as_str());
        assert!(score.recall() >= LEAST_RECALL, "{} misses too much\n{table}", category.as_str());
        assert!(score.precision() >= LEAST_PRECISION, "{} is wrong too often\n{table}", category.as_str());
    }
}

#[test]
fn every_known_format_has_examples() {
    let shown: Vec<&str> =
        include_str!("formats.txt").lines().filter_map(|line| Some(line.split_once(' ')?.0)).collect();
    let secrets = clean::rules().into_iter().filter(|rule| rule.category == Category::Secret);
    let without: Vec<&str> = secrets.map(|rule| rule.name).filter(|name| !shown.contains(name)).collect();
    // Few enough to name: their shape is that of another, or too long to be made here.
    assert!(without.len() <= 16, "{} formats have no example: {without:?}", without.len());
    let formats = clean::rules().into_iter().filter(|rule| rule.category == Category::Secret).count();
    assert!(formats >= 120, "only {formats} formats");
}

#[test]
fn the_document_lists_every_rule() {
    let document = include_str!("../../../../docs/cleaning.md");
    let mut lines: BTreeMap<(Category, clean::Action), Vec<String>> = BTreeMap::new();
    for rule in clean::rules() {
        lines.entry((rule.category, rule.action)).or_default().push(format!("`{}`", rule.name));
    }
    let listed: Vec<String> = lines
        .into_iter()
        .map(|((category, action), names)| {
            format!(
                "- `{}`, {}: {}\n",
                category.as_str(),
                format!("{action:?}").to_lowercase(),
                names.join(", ")
            )
        })
        .collect();
    assert!(document.ends_with(&listed.concat()), "docs/cleaning.md has to end with\n{}", listed.concat());
    for category in Category::ALL {
        let row = format!("| `{}` |", category.as_str());
        assert!(document.contains(&row), "docs/cleaning.md says nothing about {row}");
    }
}
