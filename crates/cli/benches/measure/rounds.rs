//! Takes turns: single calls in shuffled rounds, and slices of many calls at once.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// A slow lane sits out rounds, so that it takes about this long in all …
    pub(crate) time_each: Duration,
    /// … but never so many that its median would rest on fewer calls than this.
    pub(crate) fewest_calls: usize,
    /// Calls per second are counted in slices of this length, taken in turn.
    pub(crate) slice: Duration,
    pub(crate) slices: u32,
}

pub(crate) const FULL: Effort = Effort {
    rounds: 300,
    time_each: Duration::from_secs(12),
    fewest_calls: 25,
    slice: Duration::from_millis(500),
    slices: 3,
};

pub(crate) const QUICK: Effort = Effort {
    rounds: 60,
    time_each: Duration::from_secs(2),
    fewest_calls: 5,
    slice: Duration::from_millis(250),
    slices: 2,
};

/// Something that is called again and again.
pub(crate) trait Lane: Sync {
    fn name(&self) -> &str;

    /// Gets ready for so many callers at once. Not timed.
    fn prepare(&self, _at_once: usize) -> Result<()> {
        Ok(())
    }

    /// One call, to its end. One that did not do what it should is an error.
    fn call(&self) -> Result<()>;

    /// Calls for so long, so many at once, and waits for the last of them.
    fn call_for(&self, at_once: usize, slice: Duration) -> Result<Slice> {
        let started = Instant::now();
        let call_until_the_end = || -> Result<Vec<Duration>> {
            let mut times = Vec::new();
            while started.elapsed() < slice {
                times.push(time(self)?);
            }
            Ok(times)
        };
        let results = thread::scope(|scope| {
            let callers: Vec<_> = (0..at_once).map(|_| scope.spawn(call_until_the_end)).collect();
            callers.into_iter().map(|caller| caller.join()).collect::<Vec<_>>()
        });
        let took = started.elapsed();
        let mut times = Vec::new();
        for result in results {
            times.extend(result.unwrap_or_else(|_| bail!("a calling thread panicked"))?);
        }
        Ok(Slice { times, took })
    }
}

/// What came of calling for a while.
pub(crate) struct Slice {
    pub(crate) times: Vec<Duration>,
    pub(crate) took: Duration,
}

/// All that is known of one lane.
pub(crate) struct Sample {
    pub(crate) name: String,
    /// Sorted.
    times: Vec<Duration>,
    took: Duration,
}

impl Sample {
    fn of(name: &str, mut times: Vec<Duration>, took: Duration) -> Sample {
        times.sort_unstable();
        Sample { name: name.to_owned(), times, took }
    }

    /// The smallest time that at least `percent` of the calls did not exceed, in milliseconds.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn calls(&self) -> usize {
        self.times.len()
    }
}

/// The median of the lane with this name.
pub(crate) fn median(samples: &[Sample], name: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.name == name).map(|sample| sample.percentile(50))
}

/// Single calls, one lane after the other in every round.
pub(crate) fn time_rounds(lanes: &[&dyn Lane], effort: &Effort) -> Result<Vec<Sample>> {
    let mut planned = Vec::new();
    for &lane in lanes {
        let calls = plan_calls(warm_up(lane)?, effort);
        planned.push((lane, calls, Vec::with_capacity(calls)));
    }
    let mut shuffle = Shuffle::new();
    for round in 0..effort.rounds {
        let mut due: Vec<_> =
            planned.iter_mut().filter(|(_, calls, _)| is_due(round, *calls, effort.rounds)).collect();
        shuffle.apply(&mut due);
        for (lane, _, times) in due {
            lane.prepare(1)?;
            times.push(time(*lane)?);
        }
    }
    let sample = |(lane, _, times): (&dyn Lane, usize, Vec<Duration>)| {
        let took = times.iter().sum();
        Sample::of(lane.name(), times, took)
    };
    Ok(planned.into_iter().map(sample).collect())
}

/// Many calls at once, in slices that take turns.
pub(crate) fn time_slices(lanes: &[&dyn Lane], at_once: usize, effort: &Effort) -> Result<Vec<Sample>> {
    let mut planned: Vec<_> = lanes.iter().map(|lane| (*lane, Vec::new(), Duration::ZERO)).collect();
    let mut shuffle = Shuffle::new();
    for _ in 0..effort.slices {
        let mut due: Vec<_> = planned.iter_mut().collect();
        shuffle.apply(&mut due);
        for (lane, times, took) in due {
            lane.prepare(at_once)?;
            let slice = lane.call_for(at_once, effort.slice)?;
            times.extend(slice.times);
            *took += slice.took;
        }
    }
    Ok(planned.into_iter().map(|(lane, times, took)| Sample::of(lane.name(), times, took)).collect())
}

fn time<L: Lane + ?Sized>(lane: &L) -> Result<Duration> {
    let started = Instant::now();
    lane.call()?;
    Ok(started.elapsed())
}

/// Fills the caches, the kernel's and the lane's own; the fastest call says about how long one takes.
fn warm_up(lane: &dyn Lane) -> Result<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        fastest = fastest.min(time(lane)?);
    }
    Ok(fastest)
}

fn plan_calls(one_call: Duration, effort: &Effort) -> usize {
    let affordable = effort.time_each.as_nanos() / one_call.as_nanos().max(1);
    usize::try_from(affordable).unwrap_or(usize::MAX).clamp(effort.fewest_calls, effort.rounds)
}

/// Spreads `calls` evenly over `rounds`.
fn is_due(round: usize, calls: usize, rounds: usize) -> bool {
    round * calls / rounds != (round + 1) * calls / rounds
}

/// Xorshift from a fixed seed: the order is arbitrary, yet the same in every bench.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    pub(crate) fn new() -> Shuffle {
        Shuffle(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn apply<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let chosen = self.0 % (last as u64 + 1);
            items.swap(last, usize::try_from(chosen).unwrap_or(last));
        }
    }
}
