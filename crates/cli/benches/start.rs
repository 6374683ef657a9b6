//! Times how long `/bin/true` takes under each sandbox, side by side, and says whether Toolgate keeps its bars.
//!
//! Knows nothing about any sandbox: `./bench` gets them ready, proves that they isolate, and lists them.
//! Compare ratios of one run, never times of two: machines differ, and so does what else they do.
//!
//! # Invariants
//! - A call that does not exit 0 ends the bench: a sandbox that fails is fast.
//! - Each round is shuffled: the kernel tears a sandbox down after its process has ended, at the expense of
//!   whoever is next.
#![expect(clippy::print_stdout, reason = "the report is this program's data")]
#![expect(clippy::print_stderr, reason = "progress and errors are its talk")]

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Toolgate's median must be at most one `share`-th of the peer's.
struct Bar {
    peer: &'static str,
    share: f64,
}

const BARS: [Bar; 4] = [
    Bar { peer: "bwrap", share: 2.0 },
    Bar { peer: "codex", share: 15.0 },
    Bar { peer: "srt", share: 80.0 },
    Bar { peer: "docker", share: 80.0 },
];

/// The ones fast enough for calls per second to mean something.
const COUNTED_PER_SECOND: [&str; 4] = ["bare", "toolgate", "bwrap", "firejail"];
const AT_ONCE: [usize; 3] = [1, 2, 8];

struct Effort {
    rounds: usize,
    /// A slow contender sits out rounds, so that it takes about this long in all …
    time_each: Duration,
    /// … but never so many that its median would rest on fewer calls than this.
    fewest_calls: usize,
    /// Calls per second are counted in slices of this length, taken in turn.
    slice: Duration,
    slices: u32,
}

const FULL: Effort = Effort {
    rounds: 300,
    time_each: Duration::from_secs(12),
    fewest_calls: 25,
    slice: Duration::from_millis(500),
    slices: 3,
};

const QUICK: Effort = Effort {
    rounds: 60,
    time_each: Duration::from_secs(2),
    fewest_calls: 5,
    slice: Duration::from_millis(250),
    slices: 2,
};

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| bench(&options)) {
        Ok(Outcome::BarsKept) => ExitCode::SUCCESS,
        Ok(Outcome::BarMissed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Options {
    contenders: Option<PathBuf>,
    stderr: PathBuf,
    who: String,
    quick: bool,
    json: bool,
    check: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--contenders" => options.contenders = arguments.next().map(PathBuf::from),
                "--stderr" => options.stderr = arguments.next().unwrap_or_default().into(),
                "--who" => options.who = arguments.next().unwrap_or_default(),
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--check" => options.check = true,
                "--bench" => {} // cargo's own
                _ => bail!("unknown argument `{argument}`"),
            }
        }
        Ok(options)
    }
}

enum Outcome {
    BarsKept,
    BarMissed,
}

fn bench(options: &Options) -> Result<Outcome> {
    let effort = if options.quick { &QUICK } else { &FULL };
    let Some(list) = &options.contenders else {
        // `cargo bench` and `cargo test --all-targets` come here: they have no peers to offer, and that is no failure.
        eprintln!("hint: run `./bench`, which gets the peers ready and then starts this");
        return Ok(Outcome::BarsKept);
    };
    let (contenders, absent) = read_contenders(list)?;
    let machine = describe_machine()?;
    let stderr = open_stderr_file(&options.stderr)?;

    eprintln!("bench: timing {} contenders as {}", contenders.len(), options.who);
    let starts = time_starts(&contenders, effort, &stderr)?;
    eprintln!("bench: counting calls per second as {}", options.who);
    let rates = count_rates(&contenders, effort, &stderr)?;

    let report = Report { who: &options.who, machine, rounds: effort.rounds, starts, rates, absent };
    if options.json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
    let kept = report.bars().iter().all(|(_, verdict)| !matches!(verdict, Standing::Missed(_)));
    let measured = report.median("toolgate").is_some();
    Ok(if !options.check || (kept && measured) { Outcome::BarsKept } else { Outcome::BarMissed })
}

// ---- who takes part

struct Contender {
    name: String,
    version: String,
    program: String,
    arguments: Vec<String>,
}

struct Absent {
    name: String,
    why: String,
}

/// One row each, fields parted by tabs: `run NAME VERSION ARGV…` or `absent NAME WHY`.
fn read_contenders(path: &Path) -> Result<(Vec<Contender>, Vec<Absent>)> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let (mut contenders, mut absent) = (Vec::new(), Vec::new());
    for row in text.lines() {
        match row.split('\t').collect::<Vec<_>>().as_slice() {
            ["run", name, version, program, arguments @ ..] => contenders.push(Contender {
                name: name.to_string(),
                version: version.to_string(),
                program: program.to_string(),
                arguments: arguments.iter().map(ToString::to_string).collect(),
            }),
            ["absent", name, why] => absent.push(Absent { name: name.to_string(), why: why.to_string() }),
            _ => bail!("cannot understand the row `{row}`"),
        }
    }
    ensure!(!contenders.is_empty(), "`{}` names no contender", path.display());
    Ok((contenders, absent))
}

