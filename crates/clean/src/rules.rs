//! Every rule there is, for those who list them.

use super::finding::{Action, Category};
use super::{escapes, links, markers, orders, secrets};

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// What kind of trouble it finds.
    pub category: Category,
    /// Its name.
    pub name: &'static str,
    /// What is done about it.
    pub action: Action,
}

/// All rules, in order, each once.
pub fn rules() -> Vec<Rule> {
    let rule = |category, action| move |name| Rule { category, name, action };
    let removed = |category| rule(category, Action::Removed);
    let mut rules: Vec<Rule> = Vec::new();
    rules.extend(escapes::RULES.map(removed(Category::Escape)));
    rules.push(removed(Category::Escape)(escapes::UNFINISHED));
    rules.extend(["carriage-return", "control-character"].map(removed(Category::Control)));
    rules.extend(["mark", "override"].map(removed(Category::Direction)));
    rules.extend(["default-ignorable", "line-separator", "zero-width"].map(removed(Category::Invisible)));
    rules.extend(
        ["invisible-operator", "tag-character", "variation-selector"].map(removed(Category::Smuggled)),
    );
    rules.push(removed(Category::Encoding)("invalid-utf8"));
    rules.extend(
        secrets::FORMATS.iter().map(|format| format.rule).map(rule(Category::Secret, Action::Masked)),
    );
    rules.extend(secrets::OTHER_RULES.map(rule(Category::Secret, Action::Masked)));
    rules.extend(links::RULES.map(|(name, action)| rule(Category::Exfiltration, action)(name)));
    rules.extend(markers::MARKERS.iter().map(|marker| rule(marker.category, marker.action)(marker.rule)));
    rules.extend(orders::RULES.map(rule(Category::Injection, Action::Flagged)));
    rules.push(rule(Category::Lookalike, Action::Flagged)("mixed-scripts"));
    rules.sort();
    rules.dedup();
    rules
}
