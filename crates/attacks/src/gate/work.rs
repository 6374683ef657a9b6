//! Work that nobody waits for, and who pays for it.

use std::fs;
use std::time::Duration;

use contract::{Amount, CallResult};
use policy::{Price, PriceSettings, Settings, ToolGlob, ToolPrice};
use serde_json::json;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Stand, trusted};

/// What the kernel counts processor time in for everybody to read.
const TICK: Duration = Duration::from_millis(10);

/// The two counts of the kernel may differ by so much.
const BLUR: Duration = Duration::from_millis(20);

/// So many ticks of work are enough to tell.
const ENOUGH: u32 = 20;

/// More than a call has time for.
const WITHOUT_END: u32 = 100_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "work-after-the-end",
            "work that goes on when its command has ended is counted and paid for",
            |stand| uncounted(stand, &format!("sh -c \"{}\"", quoted(&leaving(3 * ENOUGH)))),
            |stand| paid_for(stand, &leaving(WITHOUT_END), 20, Ending::Done),
        ),
        Case::new(
            "work-until-the-timeout",
            "a call that is stopped is charged for what it had used until then",
            |stand| {
                uncounted(stand, &format!("timeout -s KILL 1 sh -c \"{}\"", quoted(&staying(3 * ENOUGH))))
            },
            |stand| paid_for(stand, &staying(WITHOUT_END), 2, Ending::Failed("timeout")),
        ),
    ]
}

/// A process that nobody waits for, which works until so many ticks and writes down each.
fn working(most: u32) -> String {
    format!(
        "((last=0; while read -r s </proc/self/stat; set -- $s; now=$((${{14}} + ${{15}})); [ $now -lt {most} ]; do \
         [ $now = $last ] || {{ echo $now >>burnt; last=$now; }}; done) &)"
    )
}

/// Begins with it, and ends when it has done enough. It goes on.
fn leaving(most: u32) -> String {
    let all = working(most);
    format!("touch burnt; {all}; until [ $(wc -l <burnt) -ge {ENOUGH} ]; do sleep 0.02; done")
}

/// Begins with it, and waits.
fn staying(most: u32) -> String {
    format!("{}; sleep 60", working(most))
}

/// For between the double quotes of a shell.
fn quoted(script: &str) -> String {
    script.replace('$', "\\$")
}

/// Whether whoever waited for a command knows less than was burnt.
fn uncounted(stand: &Stand<'_>, command: &str) -> Try<Effect> {
    let said = stand.bare("sh", &["-c", &format!("{command}; times")], &stand.workspace)?;
    // The second line is about the children, in minutes and seconds.
    let times = said.lines().filter(|line| line.contains('m') && line.ends_with('s')).nth(1);
    let known = times.and_then(|line| line.split_whitespace().map(time_of).sum::<Option<Duration>>());
    let known = known.ok_or_else(|| format!("no times: {said}"))?;
    judged(stand, known)
}

fn time_of(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    let seconds: f64 = seconds.parse().ok()?;
    Some(Duration::from_secs(minutes.parse::<u64>().ok()? * 60) + Duration::from_secs_f64(seconds))
}

/// Whether the receipt says less than was burnt, or less was paid.
fn paid_for(stand: &Stand<'_>, script: &str, seconds: u32, ending: Ending) -> Try<Effect> {
    let gate = stand.gate(priced()?)?;
    let call = json!({ "command": "sh", "args": ["-c", script], "profile": "build", "timeout": seconds });
    let result = gate.call("shell", call, ending)?;
    let counted = counted(&gate, &result)?;
    let cost = result.cost.and_then(|cost| cost.measured).ok_or("it has cost nothing that was measured")?;
    // A unit of money for each second.
    judged(stand, counted.min(Duration::from_micros(cost.millionths())))
}

fn counted(gate: &Gate<'_>, result: &CallResult) -> Try<Duration> {
    let facts = gate.facts(result)?.ok_or_else(|| format!("it did not run: {}", result.content))?;
    Ok(Duration::from_micros(facts.cpu_micros))
}

fn judged(stand: &Stand<'_>, known: Duration) -> Try<Effect> {
    let lines = fs::read_to_string(stand.workspace.join("burnt"))?;
    let ticks: u32 = lines.lines().last().ok_or("nothing was burnt")?.parse()?;
    let burnt = TICK * ticks;
    if burnt < 4 * BLUR {
        return Err(format!("only {burnt:?} were burnt").into());
    }
    Ok(Effect::through_if(known + BLUR < burnt, format!("{known:?} is known of {burnt:?}")))
}

fn priced() -> Try<Settings> {
    let price = Price { cpu_second: Amount::parse(1.0)?, ..Price::default() };
    let tools = vec![ToolPrice { tools: ToolGlob::parse("shell")?, price }];
    Ok(Settings { prices: PriceSettings { currency: "USD".to_owned(), tools }, ..trusted() })
}
