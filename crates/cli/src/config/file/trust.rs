//! The keys under `trust`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::{ByCategory, LevelWord, StrategyWord};

/// How agents earn higher levels.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Trust {
    /// By what. Default: `disabled`.
    pub(crate) strategy: Given<StrategyWord>,
    /// Where an agent without a level of its own begins. Default: `sandboxed`.
    #[serde(alias = "initialLevel")]
    pub(crate) initial_level: Given<LevelWord>,
    /// For `per_category`: where it begins in each category.
    #[serde(alias = "initialLevels")]
    pub(crate) initial_levels: Given<ByCategory<At<LevelWord>>>,
    /// For `weighted`: what counts how much; they add up to 1.
    pub(crate) weights: Given<Weights>,
    /// For `weighted`: the score of each step.
    #[serde(alias = "promotionThresholds")]
    pub(crate) promotion_thresholds: Given<Steps<Threshold>>,
    /// For `per_category`: what each step takes in each category.
    #[serde(alias = "promotionCriteria")]
    pub(crate) promotion_criteria: Given<ByCategory<Steps<Criterion>>>,
    /// For `milestone`: what each step takes.
    pub(crate) milestones: Given<Steps<Criterion>>,
    /// When trust is looked at again, and lost.
    #[serde(alias = "reVerification")]
    pub(crate) re_verification: Given<ReVerification>,
}

/// What counts how much.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Weights {
    /// Default: 0.3.
    #[serde(alias = "taskDifficulty")]
    pub(crate) task_difficulty: Given<f64>,
    /// Default: 0.25.
    #[serde(alias = "completionRate")]
    pub(crate) completion_rate: Given<f64>,
    /// Default: 0.25.
    #[serde(alias = "errorRate")]
    pub(crate) error_rate: Given<f64>,
    /// Default: 0.2.
    #[serde(alias = "humanFeedback")]
    pub(crate) human_feedback: Given<f64>,
}

/// One value for each step up.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, bound(deserialize = "T: DeserializeOwned"))]
pub(crate) struct Steps<T> {
    /// From `sandboxed` to `restricted`.
    #[serde(alias = "sandboxedToRestricted")]
    pub(crate) sandboxed_to_restricted: Given<T>,
    /// From `restricted` to `standard`.
    #[serde(alias = "restrictedToStandard")]
    pub(crate) restricted_to_standard: Given<T>,
    /// From `standard` to `elevated`: always with a person.
    #[serde(alias = "standardToElevated")]
    pub(crate) standard_to_elevated: Given<T>,
}

impl<T> Default for Steps<T> {
    fn default() -> Steps<T> {
        Steps {
            sandboxed_to_restricted: Given::default(),
            restricted_to_standard: Given::default(),
            standard_to_elevated: Given::default(),
        }
    }
}

impl<T> Steps<T> {
    /// Those that were given, with their places.
    pub(crate) fn given(&self) -> impl Iterator<Item = &At<T>> {
        let steps = [&self.sandboxed_to_restricted, &self.restricted_to_standard, &self.standard_to_elevated];
        steps.into_iter().filter_map(Given::at)
    }
}

/// What a step takes.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Criterion {
    /// This many tasks done.
    #[serde(alias = "tasksCompleted")]
    pub(crate) tasks_completed: Given<u64>,
    /// At this quality, from 0 to 10.
    #[serde(alias = "qualityScoreMin")]
    pub(crate) quality_score_min: Given<f64>,
    /// After this many days.
    #[serde(alias = "timeActiveDays")]
    pub(crate) time_active_days: Given<u64>,
    /// This many of them without an error.
    #[serde(alias = "cleanHistoryDays")]
    pub(crate) clean_history_days: Given<u64>,
    /// Whether nobody has to agree.
    #[serde(alias = "autoPromote")]
    pub(crate) auto_promote: Given<bool>,
    /// Whether a person has to agree.
    #[serde(alias = "requiresHumanApproval")]
    pub(crate) requires_human_approval: Given<bool>,
}

/// The score a step takes, from 0 to 1: a number, or a number and whether a person has to agree.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Threshold {
    pub(crate) score: Given<f64>,
    pub(crate) requires_human_approval: Given<bool>,
    /// The score, where it was written as a number alone.
    pub(crate) bare: Option<f64>,
}

/// The longer way to write a threshold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ThresholdTable {
    /// The score, from 0 to 1.
    score: Given<f64>,
    /// Whether a person has to agree.
    #[serde(alias = "requiresHumanApproval")]
    requires_human_approval: Given<bool>,
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Threshold, D::Error> {
        deserializer.deserialize_any(ThresholdVisitor)
    }
}

struct ThresholdVisitor;

impl<'de> Visitor<'de> for ThresholdVisitor {
    type Value = Threshold;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a score from 0 to 1, or `score` and `requires_human_approval`")
    }

    fn visit_f64<E: Error>(self, score: f64) -> Result<Threshold, E> {
        Ok(Threshold { bare: Some(score), ..Threshold::default() })
    }

    fn visit_u64<E: Error>(self, score: u64) -> Result<Threshold, E> {
        self.visit_f64(score as f64)
    }

    fn visit_i64<E: Error>(self, score: i64) -> Result<Threshold, E> {
        self.visit_f64(score as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Threshold, A::Error> {
        let table = ThresholdTable::deserialize(MapAccessDeserializer::new(map))?;
        let ThresholdTable { score, requires_human_approval } = table;
        Ok(Threshold { score, requires_human_approval, bare: None })
    }
}

impl JsonSchema for Threshold {
    fn schema_name() -> Cow<'static, str> {
        "Threshold".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<ThresholdTable>();
        json_schema!({ "anyOf": [{ "type": "number", "minimum": 0, "maximum": 1 }, table] })
    }
}

/// When trust is looked at again, and lost.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReVerification {
    /// Whether it is. Default: true.
    pub(crate) enabled: Given<bool>,
    /// Every so many days. Default: 90.
    #[serde(alias = "intervalDays")]
    pub(crate) interval_days: Given<u64>,
    /// After so many days without a call. Default: 30.
    #[serde(alias = "decayOnIdleDays")]
    pub(crate) decay_on_idle_days: Given<u64>,
    /// Above this share of errors, from 0 to 1. Default: 0.15.
    #[serde(alias = "decayOnErrorRate")]
    pub(crate) decay_on_error_rate: Given<f64>,
}
