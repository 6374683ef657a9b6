//! Where the text of a rule stands, so that what is wrong in it is pointed at in the file that a person has open.

use crate::config::at::Place;
use crate::config::problem::Problem;

/// A line and a column of a text, both from 1.
pub(super) type Spot = (usize, usize);

/// The text of one rule or of several.
pub(super) struct RuleText<'a> {
    pub(super) text: &'a str,
    /// Where the configuration has it, or names the file that it is in.
    pub(super) place: Place,
    pub(super) within: Within<'a>,
}

/// What a text is a part of.
pub(super) enum Within<'a> {
    /// The configuration, which reads like this.
    Configuration(&'a str),
    /// A file of its own, of this name.
    File(String),
}

impl RuleText<'_> {
    /// The same problem, said of a spot in the text.
    pub(super) fn placed(&self, (line, column): Spot, problem: Problem) -> Problem {
        let said = problem.message;
        let (place, message) = match &self.within {
            Within::File(name) => (self.place, format!("{name}:{line}:{column}: {said}")),
            Within::Configuration(source) => match place_in(source, self.text, self.place, (line, column)) {
                Some(place) => (place, said),
                None => (self.place, format!("line {line}, column {column} of the rule: {said}")),
            },
        };
        Problem { place, message, nearest: problem.nearest }
    }

    /// Where a line of it stands: the file's own name and line.
    pub(super) fn line_in(&self, configuration: &str, line: usize) -> String {
        match &self.within {
            Within::File(name) => format!("{name}:{line}"),
            Within::Configuration(source) => {
                let place = place_in(source, self.text, self.place, (line, 1)).unwrap_or(self.place);
                format!("{configuration}:{}", place.line)
            }
        }
    }
}

/// Where a spot of a text is in the file that has it, if its lines are lines of that file. In a text that is folded, or has
/// escapes in it, they are not.
fn place_in(source: &str, text: &str, place: Place, (line, column): Spot) -> Option<Place> {
    let first = usize::try_from(place.line).ok()?.checked_sub(1)?;
    // A block begins in the line after its `|`, whichever of the two the place names, or sooner if it begins with empty lines.
    let empty = text.lines().take_while(|line| line.trim().is_empty()).count();
    let starts = [Some(first), first.checked_sub(empty), Some(first + 1)];
    let (start, own, of_file) = starts.into_iter().flatten().find_map(|start| {
        let pairs: Vec<(&str, &str)> =
            text.lines().map(str::trim_end).zip(source.lines().skip(start)).take(line).collect();
        let (own, of_file) = *pairs.last().filter(|_| pairs.len() == line)?;
        pairs.iter().all(|(own, of_file)| of_file.contains(own)).then_some((start, own, of_file))
    })?;
    // In the line that has its key, too, the text begins no sooner than its place.
    let skipped =
        if start == first && line == 1 { usize::try_from(place.column).ok()?.checked_sub(1)? } else { 0 };
    let from = of_file.char_indices().nth(skipped).map_or(0, |(at, _)| at);
    let before = of_file.get(..from + of_file.get(from..)?.find(own)?)?.chars().count();
    Some(Place { line: (start + line).try_into().ok()?, column: (before + column).try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_of_a_block_or_of_a_plain_text_is_found_in_its_file_and_of_others_is_not() {
        let found = |source: &str, text: &str, at: (u64, u64), spot: Spot| {
            place_in(source, text, Place { line: at.0, column: at.1 }, spot)
                .map(|place| (place.line, place.column))
        };
        let block = "a:\n  cedar: |\n    forbid (\n      x);\n  b: 1\n";
        let text = "forbid (\n  x);\n";
        assert_eq!(found(block, text, (2, 10), (2, 3)), Some((4, 7)));
        assert_eq!(found(block, text, (3, 5), (2, 3)), Some((4, 7)));
        assert_eq!(found(block, text, (3, 5), (1, 1)), Some((3, 5)));
        assert_eq!(found("cedar: 'forbid x;'\n", "forbid x;", (1, 8), (1, 8)), Some((1, 16)));
        // Folded, and with escapes.
        assert_eq!(found("cedar: >\n  forbid\n  x;\n", "forbid x;\n", (2, 3), (1, 8)), None);
        assert_eq!(found("{\"cedar\":\"a \\\"b\\\"\"}", "a \"b\"", (1, 10), (1, 3)), None);
    }
}
