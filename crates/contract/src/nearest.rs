//! What somebody may have meant.

/// The longest text that is compared, in bytes: no name is longer.
const LONGEST: usize = 128;

/// The candidate nearest to a text, if one is near enough to be worth suggesting.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // ATTACK(endless-name): what a comparison costs grows with both texts, and one of them is a stranger's.
    if text.len() > LONGEST {
        return None;
    }
    let distance = |candidate: &str| strsim::damerau_levenshtein(text, candidate);
    let near = |candidate: &&str| distance(candidate) <= (text.chars().count() / 3).max(1);
    candidates.into_iter().filter(near).min_by_key(|candidate| distance(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let names = ["fs.read", "fs.write", "shell"];
        assert_eq!(nearest("fs.raed", names), Some("fs.read"));
        assert_eq!(nearest("payments.refund", names), None);
    }

    #[test]
    fn what_is_longer_than_any_name_is_near_to_nothing() {
        let long = "x".repeat(LONGEST);
        assert_eq!(nearest(&long, [long.as_str()]), Some(long.as_str()));
        let longer = "x".repeat(LONGEST + 1);
        assert_eq!(nearest(&longer, [longer.as_str()]), None);
    }
}
