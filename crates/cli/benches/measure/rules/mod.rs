//! What rules cost: the decision with many tools and with many rules, and what it takes to load them.

mod figures;

use anyhow::Result;

use crate::options::Options;
use crate::report::{Cell, Section, Table};
use figures::{RULES, TOOLS, decide_with_rules, decide_with_tools, load};

pub(crate) fn measure(options: &Options) -> Result<Section> {
    // First, while nothing has been freed that could be had again.
    let (read, check, bytes) = load()?;
    let rounds = if options.quick { 200 } else { 2_000 };
    let mut decisions = Table::new(["", "how many", "decide p50 µs", "×"]);
    let mut measured = Vec::new();
    let by_tools = of_sizes(&TOOLS, |size| decide_with_tools(size, rounds))?;
    let by_rules = of_sizes(&RULES, |size| decide_with_rules(size, rounds))?;
    for (name, figures) in
        [("tools, a rule about each", &by_tools), ("rules in Cedar, 10 about the tool", &by_rules)]
    {
        let smallest = figures.first().map(|(_, time)| *time);
        for (size, time) in figures {
            decisions.rows.push(vec![
                Cell::text(name),
                Cell::Number(*size as f64, 0),
                Cell::Number(*time, 2),
                Cell::maybe(smallest.map(|smallest| time / smallest), 2),
            ]);
        }
    }
    let at =
        |figures: &[(usize, f64)], size| figures.iter().find(|(of, _)| *of == size).map(|(_, time)| *time);
    measured.extend(at(&by_tools, 1_000).map(|time| ("decide-tools", time)));
    let times = at(&by_rules, 1_000).zip(at(&by_rules, 10)).map(|(many, few)| many / few);
    measured.extend(times.map(|times| ("decide-rules", times)));

    let mut loading = Table::new(["1,000 rules in Cedar", ""]);
    for (name, figure, digits) in [
        ("read, ms", read, 0),
        ("checked against 60 tools, ms", check, 0),
        ("resident, KiB each", bytes / 1024.0, 1),
    ] {
        loading.rows.push(vec![Cell::text(name), Cell::Number(figure, digits)]);
    }
    Ok(Section {
        title: "Rules, in process".to_owned(),
        tables: vec![decisions, loading],
        notes: vec![
            "`decide` is policy alone, without a store; every call is another tool's, in turn.".to_owned(),
        ],
        measured,
    })
}

fn of_sizes(sizes: &[usize], figure: impl Fn(usize) -> Result<f64>) -> Result<Vec<(usize, f64)>> {
    sizes.iter().map(|size| Ok((*size, figure(*size)?))).collect()
}