fn describe_machine() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!("{} cores, Linux {}, load {load} before", thread::available_parallelism()?, kernel.trim()))
}

// ---- timing

impl Contender {
    /// From before the fork until the process has been waited for.
    fn time_one_call(&self, stderr: &File) -> Result<Duration> {
        #[expect(clippy::disallowed_methods, reason = "the bench times whole sandboxes from outside")]
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
        let started = Instant::now();
        let status = command.status().with_context(|| format!("cannot start `{}`", self.program))?;
        let took = started.elapsed();
        ensure!(
            status.success(),
            "`{}` failed, so no figure stands: {status}\n{}",
            self.name,
            read_back(stderr)?
        );
        Ok(took)
    }
}

/// A file and not a pipe: nothing to drain while the clock runs, and no daemon left behind can hold it open.
fn open_stderr_file(path: &Path) -> Result<File> {
    let opened = File::options().read(true).append(true).create(true).open(path);
    opened.with_context(|| format!("cannot open `{}`", path.display()))
}

fn read_back(mut file: &File) -> Result<String> {
    const ENOUGH: u64 = 2000;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

struct Start {
    name: String,
    version: String,
    /// Sorted.
    times: Vec<Duration>,
}

impl Start {
    /// The smallest time that at least `percent` of the calls did not exceed, in milliseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.times.len() * percent).div_ceil(100).saturating_sub(1);
        self.times.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

fn time_starts(contenders: &[Contender], effort: &Effort, stderr: &File) -> Result<Vec<Start>> {
    let mut lanes = Vec::new();
    for contender in contenders {
        let calls = plan_calls(warm_up(contender, stderr)?, effort);
        lanes.push((contender, calls, Vec::with_capacity(calls)));
    }
    let mut shuffle = Shuffle::new();
    for round in 0..effort.rounds {
        let mut due: Vec<_> =
            lanes.iter_mut().filter(|(_, calls, _)| is_due(round, *calls, effort.rounds)).collect();
        shuffle.apply(&mut due);
        for (contender, _, times) in due {
            times.push(contender.time_one_call(stderr)?);
        }
    }
    Ok(lanes.into_iter().map(|(contender, _, times)| finish(contender, times)).collect())
}

fn finish(contender: &Contender, mut times: Vec<Duration>) -> Start {
    times.sort_unstable();
    Start { name: contender.name.clone(), version: contender.version.clone(), times }
}

/// Fills the caches, the kernel's and the sandbox's own; the fastest call says about how long one takes.
fn warm_up(contender: &Contender, stderr: &File) -> Result<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        fastest = fastest.min(contender.time_one_call(stderr)?);
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
struct Shuffle(u64);

impl Shuffle {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn apply<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let chosen = self.0 % (last as u64 + 1);
            items.swap(last, usize::try_from(chosen).unwrap_or(last));
        }
    }
}

// ---- calls per second

struct Rate {
    name: String,
    /// In the order of [`AT_ONCE`].
    per_second: Vec<f64>,
}

fn count_rates(contenders: &[Contender], effort: &Effort, stderr: &File) -> Result<Vec<Rate>> {
    let counted: Vec<_> =
        contenders.iter().filter(|one| COUNTED_PER_SECOND.contains(&one.name.as_str())).collect();
    let mut rates: Vec<_> =
        counted.iter().map(|one| Rate { name: one.name.clone(), per_second: Vec::new() }).collect();
    for at_once in AT_ONCE {
        let mut sums = vec![0.0; counted.len()];
        for _ in 0..effort.slices {
            for (contender, sum) in counted.iter().zip(&mut sums) {
                *sum += calls_per_second(contender, at_once, effort.slice, stderr)?;
            }
        }
        for (rate, sum) in rates.iter_mut().zip(sums) {
            rate.per_second.push(sum / f64::from(effort.slices));
        }
    }
    Ok(rates)
}

fn calls_per_second(contender: &Contender, at_once: usize, slice: Duration, stderr: &File) -> Result<f64> {
    let started = Instant::now();
    let call_until_the_end = || -> Result<u32> {
        let mut calls = 0;
        while started.elapsed() < slice {
            contender.time_one_call(stderr)?;
            calls += 1;
        }
        Ok(calls)
    };
    let counts = thread::scope(|scope| {
        let callers: Vec<_> = (0..at_once).map(|_| scope.spawn(call_until_the_end)).collect();
        callers.into_iter().map(|caller| caller.join()).collect::<Vec<_>>()
    });
    let mut calls = 0;
    for count in counts {
        calls += count.unwrap_or_else(|_| bail!("a calling thread panicked"))?;
    }
    Ok(f64::from(calls) / started.elapsed().as_secs_f64())
}

