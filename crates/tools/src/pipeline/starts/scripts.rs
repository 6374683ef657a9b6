//! Programs whose words are a language of their own: awk, sed and git. Whatever is not surely harmless starts something.

use super::words::{is_input, is_option};

/// What git does that starts no program by its words.
const GIT_VERBS: [&str; 72] = [
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "stash",
    "status",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "version",
    "worktree",
    "write-tree",
];

/// Options before the verb that say nothing about programs, and those of them that have a value.
const GIT_FLAGS: [&str; 14] = [
    "-P",
    "--no-pager",
    "--bare",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--no-optional-locks",
    "--no-advice",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
    "--version",
    "--help",
    "-v",
];
const GIT_VALUED: [&str; 4] = ["-C", "--git-dir", "--work-tree", "--namespace"];

/// Options of verbs that name a program.
const GIT_TOLD: [&str; 6] =
    ["--exec", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--extcmd", "--config"];
const GIT_LETTERS: [(&str, &str); 5] =
    [("clone", "-c"), ("clone", "-u"), ("grep", "-O"), ("rebase", "-x"), ("rebase", "-i")];

/// Whether git may start a program that its words name.
pub(super) fn git_starts(words: &[&str]) -> bool {
    let mut rest = words.iter();
    let verb = loop {
        let Some(word) = rest.next() else { return false };
        let is_valued = |valued: &&str| word.strip_prefix(*valued).is_some_and(|rest| rest.starts_with('='));
        if GIT_VALUED.contains(word) {
            rest.next();
        } else if !GIT_FLAGS.contains(word) && !GIT_VALUED.iter().any(is_valued) {
            break *word;
        }
    };
    if !GIT_VERBS.contains(&verb) {
        return true;
    }
    let letters = GIT_LETTERS.iter().filter(|(of, _)| *of == verb).map(|(_, letter)| letter);
    let options: Vec<&str> = letters.chain(&GIT_TOLD).copied().collect();
    rest.any(|word| word.contains("::") || options.iter().any(|option| is_option(word, option)))
}

/// Whether code of awk's may start a program: by `system`, by a pipe, or by a function whose name it computes.
pub(super) fn awk_starts(words: &[&str]) -> bool {
    let reads = ["-f", "-E", "-i", "--file", "--exec", "--include"];
    let is_read = words.iter().any(|word| reads.iter().any(|option| is_option(word, option)));
    let is_input =
        |word: &str| word.ends_with('-') || word.split('/').any(|name| matches!(name, "dev" | "proc"));
    words.iter().any(|word| {
        let code = word.replace("||", " ");
        code.contains("system") || code.contains(['|', '@']) || (is_read && is_input(word))
    })
}

/// Whether a script of sed's may start a program: whatever is not read to its end here may.
pub(super) fn sed_starts(words: &[&str]) -> bool {
    const FLAGS: [&str; 13] = [
        "--quiet",
        "--silent",
        "--debug",
        "--follow-symlinks",
        "--in-place",
        "--null-data",
        "--zero-terminated",
        "--posix",
        "--regexp-extended",
        "--separate",
        "--sandbox",
        "--unbuffered",
        "--version",
    ];
    let (mut first, mut is_given, mut rest) = (None, false, words.iter());
    while let Some(word) = rest.next() {
        let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else {
            first = first.or(Some(*word));
            continue;
        };
        if let Some(long) = option.strip_prefix('-') {
            let name = long.split('=').next().unwrap_or(long);
            match name {
                "" => {}
                "expression" => {
                    let script =
                        long.split_once('=').map(|(_, script)| script).or_else(|| rest.next().copied());
                    is_given = true;
                    if !script.is_some_and(is_harmless_sed) {
                        return true;
                    }
                }
                _ if FLAGS.iter().any(|flag| flag.strip_prefix("--") == Some(name)) => {}
                _ => return true,
            }
            continue;
        }
        for (at, letter) in option.char_indices() {
            let value = option.get(at + 1..).filter(|value| !value.is_empty());
            match letter {
                'n' | 'E' | 'r' | 's' | 'u' | 'z' => continue,
                'i' => {}
                'l' if value.is_none() => drop(rest.next()),
                'l' => {}
                'e' => {
                    is_given = true;
                    if !value.or_else(|| rest.next().copied()).is_some_and(is_harmless_sed) {
                        return true;
                    }
                }
                'f' => {
                    is_given = true;
                    if value.or_else(|| rest.next().copied()).is_none_or(is_input) {
                        return true;
                    }
                }
                _ => return true,
            }
            break;
        }
    }
    !is_given && first.is_some_and(|script| !is_harmless_sed(script))
}

/// Whether a script is nothing but addresses and commands that look, delete and replace.
fn is_harmless_sed(script: &str) -> bool {
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // Between commands, and in addresses.
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '$' | '+' | '~' | '0'..='9' => {}
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'q' | 'Q' | 'x' | '=' => {}
            '/' => {
                if !skip_to('/', &mut rest) {
                    return false;
                }
                while rest.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
            }
            's' | 'y' => {
                let Some(mark) =
                    rest.next().filter(|mark| !mark.is_alphanumeric() && !"\\\n".contains(*mark))
                else {
                    return false;
                };
                if !skip_to(mark, &mut rest) || !skip_to(mark, &mut rest) {
                    return false;
                }
                while rest.next_if(|c| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9')).is_some() {
                }
                // Another flag may be `e`.
                if rest.peek().is_some_and(|c| !matches!(c, ' ' | '\n' | ';' | '}')) {
                    return false;
                }
            }
            // Text up to the end of a line that does not go on.
            'a' | 'i' | 'c' => {
                let line: String = rest.by_ref().take_while(|c| *c != '\n').collect();
                if line.contains('\\') {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

/// Goes on behind the next such mark. A line that ends before it, or a list within which it may mean itself, is none of the
/// plain ones.
fn skip_to(mark: char, rest: &mut impl Iterator<Item = char>) -> bool {
    let mut is_in_a_list = false;
    while let Some(c) = rest.next() {
        match c {
            _ if c == mark => return !is_in_a_list,
            '\n' => return false,
            '\\' => drop(rest.next()),
            '[' => is_in_a_list = true,
            ']' => is_in_a_list = false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_starts_what_its_options_name_and_its_plain_verbs_start_nothing() {
        for words in [
            &["-c", "alias.x=!rm v", "x"][..],
            &["--config-env=alias.x=A", "x"],
            &["--config-env", "alias.x=A", "x"],
            &["--exec-path=/w", "status"],
            &["-C", "a log", "-c", "alias.log=!rm", "log"],
            &["--attr-source", "log", "-c", "alias.x=!rm", "x"],
            &["bisect", "run", "rm"],
            &["submodule", "foreach", "rm"],
            &["grep", "-Orm", "x"],
            &["grep", "--open-files=rm", "x"],
            &["rebase", "-x", "rm", "HEAD~1"],
            &["rebase", "--exe=rm", "HEAD~1"],
            &["clone", "-u", "rm", "x"],
            &["fetch", "--upload=rm", "."],
            &["fetch", "ext::rm v"],
            &["x"],
        ] {
            assert!(git_starts(words), "{words:?}");
        }
        for words in [
            &[][..],
            &["log", "--oneline", "-n", "20"],
            &["--no-pager", "-C", "sub dir", "diff", "-c"],
            &["commit", "-m", "say -c and --exec-path to nobody"],
            &["clean", "-fdx"],
            &["push", "-u", "origin", "main"],
            &["grep", "-n", "system"],
        ] {
            assert!(!git_starts(words), "{words:?}");
        }
    }

    #[test]
    fn awk_starts_something_by_a_call_or_a_pipe() {
        for words in [
            &["BEGIN { system(\"rm v\") }"][..],
            &["BEGIN { \"rm v\" | getline }"],
            &["BEGIN { print | \"sh\" }"],
            &["BEGIN { f = \"sys\" \"tem\"; @f(\"rm\") }"],
            &["-f", "-"],
            &["-f/dev/stdin"],
            &["--file=-"],
        ] {
            assert!(awk_starts(words), "{words:?}");
        }
        for words in
            [&["{ print $1 }", "x"][..], &["-F:", "$3 > 5 || $1 == \"a\"", "-"], &["-f", "x.awk", "y"]]
        {
            assert!(!awk_starts(words), "{words:?}");
        }
    }

    #[test]
    fn sed_starts_something_unless_its_script_is_plain() {
        for words in [
            &["1e rm v"][..],
            &["s/x/rm v/e"],
            &["s,x,rm v,ge"],
            &["-n", "-e", "p", "-e", "e"],
            &["-nee"],
            &["--expr=e"],
            &["--expression=1e", "x"],
            &["--expression", "1e", "x"],
            &["-f", "/dev/stdin"],
            &["s/a/b/w x"],
            &["s/a\\/b/e"],
            &["a\\\nx\ne"],
            &["$!{e\n}"],
            &["/x/e rm"],
            &["-l", "5", "e"],
            &["-i", "e", "x"],
        ] {
            assert!(sed_starts(words), "{words:?}");
        }
        for words in [
            &["-n", "1,20p", "src/main.rs"][..],
            &["s/hello/there/g", "x"],
            &["-i.bak", "-E", "s|a/b|c|;/^#/d", "x"],
            &["-ne", "/begin/,/end/p", "e"],
            &["s/a\\/b/c/2p"],
            &["$a one more line", "x"],
            &["-f", "x.sed", "y"],
            &["--quiet", "--expression=p", "e"],
        ] {
            assert!(!sed_starts(words), "{words:?}");
        }
    }
}
