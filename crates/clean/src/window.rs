//! The stretch of visible text that is being looked at, and what becomes of it.
//!
//! Text is decided block by block. A block is decided when enough of what follows it is known, and blocks begin at
//! fixed distances in the visible text, so that the result is the same however the input was cut.
//!
//! # Invariants
//! - It holds [`BEHIND`] + [`BLOCK`] + [`AHEAD`] bytes of text at most, whatever the input.
//! - Every byte that is to be shown is written once, or lies in a finding that says what became of it.

use std::ops::Range;

use super::characters::{Kind, kind_of};
use super::class::Class;
use super::detect::{Detector, Hit, View};
use super::finding::{Action, Finding, Findings};

/// What is kept of text that is decided, for those who look back.
const BEHIND: usize = 1024;
/// How much is decided at once.
const BLOCK: usize = 64 * 1024;
/// How much of what follows has to be known.
pub(super) const AHEAD: usize = 16 * 1024;

/// The visible text around the block that is decided next.
#[derive(Debug, Default)]
pub(super) struct Window {
    text: String,
    /// Where in `text` the next block begins.
    begun: usize,
    /// Up to where in `text` it is written or masked.
    written: usize,
    /// How much visible text came before `text`.
    base: u64,
    /// How much of the original came before what is kept next.
    original: u64,
    /// Whether something was left out since the last that was kept.
    broken: bool,
    /// Where visible text goes on after something left out: visible offset, original offset.
    breaks: Vec<(u64, u64)>,
    /// A mask that reaches beyond what is known, and what it goes on for.
    open: Option<(Finding, Class)>,
    /// Which bytes of the original are shown; all, if nothing else is said.
    shown: Option<Range<u64>>,
    detector: Detector,
    hits: Vec<Hit>,
    findings: Findings,
    out: String,
}

impl Window {
    /// A window that shows a part of the original, and looks at the rest only to know that part.
    pub(super) fn showing(part: Range<u64>) -> Window {
        Window { shown: Some(part), ..Window::default() }
    }

    /// Takes in visible text.
    pub(super) fn keep(&mut self, text: &str) {
        if std::mem::take(&mut self.broken) {
            self.breaks.push((self.base + self.text.len() as u64, self.original));
        }
        let mut rest = text;
        loop {
            let room = (BLOCK + AHEAD).saturating_sub(self.text.len() - self.begun);
            let (fits, after) = rest.split_at(rest.floor_char_boundary(room));
            self.text.push_str(fits);
            self.original += fits.len() as u64;
            if after.is_empty() {
                return;
            }
            self.decide(self.text.floor_char_boundary(self.begun + BLOCK), End::Open);
            rest = after;
        }
    }

    /// Takes in something else for a number of bytes of the original.
    pub(super) fn replace(&mut self, text: &str, bytes: usize) {
        self.broken = true;
        let after = self.original + bytes as u64;
        self.keep(text);
        self.original = after;
        self.broken = true;
    }