// ---- what it came to

struct Report<'a> {
    who: &'a str,
    machine: String,
    rounds: usize,
    starts: Vec<Start>,
    rates: Vec<Rate>,
    absent: Vec<Absent>,
}

enum Standing {
    /// How many times Toolgate's median goes into the peer's.
    Met(f64),
    Missed(f64),
    NotMeasured,
}

impl Report<'_> {
    fn median(&self, name: &str) -> Option<f64> {
        self.starts.iter().find(|start| start.name == name).map(|start| start.percentile(50))
    }

    fn bars(&self) -> [(&Bar, Standing); 4] {
        BARS.each_ref().map(|bar| {
            let verdict = match (self.median("toolgate"), self.median(bar.peer)) {
                (Some(ours), Some(theirs)) if theirs / ours >= bar.share => Standing::Met(theirs / ours),
                (Some(ours), Some(theirs)) => Standing::Missed(theirs / ours),
                _ => Standing::NotMeasured,
            };
            (bar, verdict)
        })
    }

    fn print(&self) {
        println!(
            "`/bin/true`, whole process, as {}: {}; {} shuffled rounds",
            self.who, self.machine, self.rounds
        );
        println!();
        println!(
            "{:<10} {:>8} {:>8} {:>8} {:>8} {:>6}  version",
            "", "p50 ms", "p95 ms", "× bare", "× bwrap", "calls"
        );
        for start in &self.starts {
            let median = start.percentile(50);
            println!(
                "{:<10} {median:>8.2} {:>8.2} {:>8} {:>8} {:>6}  {}",
                start.name,
                start.percentile(95),
                ratio(median, self.median("bare")),
                ratio(median, self.median("bwrap")),
                start.times.len(),
                start.version,
            );
        }
        for Absent { name, why } in &self.absent {
            println!("{name:<10} absent: {why}");
        }
        println!();
        println!("{:<10} {:>8} {:>8} {:>8}  at once", "calls/s", "1", "2", "8");
        for Rate { name, per_second } in &self.rates {
            let cells: Vec<_> = per_second.iter().map(|rate| format!("{rate:>8.0}")).collect();
            println!("{name:<10} {}", cells.join(" "));
        }
        println!();
        for (Bar { peer, share }, verdict) in self.bars() {
            let bar = format!("toolgate ≤ 1/{share} of {peer}");
            match verdict {
                Standing::Met(times) => println!("met     {bar}: 1/{times:.2}"),
                Standing::Missed(times) => println!("MISSED  {bar}: 1/{times:.2}"),
                Standing::NotMeasured => println!("–       {bar}: not measured"),
            }
        }
        println!();
    }

    fn to_json(&self) -> Value {
        let starts = self.starts.iter().map(|start| {
            let median = start.percentile(50);
            json!({
                "name": start.name,
                "version": start.version,
                "p50_ms": median,
                "p95_ms": start.percentile(95),
                "times_bare": self.median("bare").map(|bare| median / bare),
                "times_bwrap": self.median("bwrap").map(|bwrap| median / bwrap),
                "calls": start.times.len(),
            })
        });
        let rates = self.rates.iter().map(|rate| {
            let at_once = AT_ONCE.iter().zip(&rate.per_second);
            json!({
                "name": rate.name,
                "at_once": at_once.map(|(n, rate)| (n.to_string(), json!(rate))).collect::<serde_json::Map<_, _>>(),
            })
        });
        let bars = self.bars().map(|(bar, verdict)| {
            let (word, times) = match verdict {
                Standing::Met(times) => ("met", Some(times)),
                Standing::Missed(times) => ("missed", Some(times)),
                Standing::NotMeasured => ("not measured", None),
            };
            json!({ "peer": bar.peer, "peer_per_toolgate": times, "at_least": bar.share, "verdict": word })
        });
        json!({
            "who": self.who,
            "machine": self.machine,
            "rounds": self.rounds,
            "starts": starts.collect::<Vec<_>>(),
            "absent": self.absent.iter().map(|one| json!({ "name": one.name, "why": one.why })).collect::<Vec<_>>(),
            "calls_per_second": rates.collect::<Vec<_>>(),
            "bars": bars,
        })
    }
}

fn ratio(median: f64, of: Option<f64>) -> String {
    of.map_or_else(|| "–".to_owned(), |of| format!("{:.2}", median / of))
}
