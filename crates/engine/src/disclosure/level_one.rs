//! Level 1: all tools of an agent in as many tokens as they may cost.
//!
//! Pure. Where whole lines do not fit, all are cut to the same length; where none fits, names alone are given; where not even
//! these fit, as many of each group. What was left out is said, and how to find it.

use std::collections::BTreeMap;

/// The longest line of a tool, in characters.
pub(super) const LONGEST_LINE: usize = 160;

/// A tool at level 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    /// What it does, in one line.
    pub(super) line: String,
    pub(super) category: &'static str,
    pub(super) cost: &'static str,
}

impl Line {
    /// As it stands under its category, with no more than so many characters of what it does.
    fn shown(&self, most: usize) -> String {
        let cost = if self.cost == "free" { String::new() } else { format!(" [{}]", self.cost) };
        match cut(&self.line, most) {
            line if line.is_empty() => format!("{}{cost}", self.name),
            line => format!("{}{cost}: {line}", self.name),
        }
    }

    /// By itself.
    pub(super) fn whole(&self) -> String {
        format!("{} [{}, {}]: {}", self.name, self.category, self.cost, self.line)
    }
}

/// All tools, in at most so many tokens, as `count` counts them.
pub(super) fn level_one(tools: &[Line], budget: usize, count: impl Fn(&str) -> usize) -> String {
    let fits = |text: &String| count(text) <= budget;
    let whole = with_lines(tools, LONGEST_LINE);
    if fits(&whole) {
        return whole;
    }
    // A line of fewer characters says nothing.
    let lines = |most: usize| with_lines(tools, most);
    if let Some(text) = largest(12, LONGEST_LINE, lines, fits) {
        return text;
    }
    let groups = groups(tools);
    let most = groups.values().map(Vec::len).max().unwrap_or_default();
    let names = |each: usize| with_names(tools.len(), &groups, each);
    if let Some(text) = largest(0, most, names, fits) {
        return text;
    }
    let bare = format!("There are {} tools, too many to name here. `search_tools` finds them.", tools.len());
    if fits(&bare) { bare } else { String::new() }
}

/// The text for the largest number that fits, if that for the least does.
fn largest(
    least: usize,
    most: usize,
    text: impl Fn(usize) -> String,
    fits: impl Fn(&String) -> bool,
) -> Option<String> {
    let mut best = Some(text(least)).filter(&fits)?;
    let (mut fit, mut beyond) = (least, most.saturating_add(1));
    while beyond.saturating_sub(fit) > 1 {
        let middle = fit.midpoint(beyond);
        let candidate = text(middle);
        if fits(&candidate) {
            (fit, best) = (middle, candidate);
        } else {
            beyond = middle;
        }
    }
    Some(best)
}

fn with_lines(tools: &[Line], most: usize) -> String {
    let mut categories: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for tool in tools {
        categories.entry(tool.category).or_default().push(tool);
    }
    let cut = tools.iter().any(|tool| tool.line.chars().count() > most);
    let shortened = if cut { " Lines are cut to fit; `load_tool` has the rest." } else { "" };
    let mut text = format!(
        "The {} tools, by category; those with no cost beside them are free.{shortened}",
        tools.len()
    );
    for (category, tools) in categories {
        text.push_str(&format!("\n{category}:"));
        for tool in tools {
            text.push_str(&format!("\n- {}", tool.shown(most)));
        }
    }
    text
}

/// Names of one group, without the beginning that they share.
type Groups<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Tools by what their names begin with: `fs.`, `mcp_files_`.
fn groups(tools: &[Line]) -> Groups<'_> {
    let mut groups = Groups::new();
    for tool in tools {
        let (group, rest) = tool.name.split_at(beginning(&tool.name));
        groups.entry(group).or_default().push(rest);
    }
    groups
}

/// Where the part of a name ends that says whose it is.
fn beginning(name: &str) -> usize {
    let server = name.strip_prefix("mcp_").and_then(|rest| rest.find('_').map(|at| "mcp_".len() + at));
    server.or_else(|| name.find('.')).map_or(0, |at| at + 1)
}

fn with_names(total: usize, groups: &Groups<'_>, each: usize) -> String {
    let named: usize = groups.values().map(|names| names.len().min(each)).sum();
    let of = if named == total { String::new() } else { format!("{named} of ") };
    let mut text = format!(
        "The names of {of}{total} tools, by what they begin with: `fs.` and `read` is `fs.read`. There is no room for what they do: `search_tools` finds every tool."
    );
    for (group, names) in groups {
        let more = if names.len() > each { format!(" (of {})", names.len()) } else { String::new() };
        let shown: Vec<&str> = names.iter().take(each).copied().collect();
        text.push_str(&format!("\n{group}{more} {}", shown.join(" ")));
    }
    text
}

/// The beginning of a text, at the end of a word if there is one.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most).collect();
    if let Some(at) = cut.rfind(' ').filter(|at| *at > 0) {
        cut.truncate(at);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disclosure::tokens::count;

    fn tools(count: usize) -> Vec<Line> {
        let line = |n: usize| Line {
            name: format!("mcp_server{}_do_thing_{n}", n % 20),
            line: format!(
                "Does thing number {n} to whatever it is pointed at, and says how that went, at length"
            ),
            category: if n.is_multiple_of(2) { "mcp" } else { "web" },
            cost: if n.is_multiple_of(3) { "low" } else { "free" },
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn what_fits_is_whole() {
        let text = level_one(&tools(3), 3000, count);
        assert_eq!(
            text,
            "The 3 tools, by category; those with no cost beside them are free.
mcp:
- mcp_server0_do_thing_0 [low]: Does thing number 0 to whatever it is pointed at, and says how that went, at length
- mcp_server2_do_thing_2: Does thing number 2 to whatever it is pointed at, and says how that went, at length
web:
- mcp_server1_do_thing_1: Does thing number 1 to whatever it is pointed at, and says how that went, at length"
        );
    }

    #[test]
    fn no_budget_is_exceeded_and_whatever_is_left_out_is_said() {
        for number in [10, 100, 500, 2000] {
            for budget in [0, 20, 100, 500, 1500, 3000, 6000, 20000, 90000] {
                let text = level_one(&tools(number), budget, count);
                assert!(count(&text) <= budget, "{number} tools in {budget}");
                let is_whole = tools(number).iter().all(|tool| text.contains(&tool.line));
                let says_so = text.contains("cut to fit") || text.contains("search_tools");
                assert!(is_whole || says_so || text.is_empty(), "{number} tools in {budget}: {text}");
            }
        }
    }

    #[test]
    fn lines_are_cut_alike_and_no_tool_is_dropped() {
        let text = level_one(&tools(100), 2500, count);
        assert!(text.contains("cut to fit"));
        assert!(tools(100).iter().all(|tool| text.contains(&tool.name)));
        let lengths: Vec<usize> =
            text.lines().filter_map(|line| Some(line.split_once(": ")?.1.chars().count())).collect();
        let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
        assert_eq!(lengths.len(), 100);
        assert!(most - least <= 12, "{least} to {most}");
    }

    #[test]
    fn every_group_gets_its_share_of_names() {
        let text = level_one(&tools(500), 1200, count);
        let shares: Vec<usize> = text.lines().skip(1).map(|line| line.matches("do_thing").count()).collect();
        assert_eq!(shares.len(), 20);
        assert!(
            shares.iter().all(|share| share == shares.first().unwrap()) && shares.first() > Some(&0),
            "{shares:?}"
        );
        assert!(text.contains("of 500 tools") && text.contains("search_tools"), "{text}");
    }
}
