//! What was found in a text: of which kind, by which rule, where, and what was done about it.

use std::collections::BTreeMap;

use contract::Cleaning;
use serde::{Deserialize, Serialize};

use super::rules::rules;

/// How many findings of one text are kept one by one. The rest is counted.
pub const MAX_FINDINGS: usize = 256;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Sequences that a terminal obeys.
    Escape,
    /// Control characters that stand alone.
    Control,
    /// Characters that change the order in which others are shown.
    Direction,
    /// Characters that are not seen, where no script or emoji needs them.
    Invisible,
    /// Unseen characters that carry a message.
    Smuggled,
    /// Bytes that are no text.
    Encoding,
    /// Strings shaped like a credential.
    Secret,
    /// Links and images that carry data away, or act.
    Exfiltration,
    /// Marks by which a model tells who speaks.
    Role,
    /// Text that looks like a tool's call or its answer.
    ToolCall,
    /// Words that tell a model what to do.
    Injection,
    /// Words of letters from several scripts that look alike.
    Lookalike,
}

impl Category {
    /// All of them, in order.
    pub const ALL: [Category; 12] = [
        Category::Escape,
        Category::Control,
        Category::Direction,
        Category::Invisible,
        Category::Smuggled,
        Category::Encoding,
        Category::Secret,
        Category::Exfiltration,
        Category::Role,
        Category::ToolCall,
        Category::Injection,
        Category::Lookalike,
    ];

    /// The name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Escape => "escape",
            Category::Control => "control",
            Category::Direction => "direction",
            Category::Invisible => "invisible",
            Category::Smuggled => "smuggled",
            Category::Encoding => "encoding",
            Category::Secret => "secret",
            Category::Exfiltration => "exfiltration",
            Category::Role => "role",
            Category::ToolCall => "tool_call",
            Category::Injection => "injection",
            Category::Lookalike => "lookalike",
        }
    }

    /// Whether such a finding means that the text tries to steer its reader.
    pub fn taints(self) -> bool {
        matches!(
            self,
            Category::Smuggled
                | Category::Exfiltration
                | Category::Role
                | Category::ToolCall
                | Category::Injection
        )
    }
}

/// What was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is gone.
    Removed,
    /// Its name stands in its place.
    Masked,
    /// Nothing: it is still there.
    Flagged,
}

/// One place in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Of which kind.
    pub category: Category,
    /// By which rule.
    pub rule: &'static str,
    /// Where it begins in the original, in bytes.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// What was done.
    pub action: Action,
}

/// What was found in a text, or in several. On the wire it is how often each rule spoke, and not where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Count>", into = "Vec<Count>")]
pub struct Findings {
    kept: Vec<Finding>,
    counts: BTreeMap<(Category, &'static str, Action), u64>,
}

impl Findings {
    /// The first ones, up to [`MAX_FINDINGS`], in the order of the text.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// How many there were in all.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many are counted but not kept.
    pub fn left_out(&self) -> u64 {
        self.total().saturating_sub(self.kept.len() as u64)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often each rule spoke.
    pub fn counts(&self) -> impl Iterator<Item = (Category, &'static str, Action, u64)> {
        self.counts.iter().map(|(&(category, rule, action), &count)| (category, rule, action, count))
    }

    /// Whether something tries to steer whoever reads the text.
    pub fn taint(&self) -> bool {
        self.counts.keys().any(|(category, ..)| category.taints())
    }

    /// Numbers and names alone.
    pub fn summary(&self) -> Cleaning {
        let mut summary = Cleaning { tainted: self.taint(), ..Cleaning::default() };
        for (category, rule, action, count) in self.counts() {
            *summary.rules.entry(format!("{}/{rule}", category.as_str())).or_default() += count;
            *match action {
                Action::Removed => &mut summary.removed,
                Action::Masked => &mut summary.masked,
                Action::Flagged => &mut summary.flagged,
            } += count;
        }
        summary
    }

    /// The names of what was masked, each once.
    pub fn masked(&self) -> (u64, Vec<&'static str>) {
        let masked = || self.counts().filter(|(_, _, action, _)| *action == Action::Masked);
        let mut rules: Vec<&'static str> = masked().map(|(_, rule, ..)| rule).collect();
        rules.dedup();
        (masked().map(|(.., count)| count).sum(), rules)
    }

    pub(super) fn record(&mut self, finding: Finding) {
        *self.counts.entry((finding.category, finding.rule, finding.action)).or_default() += 1;
        if self.kept.len() < MAX_FINDINGS {
            self.kept.push(finding);
        }
    }

    /// What was found in another text: counted here, and kept as far as there is room.
    pub fn absorb(&mut self, other: Findings) {
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
        let room = MAX_FINDINGS.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// What another reading of the same words found: what both have is counted once.
    pub fn agree(&mut self, other: Findings) {
        for (key, count) in other.counts {
            let known = self.counts.entry(key).or_default();
            *known = count.max(*known);
        }
        let room = MAX_FINDINGS.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// How much was taken out and masked, and nothing of where: the text is another one now.
    pub(super) fn of_changes(mut self) -> Findings {
        self.counts.retain(|(.., action), _| *action != Action::Flagged);
        Findings { kept: Vec::new(), counts: self.counts }
    }

    pub(super) fn in_order(mut self) -> Findings {
        self.kept.sort_by_key(|finding| (finding.start, finding.end, finding.category));
        self
    }
}

/// How often a rule spoke.
#[derive(Serialize, Deserialize)]
struct Count {
    category: Category,
    rule: String,
    action: Action,
    count: u64,
}

impl From<Findings> for Vec<Count> {
    fn from(findings: Findings) -> Vec<Count> {
        let written = |(category, rule, action, count): (_, &str, _, _)| Count {
            category,
            rule: rule.to_owned(),
            action,
            count,
        };
        findings.counts().map(written).collect()
    }
}

impl From<Vec<Count>> for Findings {
    fn from(counts: Vec<Count>) -> Findings {
        let rules = if counts.is_empty() { Vec::new() } else { rules() };
        // A rule that there is not has found nothing.
        let known = |count: Count| {
            let rule =
                rules.iter().find(|rule| rule.name == count.rule && rule.category == count.category)?;
            Some(((rule.category, rule.name, count.action), count.count))
        };
        Findings { kept: Vec::new(), counts: counts.into_iter().filter_map(known).collect() }
    }
}
