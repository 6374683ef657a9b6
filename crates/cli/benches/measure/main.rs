//! Measures Toolgate beside what people would use otherwise, and says whether it keeps its bars.
//!
//! Knows nothing about any peer: `./bench` gets them ready, proves that they isolate, and lists them.
//! Compare ratios of one run, never times of two: machines differ, and so does what else they do.
//!
//! # Invariants
//! - A call that does not do what it was made for ends the bench: what fails is fast.
//! - What is compared takes turns in a shuffled order: the kernel tears a sandbox down after its process has ended, at
//!   the expense of whoever is next.
#![expect(clippy::print_stdout, reason = "the report is this program's data")]
#![expect(clippy::print_stderr, reason = "progress and errors are its talk")]
#![expect(clippy::disallowed_methods, reason = "it times whole programs and gates from outside")]

mod bars;
mod doors;
mod egress;
mod gate;
mod gateway;
mod growth;
mod lists;
mod load;
mod memory;
mod options;
mod past;
mod peers;
mod report;
mod rounds;
mod rules;
mod start;
mod warm;

use std::process::ExitCode;

use anyhow::Result;

use bars::Part;
use options::Options;
use peers::Peers;
use report::{Report, Section};

fn main() -> ExitCode {
    // It is its own helper, canary and worker.
    jail::serve_if_asked(tools::WORKER);
    sandbox::serve_if_asked();
    doors::serve_nothing_if_asked();
    egress::serve_client_if_asked();
    match Options::parse(std::env::args().skip(1)).and_then(|options| bench(&options)) {
        Ok(Outcome::BarsKept) => ExitCode::SUCCESS,
        Ok(Outcome::BarMissed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

enum Outcome {
    BarsKept,
    BarMissed,
}

fn bench(options: &Options) -> Result<Outcome> {
    let Some(list) = &options.contenders else {
        // `cargo bench` and `cargo test --all-targets` come here: they have no peers to offer, and that is no failure.
        eprintln!("hint: run `./bench`, which gets the peers ready and then starts this");
        return Ok(Outcome::BarsKept);
    };
    let peers = Peers::read(list, &options.stderr)?;
    let machine = report::describe_machine()?;
    let mut sections = Vec::new();
    for &part in &options.parts {
        eprintln!("bench: {} as {}", part.as_str(), options.who);
        sections.push((part, measure(part, options, &peers)?));
    }
    let report = Report { who: &options.who, machine, sections, absent: &peers.absent };
    if options.json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
    Ok(if options.check && !report.is_kept() { Outcome::BarMissed } else { Outcome::BarsKept })
}

fn measure(part: Part, options: &Options, peers: &Peers) -> Result<Section> {
    match part {
        Part::Start => start::measure(options, peers),
        Part::Warm => warm::measure(options, peers),
        Part::Doors => doors::measure(options, peers),
        Part::Memory => memory::measure(options),
        Part::Growth => growth::measure(options),
        Part::Egress => egress::measure(options, peers),
        Part::Past => past::measure(options),
        Part::Rules => rules::measure(options),
        Part::Lists => lists::measure(options),
        Part::Load => load::measure(options),
    }
}
