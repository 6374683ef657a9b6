//! What `trust` may say, and where agents begin.

use contract::{Category, Level};

use super::Reader;
use crate::config::at::{At, Given, Place};
use crate::config::file::{Criterion, File, Steps, Threshold, Trust, Weights};
use crate::config::word::{LevelWord, Strategy};

impl Reader {
    /// The level of agents that have none of their own. Where trust would let them grow they begin where it begins,
    /// and stay there until it is in force.
    pub(super) fn first_level(&mut self, tree: &File) -> Level {
        let Some(trust) = tree.trust.at() else { return Level::Standard };
        self.check_trust(&trust.value);
        let strategy = trust.value.strategy.get().map_or(Strategy::Disabled, |word| word.0);
        if strategy == Strategy::Disabled {
            return Level::Standard;
        }
        let general = trust.value.initial_level.get().map(|word| word.0);
        let by_category =
            trust.value.initial_levels.get().map(|levels| levels.iter().map(|(_, at)| at.value.0));
        let lowest = general.into_iter().chain(by_category.into_iter().flatten()).min();
        let level = lowest.unwrap_or(Level::Sandboxed);
        let message = format!(
            "`trust` is read but not in force yet: agents without a level of their own stay at `{level}`"
        );
        self.warn(trust.place, message);
        level
    }

    fn check_trust(&mut self, trust: &Trust) {
        let by_category =
            trust.initial_levels.get().into_iter().flat_map(|levels| levels.iter().map(|(_, at)| at));
        for level in trust.initial_level.at().into_iter().chain(by_category) {
            self.check_first_level(level);
        }
        if let Some(weights) = trust.weights.at() {
            self.check_weights(weights);
        }
        if let Some(steps) = trust.promotion_thresholds.get() {
            self.check_thresholds(steps);
        }
        if let Some(steps) = trust.milestones.get() {
            self.check_criteria(steps, None);
        }
        for (category, steps) in trust.promotion_criteria.get().into_iter().flat_map(|table| table.iter()) {
            self.check_criteria(steps, Some(category));
        }
        if let Some(again) = trust.re_verification.get() {
            self.check_share("decay_on_error_rate", &again.decay_on_error_rate, 1.0);
        }
    }

    fn check_first_level(&mut self, level: &At<LevelWord>) {
        if matches!(level.value.0, Level::Elevated | Level::Custom) {
            let message =
                format!("trust cannot begin at `{}`: only a person gives that level", level.value.as_str());
            self.refuse(level.place, message);
        }
    }

    fn check_weights(&mut self, weights: &At<Weights>) {
        let all = [
            ("task_difficulty", &weights.value.task_difficulty, 0.3),
            ("completion_rate", &weights.value.completion_rate, 0.25),
            ("error_rate", &weights.value.error_rate, 0.25),
            ("human_feedback", &weights.value.human_feedback, 0.2),
        ];
        let before = self.problems.len();
        for (name, weight, _) in all {
            self.check_share(name, weight, 1.0);
        }
        let sum: f64 = all.iter().map(|(_, weight, default)| weight.get().copied().unwrap_or(*default)).sum();
        if self.problems.len() == before && (sum - 1.0).abs() > 1e-9 {
            self.refuse(weights.place, format!("the `weights` add up to `{sum:.4}`, not to 1"));
        }
    }

    fn check_thresholds(&mut self, steps: &Steps<Threshold>) {
        for step in steps.given() {
            let bare = step.value.bare;
            if bare.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
                let score = bare.unwrap_or_default();
                self.refuse(step.place, format!("the score `{score}` is not from 0 to 1"));
            }
            self.check_share("score", &step.value.score, 1.0);
            if bare.is_none() && step.value.score.get().is_none() {
                self.refuse(step.place, "`score` is missing here");
            }
        }
        if let Some(step) = steps.standard_to_elevated.at() {
            let asks = step.value.requires_human_approval.get() == Some(&true);
            self.check_person("standard_to_elevated", step.place, asks);
        }
    }

    fn check_criteria(&mut self, steps: &Steps<Criterion>, category: Option<Category>) {
        for step in steps.given() {
            self.check_share("quality_score_min", &step.value.quality_score_min, 10.0);
        }
        if category == Some(Category::Deployment) {
            for step in steps.given() {
                self.check_person("deployment", step.place, asks_a_person(&step.value));
            }
        } else if let Some(step) = steps.standard_to_elevated.at() {
            self.check_person("standard_to_elevated", step.place, asks_a_person(&step.value));
        }
    }

    fn check_person(&mut self, what: &str, place: Place, asks: bool) {
        if !asks {
            let message = format!("`{what}` always needs a person: write `requires_human_approval: true`");
            self.refuse(place, message);
        }
    }

    fn check_share(&mut self, name: &str, number: &Given<f64>, most: f64) {
        // NaN is in no range.
        let wrong = number.at().filter(|at| !(0.0..=most).contains(&at.value));
        if let Some(At { value, place }) = wrong {
            self.refuse(*place, format!("`{name}` is `{value}`, not from 0 to {most}"));
        }
    }
}

/// Promoting by itself and asking a person exclude each other.
fn asks_a_person(step: &Criterion) -> bool {
    step.requires_human_approval.get() == Some(&true) && step.auto_promote.get() != Some(&true)
}
