//! What a candidate changes, as people read it: what loosens first, each group in a few lines of at most 80 columns.

use engine::Simulated;
use policy::{Answer, Calls, Drifted, Flipped, Left, Says, Word};

use crate::gate::ledger::time;
use crate::talk;

/// More groups than a person looks through are left to `--json`.
const MOST_SHOWN: usize = 40;

/// How wide a line may be.
const COLUMNS: usize = 80;

/// Where what is said begins, after its label.
const INDENT: usize = 13;

/// What the report calls things, and how much it shows.
pub(super) struct Names {
    /// The candidate's file.
    pub(super) candidate: String,
    /// Whether drift is shown call by call.
    pub(super) drift: bool,
}

pub(super) fn print(simulated: &Simulated, names: &Names) {
    lines(simulated, names).iter().for_each(|line| talk::data(line));
}

fn lines(simulated: &Simulated, names: &Names) -> Vec<String> {
    let found = &simulated.found;
    let mut lines = Vec::new();
    let span = match (simulated.since, simulated.until) {
        (None, None) => String::new(),
        (Some(since), None) => format!(" since {}", time(since)),
        (None, Some(until)) => format!(" until {}", time(until)),
        (Some(since), Some(until)) => format!(" from {} to {}", time(since), time(until)),
    };
    lines.push(format!(
        "{}{span} under `{}`",
        talk::counted(found.decided, "recorded call"),
        names.candidate
    ));
    let star = if found.loosened > 0 { "★ " } else { "" };
    lines.push(format!(
        "  {star}{} looser, {} stricter, {} unchanged",
        found.loosened, found.tightened, found.unchanged
    ));
    for group in found.groups.iter().take(MOST_SHOWN) {
        lines.push(String::new());
        flipped(group, &mut lines);
    }
    let hidden: u64 = found.groups.iter().skip(MOST_SHOWN).map(|group| group.calls.count).sum();
    if hidden > 0 {
        lines.push(String::new());
        let groups = found.groups.len() - MOST_SHOWN;
        lines.push(format!("{groups} more groups with {hidden} calls are shown by --json"));
    }
    if found.flips_in_no_group > 0 {
        let (calls, most) = (found.flips_in_no_group, policy::MOST_GROUPS);
        lines.push(format!(
            "{calls} more calls flip beyond the first {most} groups; --tool or --since narrows"
        ));
    }
    lines.push(String::new());
    if names.drift {
        drifted(simulated, &mut lines);
    }
    notes(simulated, names, &mut lines);
    lines
}

fn flipped(group: &Flipped, lines: &mut Vec<String>) {
    let star = if group.loosens { "★ " } else { "  " };
    let (from, to) = (shown(group.today.says), shown(group.candidate.says));
    let calls = talk::counted(group.calls.count, "call");
    lines.push(format!("{star}{from} → {to}  `{}`  {calls}", group.tool));
    said("today", &group.today, lines);
    said("candidate", &group.candidate, lines);
    which(&group.calls, lines);
}

fn drifted(simulated: &Simulated, lines: &mut Vec<String>) {
    let found = &simulated.found;
    for Drifted { tool, then, today, calls } in found.drift_groups.iter().take(MOST_SHOWN) {
        let (then, now) = (then.as_str(), shown(today.says));
        lines.push(format!("  drift: {then} → {now}  `{tool}`  {}", talk::counted(calls.count, "call")));
        said("today", today, lines);
        which(calls, lines);
        lines.push(String::new());
    }
    let hidden = found.drift_groups.iter().skip(MOST_SHOWN).map(|group| group.calls.count).sum::<u64>();
    if hidden + found.drift_in_no_group > 0 {
        lines.push(format!("{} more calls drift", hidden + found.drift_in_no_group));
        lines.push(String::new());
    }
}

fn notes(simulated: &Simulated, names: &Names, lines: &mut Vec<String>) {
    let found = &simulated.found;
    let undecided = &found.not_decided;
    let mut left = |what: &str, calls: &Left| {
        if calls.count > 0 {
            let examples = listed(calls.examples.iter().map(|id| id.chars().take(8).collect()), calls.count);
            labelled(
                "undecided",
                &format!("{} {what}: {examples}", talk::counted(calls.count, "call")),
                lines,
            );
        }
    };
    left("whose arguments are erased", &undecided.erased);
    left("whose arguments were too long to be kept", &undecided.not_kept);
    left("not as they were recorded", &undecided.altered);
    if found.rules_failed > 0 {
        let calls = talk::counted(found.rules_failed, "call");
        labelled(
            "failed",
            &format!("{calls} denied because a rule of the candidate cannot be evaluated"),
            lines,
        );
    }
    if found.drift > 0 {
        let more = if names.drift { "" } else { "; --drift shows which" };
        let calls = talk::counted(found.drift, "call");
        labelled(
            "drift",
            &format!("{calls} recorded otherwise than the policy in force says now{more}"),
            lines,
        );
    }
    labelled("in force", &simulated.policy.to_string(), lines);
    labelled("candidate", &simulated.candidate.to_string(), lines);
    let not_heard = "each call for the time when it was asked, with the operators there are now and as if nothing had been spent; without \
        approvals, hooks and rates. What an allowed call may reach and use is not compared.";
    labelled("decided", not_heard, lines);
    if !simulated.not_compared.is_empty() {
        let keys: Vec<String> = simulated.not_compared.iter().map(|key| format!("`{key}`")).collect();
        let why = format!("{} differ, and what that changes is not shown here", keys.join(", "));
        labelled("unseen", &why, lines);
    }
}

/// A verdict, and the number of people where it takes more than one.
fn shown(says: Says) -> String {
    match says {
        Says { word: Word::Ask, people } if people > 1 => format!("ask {people}"),
        Says { word, .. } => word.as_str().to_owned(),
    }
}

fn said(label: &str, answer: &Answer, lines: &mut Vec<String>) {
    let Answer { says, layer, code, why, .. } = answer;
    let code = code.map(|code| format!(", {}", code.as_str())).unwrap_or_default();
    // It is told of calls, and those may have anything in them.
    let why = contract::show_hidden(why).replace('\n', "␊");
    labelled(label, &format!("{}: {why} ({layer}{code})", shown(*says)), lines);
}

fn which(calls: &Calls, lines: &mut Vec<String>) {
    let (first, last) = (time(calls.first), time(calls.last));
    let when = if first == last { first } else { format!("{first} to {last}") };
    let agents: Vec<&str> = calls.agents.iter().map(contract::AgentName::as_str).collect();
    labelled("when", &format!("{when}, by {}", agents.join(", ")), lines);
    if !calls.examples.is_empty() {
        let ids = calls.examples.iter().map(|id| id.as_str().chars().take(8).collect());
        labelled("calls", &listed(ids, calls.count), lines);
    }
}

fn listed(ids: impl Iterator<Item = String>, count: u64) -> String {
    let ids: Vec<String> = ids.map(|id| contract::show_hidden(&id)).collect();
    let more = if (ids.len() as u64) < count { " …" } else { "" };
    format!("{}{more}", ids.join(" "))
}

/// A label and what belongs to it, in lines that end between words where they can.
fn labelled(label: &str, text: &str, lines: &mut Vec<String>) {
    let text = talk::hanging(text, INDENT, Some(COLUMNS));
    let labelled = format!("  {label:<width$}{text}", width = INDENT - 2);
    lines.extend(labelled.lines().map(str::to_owned));
}
