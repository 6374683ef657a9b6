//! Words as search compares them: lower case, without their endings, and with those that mean nearly the same.

/// Words that say nothing about which tool is meant.
const EMPTY: &[&str] = &[
    "a",
    "about",
    "again",
    "all",
    "am",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "back",
    "be",
    "been",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "exist",
    "for",
    "from",
    "give",
    "had",
    "has",
    "have",
    "here",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "just",
    "let",
    "like",
    "may",
    "me",
    "my",
    "need",
    "no",
    "not",
    "of",
    "on",
    "or",
    "our",
    "out",
    "please",
    "shall",
    "should",
    "so",
    "some",
    "something",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "to",
    "tool",
    "us",
    "use",
    "used",
    "using",
    "very",
    "want",
    "was",
    "we",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whose",
    "will",
    "with",
    "would",
    "you",
    "your",
];

/// Words of one line mean nearly the same to somebody who looks for a tool.
const ALIKE: &[&[&str]] = &[
    &["delete", "remove", "erase", "forget", "discard", "rm", "unlink"],
    &["folder", "directory", "dir", "mkdir"],
    &["create", "make", "new", "start"],
    &["move", "rename", "mv"],
    &["find", "search", "look", "locate", "grep", "occur", "query"],
    &["show", "display", "view", "print", "see"],
    &["read", "open", "cat", "content", "see"],
    &["write", "save", "store", "overwrite"],
    &["edit", "change", "modify", "replace", "update", "substitute"],
    &["append", "end"],
    &["run", "execute", "launch", "command", "program", "test", "build", "compile"],
    &["command", "shell", "terminal", "bash", "line"],
    &["picture", "image", "photo", "media", "logo"],
    &["compress", "zip", "gzip", "archive"],
    &["download", "fetch", "clone", "retrieve", "get"],
    &["upload", "send", "push", "publish", "post"],
    &["url", "web", "page", "website", "internet", "http", "site", "link"],
    &["api", "rest", "http", "request", "service", "endpoint"],
    &["repo", "repository", "project"],
    &["remember", "memory", "knowledge", "note"],
    &["node", "entity", "person", "thing"],
    &["relation", "relationship", "connection", "link", "connect"],
    &["fact", "observation", "note", "know"],
    &["env", "environment", "variable"],
    &["size", "big", "large", "length"],
    &["time", "clock", "hour", "timezone", "pm", "am"],
    &["history", "log", "recent"],
    &["compare", "diff", "difference", "change"],
    &["status", "stat", "info", "metadata", "modify", "clean", "state"],
    &["structure", "tree", "hierarchy", "recursive"],
    &["several", "multiple", "many", "batch", "once"],
    &["repeat", "echo", "say"],
    &["sum", "add", "plus", "total"],
    &["question", "elicitation", "ask", "form"],
    &["model", "llm", "sampling", "completion", "sample"],
    &["switch", "checkout"],
    &["undo", "reset", "revert", "unstage"],
    &["stage", "add", "index"],
    &["pattern", "glob", "match", "regex"],
    &["pull", "pr", "merge", "review"],
    &["allow", "access", "permission"],
    &["whole", "entire", "complete", "full"],
    &["off", "toggle", "on", "disable", "enable"],
];

/// The words of a text, each without its ending. `readFile`, `read_file` and `read-file` are two words.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for letter in text.chars() {
        let humps = before.is_ascii_lowercase() && letter.is_ascii_uppercase();
        if (!letter.is_alphanumeric() || humps) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.push(word);
    words.retain(|word| !word.is_empty() && !EMPTY.contains(&word.as_str()));
    words.iter().map(|word| stem(word)).collect()
}

/// Words that mean nearly the same, in the form that [`words`] gives.
pub(super) fn alike(word: &str) -> Vec<String> {
    let groups = ALIKE.iter().map(|group| group.iter().map(|word| stem(word)).collect::<Vec<_>>());
    let mut alike: Vec<String> =
        groups.filter(|group| group.iter().any(|member| member == word)).flatten().collect();
    alike.retain(|member| member != word);
    alike.sort();
    alike.dedup();
    alike
}

/// A word without what only its grammar has added: `creates`, `creating`, `created` and `creation` are one.
fn stem(word: &str) -> String {
    let mut stem = word.to_owned();
    let ends = |stem: &str, ending: &str| stem.len() >= ending.len() + 3 && stem.ends_with(ending);
    let cut = |stem: &mut String, length: usize| stem.truncate(stem.len().saturating_sub(length));
    if ends(&stem, "ies") {
        cut(&mut stem, 3);
        stem.push('y');
    } else if ends(&stem, "sses") {
        cut(&mut stem, 2);
    } else if stem.len() > 3
        && stem.ends_with('s')
        && !["ss", "us", "is"].iter().any(|keep| stem.ends_with(keep))
    {
        cut(&mut stem, 1);
    }
    if ends(&stem, "ship") {
        cut(&mut stem, 4);
    }
    for ending in ["ing", "ed"] {
        if ends(&stem, ending) {
            cut(&mut stem, ending.len());
            let mut letters = stem.chars().rev();
            let (last, one_before) = (letters.next(), letters.next());
            // `staging` and `stopped`, but `passed` and `calling`.
            if last == one_before && !matches!(last, Some('s' | 'l' | 'e')) {
                cut(&mut stem, 1);
            }
            break;
        }
    }
    if ends(&stem, "sion") || ends(&stem, "tion") {
        cut(&mut stem, 3);
    }
    if stem.len() > 3 && stem.ends_with('e') {
        cut(&mut stem, 1);
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_one_word() {
        for (first, others) in [
            ("create", vec!["creates", "creating", "created", "creation"]),
            ("compress", vec!["compresses", "compressing", "compressed", "compression"]),
            ("directory", vec!["directories"]),
            ("relation", vec!["relations", "relationship", "relationships"]),
            ("stop", vec!["stops", "stopped", "stopping"]),
            ("status", vec!["status"]),
        ] {
            for other in others {
                assert_eq!(stem(other), stem(first), "{other}");
            }
        }
        assert_ne!(stem("stage"), stem("state"));
        assert_ne!(stem("list"), stem("link"));
    }

    #[test]
    fn names_are_read_word_by_word() {
        assert_eq!(
            words("read_file readFile read-file fs.read"),
            ["read", "fil", "read", "fil", "read", "fil", "fs", "read"]
        );
        assert_eq!(words("What is in the Ünit?"), ["ünit"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn words_that_mean_nearly_the_same_are_found_in_either_direction() {
        assert!(alike("delet").contains(&"remov".to_owned()));
        assert!(alike("remov").contains(&"delet".to_owned()));
        assert_eq!(alike("zebra"), Vec::<String>::new());
    }
}
