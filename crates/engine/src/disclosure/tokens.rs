//! How many tokens a text is, by a tokenizer whose vocabulary is in the binary.
//!
//! It is `cl100k_base`. Models have vocabularies of their own, and not all are published; counts differ by some per cent, so
//! budgets are kept exactly in these tokens and nearly in those of the model.

use std::sync::LazyLock;

use tiktoken::{CoreBpe, encoding};

/// Unpacked when it is asked for the first time: it takes about 12 MB, which a gate with few tools never needs.
static TOKENIZER: LazyLock<CoreBpe> = LazyLock::new(encoding::cl100k_base);

/// The longest text that is counted, in bytes: a schema that goes on for megabytes would keep the gate busy for seconds.
const LONGEST: usize = 256 * 1024;

/// How many tokens a text is. What is longer than anything that could be loaded counts as its bytes, which are more.
pub fn count(text: &str) -> usize {
    if text.len() > LONGEST { text.len() } else { TOKENIZER.count(text) }
}

/// About as many, without counting: for what has been sent, of which nobody needs to know exactly.
pub(super) fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_vocabulary() {
        // As the vocabulary's own authors count them.
        for (text, tokens) in
            [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("お誕生日おめでとう", 9)]
        {
            assert_eq!(count(text), tokens, "{text}");
        }
        assert_eq!(count(&"a".repeat(LONGEST + 1)), LONGEST + 1);
    }
}
