//! What does not belong into a command that no shell will ever read, and what its arguments name.

use contract::Reason;

use super::types::ShellInput;
use crate::path::shown;

/// What a shell would take for its own.
const SHELL_SIGNS: [&str; 10] = ["&&", "||", ";", "&", "|", "\n", "`", "$(", ">", "<"];

/// Arguments that are certainly meant for a shell.
const SHELL_WORDS: [&str; 12] = ["&&", "||", ";", "&", "|", "|&", ">", ">>", "<", "<<", "2>", "2>&1"];

const HINT: &str = "there is no shell: put each argument into `args`, and a pipeline into `stages`; make one call for each command";

/// Refuses shell syntax.
///
/// ATTACK(command-chaining): nothing here is ever given to a shell, so this guards no wall. It stops a call that would
/// not do what its author thinks.
pub(super) fn check(input: &ShellInput) -> Result<(), Reason> {
    let stages = input.stages.iter().map(|stage| (&stage.command, &stage.args));
    for (command, arguments) in [(&input.command, &input.args)].into_iter().chain(stages) {
        check_command(command)?;
        if let Some(word) = arguments.iter().find(|argument| SHELL_WORDS.contains(&argument.as_str())) {
            let why = format!("the argument `{}` is shell syntax", shown(word));
            return Err(Reason::shell_syntax(why).with_hint(HINT));
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(Reason::bad_arguments("an argument holds a NUL character"));
        }
    }
    Ok(())
}

fn check_command(command: &str) -> Result<(), Reason> {
    if command.is_empty() {
        return Err(Reason::bad_arguments("the command is empty"));
    }
    if command.contains('\0') {
        return Err(Reason::bad_arguments("the command holds a NUL character"));
    }
    let sign = SHELL_SIGNS.into_iter().find(|sign| command.contains(sign));
    if let Some(sign) = sign {
        let why = format!("the command `{}` holds `{}`", shown(command), sign.escape_debug());
        return Err(Reason::shell_syntax(why).with_hint(HINT));
    }
    if command.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let why = format!("the command `{}` holds spaces", shown(command));
        return Err(Reason::shell_syntax(why).with_hint(HINT));
    }
    // A program's own option, or something that only looks like a name.
    if command.starts_with('-') || !command.is_ascii() {
        return Err(Reason::bad_arguments(format!("`{}` is not the name of a command", shown(command))));
    }
    Ok(())
}

/// The hosts that words name by URL. Programs disagree about where an authority ends, so whatever one of them would
/// take for the host is one.
///
/// ATTACK(userinfo-host): what stands before the last `@` of the authority is not the host.
pub(crate) fn hosts<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut hosts: Vec<String> = words.into_iter().flat_map(|word| hosts_in(word)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

fn hosts_in(argument: &str) -> Vec<String> {
    let after = argument.split("://").skip(1);
    // As browsers read it, where a backslash is a slash, and as others do, to whom it and quotes are part of a name.
    let ends = ["/?#\\\"'<>`", "/?#"];
    after.flat_map(|rest| ends.into_iter().filter_map(move |ends| host_of(rest, ends))).collect()
}

/// The host of what follows `scheme://`.
fn host_of(rest: &str, ends: &str) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || ends.contains(c);
    // Some programs take any number of slashes.
    let authority = rest.trim_start_matches(['/', '\\']).split(ends).next()?;
    let place = authority.rsplit('@').next()?;
    let host = match place.strip_prefix('[') {
        Some(inside) => inside.split(']').next()?,
        None => place.split(':').next()?,
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(value: serde_json::Value) -> ShellInput {
        serde_json::from_value(value).unwrap()
    }

    fn code(value: serde_json::Value) -> Option<String> {
        check(&input(value)).err().map(|reason| reason.code.to_string())
    }

    #[test]
    fn shell_syntax_in_a_command_is_refused() {
        for command in [
            "ls -la", "ls&&id", "ls;id", "ls||id", "ls|wc", "ls&", "ls\nid", "`id`", "$(id)", "ls>x", "ls<x",
            "l\ts",
        ] {
            assert_eq!(code(json!({ "command": command })).as_deref(), Some("shell_syntax"), "{command:?}");
            let staged = json!({ "command": "ls", "stages": [{ "command": command }] });
            assert_eq!(code(staged).as_deref(), Some("shell_syntax"), "{command:?}");
        }
        for command in ["", "-rf", "l\0s", "ls\u{200b}", "ıs"] {
            assert_eq!(code(json!({ "command": command })).as_deref(), Some("bad_arguments"), "{command:?}");
        }
    }

    #[test]
    fn arguments_are_verbatim_unless_they_are_nothing_but_syntax() {
        for word in ["&&", "||", ";", "&", "|", ">", ">>", "<"] {
            let chained = json!({ "command": "ls", "args": ["a", word, "id"] });
            assert_eq!(code(chained).as_deref(), Some("shell_syntax"), "{word}");
        }
        assert_eq!(code(json!({ "command": "grep", "args": ["a && b; $(c) | `d`", "x > y"] })), None);
    }

    #[test]
    fn hosts_are_found_whatever_is_written_around_them() {
        let hosts = |arguments: serde_json::Value| {
            hosts(&input(json!({ "command": "curl", "args": arguments })).args)
        };
        assert_eq!(hosts(json!(["http://169.254.169.254/latest"])), ["169.254.169.254"]);
        assert_eq!(hosts(json!(["https://good.example@evil.example:8443/?x=y@z"])), ["evil.example"]);
        assert_eq!(
            hosts(json!(["--url=HTTP://[::1]:80/", "git+ssh://git@Host.example."])),
            ["::1", "host.example"]
        );
        for quote in ["\\", "\"", "'", "<", "`"] {
            let url = format!("http://a.example{quote}@b.example/");
            assert_eq!(hosts(json!([url, "x"])), ["a.example", "b.example"], "{quote}");
        }
        assert_eq!(hosts(json!(["http:///a.example/"])), ["a.example"]);
        assert_eq!(hosts(json!(["see http://a.example, and ask me@b.example"])), ["a.example,"]);
        assert_eq!(hosts(json!(["ftp://a.example,http://b.example"])), ["a.example,http", "b.example"]);
        assert_eq!(hosts(json!(["no-url", "://"])), Vec::<String>::new());
    }
}