    /// Leaves out some bytes of the original.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.original += bytes as u64;
        self.broken = true;
    }

    /// How much of the original is behind us.
    pub(super) fn original(&self) -> u64 {
        self.original
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.original == 0
    }

    /// The last visible character.
    pub(super) fn last(&self) -> Option<char> {
        self.text.chars().next_back()
    }

    /// The visible character so many before the last.
    pub(super) fn nth_behind(&self, count: usize) -> Option<char> {
        self.text.chars().rev().nth(count)
    }

    /// Whether one of the last characters of this line is such.
    pub(super) fn any_behind(&self, bytes: usize, is: fn(char) -> bool) -> bool {
        let from = self.text.floor_char_boundary(self.text.len().saturating_sub(bytes));
        let recent = self.text.get(from..).unwrap_or_default();
        recent.chars().rev().take_while(|character| *character != '\n').any(is)
    }

    pub(super) fn record(&mut self, finding: Finding) {
        if self.shows(&finding) {
            self.findings.record(finding);
        }
    }

    fn shows(&self, finding: &Finding) -> bool {
        self.shown.as_ref().is_none_or(|part| finding.start < part.end && part.start < finding.end)
    }

    /// What is decided and not fetched yet.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Decides the rest.
    pub(super) fn finish(mut self) -> (String, Findings) {
        self.decide(self.text.len(), End::Last);
        if let Some((finding, _)) = self.open.take() {
            self.record(finding);
        }
        (self.out, self.findings.in_order())
    }

    fn decide(&mut self, end: usize, at: End) {
        self.go_on_masking();
        let mut hits = std::mem::take(&mut self.hits);
        let view = View { text: &self.text, base: self.base, block: self.begun..end };
        self.detector.look(&view, &mut hits);
        hits.sort_by_key(|hit| (hit.start, hit.action, hit.rank));
        for hit in hits.drain(..) {
            self.apply(&hit, at);
        }
        self.hits = hits;
        self.write(end);
        self.forget(end);
    }

    /// A mask that reached the end of what was known goes on as far as its class does.
    fn go_on_masking(&mut self) {
        let Some((mut finding, class)) = self.open.take() else { return };
        let rest = self.text.as_bytes().get(self.written..).unwrap_or_default();
        let run = class.run(rest);
        if run > 0 {
            self.written += run;
            finding.end = self.original_end(self.written);
        }
        if self.written == self.text.len() {
            self.open = Some((finding, class));
        } else {
            self.written += hidden_prefix(self.text.get(self.written..).unwrap_or_default());
            self.record(finding);
        }
    }

    fn apply(&mut self, hit: &Hit, at: End) {
        let (start, end) = (self.original_start(hit.start), self.original_end(hit.end));
        let finding = Finding { category: hit.category, rule: hit.rule, start, end, action: hit.action };
        if hit.action == Action::Flagged {
            return self.record(finding);
        }
        // What lies within a mask needs none of its own; what reaches beyond it is masked as far as it reaches.
        if hit.end <= self.written {
            return;
        }
        self.write(hit.start);
        if self.shows(&finding) {
            self.out.push_str("[masked:");
            self.out.push_str(hit.rule);
            self.out.push(']');
        }
        self.written = hit.end + hidden_prefix(self.text.get(hit.end..).unwrap_or_default());
        match hit.goes_on {
            Some(class) if hit.end == self.text.len() && at == End::Open => {
                if let Some((open, _)) = self.open.replace((finding, class)) {
                    self.record(open);
                }
            }
            _ => self.record(finding),
        }
    }

    fn write(&mut self, to: usize) {
        if to < self.written {
            return;
        }
        let part = self.shown_within(self.written..to);
        self.out.push_str(self.text.get(part).unwrap_or_default());
        self.written = to;
    }

    /// The part of a stretch of visible text that is shown.
    fn shown_within(&self, stretch: Range<usize>) -> Range<usize> {
        let Some(part) = &self.shown else { return stretch };
        let first_from = |original: u64| {
            let (mut low, mut high) = (stretch.start, stretch.end);
            while low < high {
                let middle = low.midpoint(high);
                if self.original_start(middle) < original { low = middle + 1 } else { high = middle }
            }
            self.text.ceil_char_boundary(low)
        };
        first_from(part.start)..first_from(part.end)
    }

    /// Drops what is decided, but for a little to look back at.
    fn forget(&mut self, end: usize) {
        let drop = self.text.floor_char_boundary(end.saturating_sub(BEHIND));
        self.text.drain(..drop);
        self.base += drop as u64;
        self.begun = end - drop;
        self.written = self.written.saturating_sub(drop);
        let kept = self.breaks.partition_point(|(visible, _)| *visible <= self.base);
        self.breaks.drain(..kept.saturating_sub(1));
    }

    fn original_start(&self, index: usize) -> u64 {
        let visible = self.base + index as u64;
        let after = self.breaks.partition_point(|(from, _)| *from <= visible);
        match after.checked_sub(1).and_then(|at| self.breaks.get(at)) {
            Some((from, original)) => original + (visible - from),
            None => visible,
        }
    }

    fn original_end(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(0, |last| self.original_start(last) + 1)
    }
}

/// How much of what begins a text is unseen, and was kept for the sake of what stood before it. After a mask that is gone.
fn hidden_prefix(text: &str) -> usize {
    let is_kept = |character: &char| {
        matches!(
            kind_of(*character),
            Kind::Mark | Kind::Space | Kind::Joiner | Kind::NonJoiner | Kind::Variation | Kind::Tag
        )
    };
    text.chars().take_while(is_kept).map(char::len_utf8).sum()
}

/// Whether more text may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Last,
}
