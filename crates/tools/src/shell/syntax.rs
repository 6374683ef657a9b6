//! What does not belong into a command that no shell will ever read, and what its arguments name.

use std::net::{IpAddr, Ipv6Addr};

use contract::{Host, HostError, Reason, Target};

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

/// The places that words name by URL. Programs disagree about where an authority ends, so whatever one of them would
/// take for the host is one. What nobody could reach is none.
///
/// ATTACK(userinfo-host): what stands before the last `@` of the authority is not the host.
pub(crate) fn hosts<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<Target> {
    let mut hosts: Vec<Target> = words.into_iter().flat_map(|word| hosts_in(word)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

fn hosts_in(argument: &str) -> Vec<Target> {
    // As browsers read it, where a backslash is a slash, and as others do, to whom it and quotes are part of a name.
    let ends = ["/?#\\\"'<>`", "/?#"];
    let parts: Vec<&str> = argument.split("://").take(MOST_HOSTS).collect();
    let around = parts.windows(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
    around
        .flat_map(|(before, rest)| ends.into_iter().filter_map(move |ends| target_of(before, rest, ends)))
        .collect()
}

/// No command names more.
const MOST_HOSTS: usize = 1000;

/// The place that what follows `scheme://` names.
fn target_of(before: &str, rest: &str, ends: &str) -> Option<Target> {
    let ends = |c: char| c.is_whitespace() || ends.contains(c);
    // Some programs take any number of slashes.
    let authority = rest.trim_start_matches(['/', '\\']).split(ends).next()?;
    let place = authority.rsplit('@').next()?;
    let (host, port) = match place.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        // A zone says through which interface an address is reached, and is no part of it.
        Some((inside, after)) => {
            let address: Ipv6Addr = inside.split('%').next()?.parse().ok()?;
            (Host::from(IpAddr::V6(address)), after.strip_prefix(':'))
        }
        None => {
            let (host, port) = place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)));
            (host_of(host)?, port)
        }
    };
    let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| port_of(before));
    Some(Target { host, port })
}

/// A host as a program would take it that is not as strict as we are.
///
/// ATTACK(host-spelling): whatever one of them would take for an address is one.
fn host_of(text: &str) -> Option<Host> {
    match Host::parse(text.trim_end_matches('.')) {
        Ok(host) => Some(host),
        Err(HostError::OddAddress { address, .. }) => Some(Host::from(IpAddr::V4(address))),
        Err(_) => None,
    }
}

/// The port that the scheme means at the end of this text.
fn port_of(before: &str) -> u16 {
    let letters = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    match letters.to_ascii_lowercase().as_str() {
        "http" | "ws" => 80,
        "ssh" | "sftp" | "scp" => 22,
        "ftp" => 21,
        "git" => 9418,
        _ => 443,
    }
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
        let hosts = |arguments: serde_json::Value| -> Vec<String> {
            let words = input(json!({ "command": "curl", "args": arguments })).args;
            hosts(&words).iter().map(Target::to_string).collect()
        };
        assert_eq!(hosts(json!(["http://169.254.169.254/latest"])), ["169.254.169.254:80"]);
        assert_eq!(hosts(json!(["https://good.example@evil.example:8443/?x=y@z"])), ["evil.example:8443"]);
        assert_eq!(
            hosts(json!(["--url=HTTP://[::1]:80/", "git+ssh://git@Host.example."])),
            ["host.example:22", "[::1]:80"]
        );
        for quote in ["\\", "\"", "'", "<", "`"] {
            let url = format!("http://a.example{quote}@b.example/");
            assert_eq!(hosts(json!([url, "x"])), ["a.example:80", "b.example:80"], "{quote}");
        }
        assert_eq!(hosts(json!(["http:///a.example/"])), ["a.example:80"]);
        assert_eq!(hosts(json!(["ftp://a.example http://b.example"])), ["a.example:21", "b.example:80"]);
        for unreachable in ["no-url", "://", "http://a.example, and ask me@b.example", "https://[a-z]+/"] {
            assert_eq!(hosts(json!([unreachable])), Vec::<String>::new(), "{unreachable}");
        }
    }

    #[test]
    fn an_address_is_found_in_every_spelling_that_some_program_takes() {
        for spelling in
            ["0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518.", "[::ffff:a9fe:a9fe]"]
        {
            let found = hosts(&[format!("http://{spelling}/")]);
            assert_eq!(found, [Target::parse("169.254.169.254:80").unwrap()], "{spelling}");
        }
        assert_eq!(
            hosts(&["https://[fe80::1%25eth0]/".to_owned()]),
            [Target::parse("[fe80::1]:443").unwrap()]
        );
    }
}
