//! How long `/bin/true` takes under each sandbox, as a whole process: the cold start.

use anyhow::Result;

use crate::options::Options;
use crate::peers::Peers;
use crate::report::{Cell, Section, Table};
use crate::rounds::{Lane, median, time_rounds, time_slices};

/// The ones fast enough for calls per second to mean something.
const COUNTED_PER_SECOND: [&str; 4] = ["bare", "toolgate", "bwrap", "firejail"];
const AT_ONCE: [usize; 3] = [1, 2, 8];
const BARS: [(&str, &str); 4] =
    [("start-bwrap", "bwrap"), ("start-codex", "codex"), ("start-srt", "srt"), ("start-docker", "docker")];

pub(crate) fn measure(options: &Options, peers: &Peers) -> Result<Section> {
    let effort = options.effort();
    // What is kept running has nothing to start.
    let cold: Vec<_> = peers.contenders.iter().filter(|one| one.name() != "docker-exec").collect();
    let lanes: Vec<&dyn Lane> = cold.iter().map(|one| *one as &dyn Lane).collect();
    let samples = time_rounds(&lanes, effort)?;
    let mut starts = Table::new(["", "p50 ms", "p95 ms", "× bare", "× bwrap", "calls", "version"]);
    for (sample, contender) in samples.iter().zip(&cold) {
        let p50 = sample.percentile(50);
        let times = |of: &str| Cell::maybe(median(&samples, of).map(|of| p50 / of), 2);
        starts.rows.push(vec![
            Cell::text(&sample.name),
            Cell::Number(p50, 2),
            Cell::Number(sample.percentile(95), 2),
            times("bare"),
            times("bwrap"),
            Cell::Number(sample.calls() as f64, 0),
            Cell::text(&contender.version),
        ]);
    }

    let counted: Vec<_> =
        lanes.iter().copied().filter(|lane| COUNTED_PER_SECOND.contains(&lane.name())).collect();
    let mut rates = Table::new(["calls/s"]);
    rates.rows.extend(counted.iter().map(|lane| vec![Cell::text(lane.name())]));
    for at_once in AT_ONCE {
        rates.head.push(format!("{at_once} at once"));
        let samples = time_slices(&counted, at_once, effort)?;
        for (row, sample) in rates.rows.iter_mut().zip(samples) {
            row.push(Cell::Number(sample.per_second(), 0));
        }
    }

    let ours = median(&samples, "toolgate");
    let against = |(bar, peer): (&'static str, &str)| Some((bar, ours? / median(&samples, peer)?));
    Ok(Section {
        title: format!("`/bin/true`, whole process; {} shuffled rounds", effort.rounds),
        tables: vec![starts, rates],
        notes: Vec::new(),
        measured: BARS.into_iter().filter_map(against).collect(),
    })
}
