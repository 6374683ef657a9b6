//! What somebody may have meant.

/// The candidate nearest to a text, if one is near enough to be worth suggesting.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
}
