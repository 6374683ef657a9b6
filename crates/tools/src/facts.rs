//! What is reported of a run: who held it, and how far.

use std::time::Duration;

use contract::{Digest, Enforced, Reason, RunFacts, chain};
use jail::{Change, ChangeKind, Changes, Counted, Enforcement, Memory, Report};
use sandbox::Refusal;

/// Facts of a run that these walls held.
pub(crate) fn facts_of(enforcement: &Enforcement, worker: Option<Digest>) -> RunFacts {
    let enforced = enforcement.findings().iter().map(|finding| {
        let entry = Enforced { level: finding.level.to_string(), how: finding.how.clone() };
        (finding.control.name().to_owned(), entry)
    });
    RunFacts { backend: "native".to_owned(), enforced: enforced.collect(), worker, ..RunFacts::default() }
}

/// Facts of a run that is over.
pub(crate) fn facts_of_report(report: &Report, root: &std::path::Path, worker: Option<Digest>) -> RunFacts {
    let (seen, complete) = match &report.changes {
        Changes::NotAsked => (&[] as &[Change], true),
        Changes::Exact(seen) => (seen.as_slice(), true),
        Changes::Partial { seen, .. } => (seen.as_slice(), false),
    };
    let path_of =
        |path: &std::path::Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let changed = seen.iter().take(MOST_CHANGES).map(|change| {
        let what = match change.kind {
            ChangeKind::Created => "created",
            ChangeKind::Modified => "modified",
            ChangeKind::Removed => "removed",
            ChangeKind::Quarantined => "quarantined",
        };
        (path_of(&change.path), what.to_owned())
    });
    let quarantined = report.quarantined.iter().map(|moved| (path_of(&moved.path), "quarantined".to_owned()));
    let usage = &report.usage;
    RunFacts {
        files_changed: changed.chain(quarantined).collect(),
        files_changed_complete: complete && seen.len() <= MOST_CHANGES,
        wall_micros: micros(report.timings.setup + report.timings.run),
        cpu_micros: micros(usage.cpu_user + usage.cpu_system),
        cpu_incomplete: usage.counted == Counted::Part,
        peak_memory: match usage.memory {
            Memory::Total(bytes) | Memory::LargestProcess(bytes) => bytes,
        },
        ..facts_of(&report.enforcement, worker)
    }
}

/// As many as a receipt holds by name.
const MOST_CHANGES: usize = 1000;

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A sandbox that was not built, as an answer.
pub(crate) fn not_enforced(refusal: &Refusal) -> Reason {
    if matches!(refusal, Refusal::SealedGone { .. }) {
        return Reason::changed(refusal.to_string()).with_hint("make the call again to ask anew");
    }
    let why = chain(refusal);
    let hint = match refusal.fix() {
        Some(fix) => format!("whoever runs this gate can change that: {fix}"),
        None => {
            "whoever runs this gate can look at what the host enforces, with `toolgate doctor`".to_owned()
        }
    };
    Reason::cannot_enforce(why).with_hint(hint)
}
