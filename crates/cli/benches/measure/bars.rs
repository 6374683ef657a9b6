//! Every bar there is, where it comes from, and how a measurement stands to it.

use anyhow::{Result, bail};

use crate::peers::Absent;

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `toolgate run` as a whole process.
    Start,
    /// A sandbox from a gate that runs.
    Warm,
    /// Calls through the doors of a gate.
    Doors,
    /// What an idle gate keeps.
    Memory,
    /// What a call costs where there is much of something.
    Growth,
    /// What a guarded network costs.
    Egress,
    /// Recorded calls by another configuration.
    Past,
    /// What rules cost.
    Rules,
    /// What clients with many tools wait for.
    Lists,
    /// Many connections, many questions and many who listen.
    Load,
}

impl Part {
    const ALL: [Part; 10] = [
        Part::Start,
        Part::Warm,
        Part::Doors,
        Part::Memory,
        Part::Growth,
        Part::Egress,
        Part::Past,
        Part::Rules,
        Part::Lists,
        Part::Load,
    ];

    pub(crate) fn parse(text: &str) -> Result<Part> {
        match Part::ALL.into_iter().find(|part| part.as_str() == text) {
            Some(part) => Ok(part),
            None => bail!("there is no part `{text}`"),
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Part::Start => "start",
            Part::Warm => "warm",
            Part::Doors => "doors",
            Part::Memory => "memory",
            Part::Growth => "growth",
            Part::Egress => "egress",
            Part::Past => "past",
            Part::Rules => "rules",
            Part::Lists => "lists",
            Part::Load => "load",
        }
    }
}

pub(crate) struct Bar {
    pub(crate) part: Part,
    /// By which a part names it.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) bound: Bound,
    /// With whom it compares.
    pub(crate) peer: Option<&'static str>,
    /// Where it was set.
    pub(crate) source: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

const COLD: &str = "decision 0005, the cold start beside its peers";
const WARM: &str = "the goal for warm sandboxes";
const CALL: &str = "the goal for a whole call";
const GUARD: &str = "the goal for a guarded network";
const RULES: &str = "the goal for rules";
const LISTS: &str = "the goal for a list from the catalogue";
const IDLE: &str = "the goal for an idle gate";
const PAST: &str = "the goal for simulating a policy";

pub(crate) const BARS: [Bar; 16] = [
    bar(Part::Start, "start-bwrap", "toolgate run, × bwrap", Bound::AtMost(1.0 / 2.0), Some("bwrap"), COLD),
    bar(Part::Start, "start-codex", "toolgate run, × codex", Bound::AtMost(1.0 / 15.0), Some("codex"), COLD),
    bar(Part::Start, "start-srt", "toolgate run, × srt", Bound::AtMost(1.0 / 80.0), Some("srt"), COLD),
    bar(
        Part::Start,
        "start-docker",
        "toolgate run, × docker run",
        Bound::AtMost(1.0 / 80.0),
        Some("docker"),
        COLD,
    ),
    bar(Part::Warm, "warm-bare", "warm `true`, p50 × bare", Bound::AtMost(1.4), Some("bare"), WARM),
    bar(
        Part::Warm,
        "warm-rate",
        "warm `true`, calls/s at 2 × bwrap",
        Bound::AtLeast(2.5),
        Some("bwrap"),
        WARM,
    ),
    bar(Part::Doors, "http-true", "`true` over HTTP, p50 × bwrap", Bound::AtMost(0.5), Some("bwrap"), CALL),
    bar(Part::Doors, "http-read", "`fs.read` over HTTP, p50 in ms", Bound::AtMost(1.0), None, CALL),
    bar(Part::Memory, "gate-resident", "idle gate, resident MiB", Bound::AtMost(40.0), None, IDLE),
    bar(Part::Egress, "egress-download", "a guarded download, × direct", Bound::AtLeast(0.8), None, GUARD),
    bar(Part::Past, "past-million", "a million past calls, in s", Bound::AtMost(60.0), None, PAST),
    bar(Part::Past, "past-peak", "deciding past calls, peak MiB", Bound::AtMost(256.0), None, PAST),
    bar(Part::Memory, "sandbox-private", "waiting sandbox, private MiB", Bound::AtMost(1.0), None, IDLE),
    bar(Part::Rules, "decide-tools", "decide with 1,000 tools, p50 µs", Bound::AtMost(10.0), None, RULES),
    bar(Part::Lists, "list-500", "the list of 500 tools, p50 in ms", Bound::AtMost(5.0), None, LISTS),
    bar(Part::Rules, "decide-rules", "decide, 1,000 Cedar rules × 10", Bound::AtMost(3.0), None, RULES),
];

const fn bar(
    part: Part,
    name: &'static str,
    what: &'static str,
    bound: Bound,
    peer: Option<&'static str>,
    source: &'static str,
) -> Bar {
    Bar { part, name, what, bound, peer, source }
}

#[derive(Clone, Copy)]
pub(crate) enum Standing {
    Met(f64),
    Missed(f64),
    /// Its peer cannot take part in this pass, and does in another one.
    Elsewhere,
    NotMeasured,
}

impl Bar {
    pub(crate) fn standing(&self, measured: &[(&'static str, f64)], absent: &[Absent]) -> Standing {
        let value = measured.iter().find(|(name, _)| *name == self.name).map(|(_, value)| *value);
        let elsewhere = || absent.iter().any(|one| Some(one.name.as_str()) == self.peer && one.elsewhere);
        match (value.filter(|value| value.is_finite()), self.bound) {
            (Some(value), Bound::AtMost(most)) if value <= most => Standing::Met(value),
            (Some(value), Bound::AtLeast(least)) if value >= least => Standing::Met(value),
            (Some(value), _) => Standing::Missed(value),
            (None, _) if elsewhere() => Standing::Elsewhere,
            (None, _) => Standing::NotMeasured,
        }
    }
}

impl Standing {
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Standing::Met(value) | Standing::Missed(value) => Some(value),
            Standing::Elsewhere | Standing::NotMeasured => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Standing::Met(_) => "met",
            Standing::Missed(_) => "MISSED",
            Standing::Elsewhere => "elsewhere",
            Standing::NotMeasured => "NOT MEASURED",
        }
    }
}
