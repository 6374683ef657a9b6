//! Addresses of repositories elsewhere: over https or ssh, and nothing that git would take for something else.
//!
//! # Invariants
//! - What is read is written anew, so that git reads what we have read.
//! - No address holds a password, starts a program, or is a file.

use std::fmt;

use contract::{Reason, Target};

use crate::http::{read_host, read_place};
use crate::inside::Transport;
use crate::path::{shown, shown_address};
use crate::reach::Login;

const MAX_ADDRESS: usize = 2048;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remote {
    form: Form,
    user: Option<String>,
    target: Target,
    path: String,
}

/// How it is reached, and how its address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `https://host/path`
    Https,
    /// `ssh://user@host/path`
    Ssh,
    /// `user@host:path`
    Scp,
}

impl Remote {
    pub(super) fn parse(text: &str) -> Result<Remote, Reason> {
        let refuse = |why: &str| {
            let reason = Reason::bad_arguments(format!("`{}` {why}", shown_address(text)));
            reason.with_hint(
                "such as `https://example.com/team/project.git` or `git@example.com:team/project.git`",
            )
        };
        if text.is_empty() || text.len() > MAX_ADDRESS {
            return Err(Reason::bad_arguments("an address is empty, or longer than 2048 characters"));
        }
        if text.starts_with('-') {
            return Err(refuse("begins with `-`, and would be taken for an option"));
        }
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(refuse(&format!("holds `{}`, which no address does", odd.escape_unicode())));
        }
        // ATTACK(git-transport): `ext::sh -c …` is a program, `helper::https://…` another.
        let helper = text
            .split_once("::")
            .filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)));
        if let Some((name, _)) = helper {
            return Err(refuse(&format!("names the program `git-remote-{}` to be run", shown(name))));
        }
        match text.split_once("://") {
            Some(("https", rest)) => Remote::of_url(Form::Https, rest, 443, refuse),
            Some(("ssh", rest)) => Remote::of_url(Form::Ssh, rest, 22, refuse),
            Some(("http", _)) => {
                Err(refuse("is plain http, where anybody on the way can change what is fetched"))
            }
            Some(("file", _)) => Err(refuse("is a file, and no repository elsewhere")),
            Some((scheme, _)) => Err(refuse(&format!("is neither https nor ssh, but `{}`", shown(scheme)))),
            None => Remote::of_scp(text, refuse),
        }
    }

    fn of_url(form: Form, rest: &str, usual: u16, refuse: impl Fn(&str) -> Reason) -> Result<Remote, Reason> {
        let (authority, path) = rest.split_once('/').ok_or_else(|| refuse("has no path"))?;
        // ATTACK(userinfo-host): only what follows the one `@` is the host.
        let (user, place) = match authority.split_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        if user.is_some_and(|user| user.contains(':')) || (form == Form::Https && user.is_some()) {
            return Err(refuse("holds a user or a password")
                .with_hint("leave it out: the gate adds credentials where it is told to"));
        }
        let user = user
            .map(|user| check_user(user).ok_or_else(|| refuse("has a user of an odd name")))
            .transpose()?;
        let target = read_place(place, usual).map_err(|why| refuse(&why))?;
        let path = check_path(path).ok_or_else(|| refuse("has a path that is not plain"))?;
        Ok(Remote { form, user, target, path })
    }

    fn of_scp(text: &str, refuse: impl Fn(&str) -> Reason) -> Result<Remote, Reason> {
        let local = || refuse("is a file or a bundle of this machine, and no repository elsewhere");
        let (place, path) =
            text.split_once(':').filter(|(place, _)| !place.contains('/')).ok_or_else(local)?;
        let (user, host) = place.split_once('@').ok_or_else(local)?;
        let user = check_user(user).ok_or_else(|| refuse("has a user of an odd name"))?;
        let target = Target { host: read_host(host).map_err(|why| refuse(&why))?, port: 22 };
        if target.host.name().is_none() {
            return Err(refuse("names an address; write it as `ssh://`"));
        }
        let path = check_path(path).ok_or_else(|| refuse("has a path that is not plain"))?;
        Ok(Remote { form: Form::Scp, user: Some(user), target, path })
    }

    /// The place that it is at.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn transport(&self) -> Transport {
        match self.form {
            Form::Https => Transport::Https,
            Form::Ssh | Form::Scp => Transport::Ssh,
        }
    }

    /// Whom git logs in to, where it is reached by ssh.
    pub(super) fn login(&self) -> Option<Login> {
        match self.form {
            Form::Https => None,
            Form::Ssh | Form::Scp => Some(Login { target: self.target.clone(), user: self.user.clone() }),
        }
    }

    /// Where it is at that place.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What a directory for it would be called.
    pub(super) fn name(&self) -> Option<String> {
        let last = self.path.trim_end_matches('/').rsplit('/').next()?;
        let name = last.strip_suffix(".git").unwrap_or(last);
        let is_plain = !name.is_empty() && !name.starts_with(['.', '-', '~']) && !name.contains(['%', ':']);
        is_plain.then(|| name.to_owned())
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let Remote { target, path, .. } = self;
        match self.form {
            Form::Https => write!(formatter, "https://{target}/{path}"),
            Form::Ssh => write!(formatter, "ssh://{user}{target}/{path}"),
            Form::Scp => write!(formatter, "{user}{}:{path}", target.host),
        }
    }
}

fn check_user(text: &str) -> Option<String> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    (!text.is_empty() && text.len() <= 64 && !text.starts_with('-') && is_plain).then(|| text.to_owned())
}

/// No query, no fragment, no quotes and nothing that a shell at the other end could read.
fn check_path(text: &str) -> Option<String> {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._~/+@%=,-".contains(c));
    let is_way = !text.split('/').any(|part| part == ".." || part == ".");
    let is_path = !text.trim_matches('/').is_empty() && !text.starts_with(['-', '/']);
    (is_plain && is_way && is_path).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_ssh_and_scp_are_read_and_written_anew() {
        let cases = [
            ("https://Example.COM./a/b.git", "https://example.com:443/a/b.git", "example.com:443"),
            ("https://example.com:8443/a", "https://example.com:8443/a", "example.com:8443"),
            ("https://[2606:4700::1]/a", "https://[2606:4700::1]:443/a", "[2606:4700::1]:443"),
            ("ssh://git@example.com/a", "ssh://git@example.com:22/a", "example.com:22"),
            ("ssh://example.com:2222/~me/a", "ssh://example.com:2222/~me/a", "example.com:2222"),
            ("git@example.com:team/a.git", "git@example.com:team/a.git", "example.com:22"),
        ];
        for (text, written, target) in cases {
            let remote = Remote::parse(text).unwrap();
            assert_eq!(
                (remote.to_string().as_str(), remote.target().to_string().as_str()),
                (written, target)
            );
        }
        let name = |text: &str| Remote::parse(text).unwrap().name();
        assert_eq!(name("https://example.com/a/b.git/").as_deref(), Some("b"));
        assert_eq!(name("https://example.com/.git"), None);
    }

    #[test]
    fn what_is_no_repository_elsewhere_is_refused() {
        for text in [
            "",
            "-u./x",
            "--upload-pack=x",
            "ext::sh -c id",
            "ext::sh",
            "fd::7",
            "https::x",
            "helper::https://a.example/x",
            "file:///etc",
            "/etc",
            "./x",
            "../x",
            "x.bundle",
            "x",
            "C:\\x",
            "host:path",
            "git://a.example/x",
            "http://a.example/x",
            "ftp://a.example/x",
            "HTTPS://a.example/x",
            "https:/a.example/x",
            "https://a.example",
            "https://a.example/",
            "https://user@a.example/x",
            "https://user:pass@a.example/x",
            "ssh://u:p@a.example/x",
            "https://a.example@b.example/x",
            "ssh://a@b@c.example/x",
            "https://a.example/x?y",
            "https://a.example/x#y",
            "https://a.example\\@b.example/x",
            "https://a.example/x y",
            "https://a.example/x\n",
            "https://a.example/\u{202e}",
            "https://a.example:0/x",
            "https://a.example:080/x",
            "https://a.example:99999/x",
            "https://a.example:/x",
            "https://0x7f.1/x",
            "https://a_.example:44a/x",
            "https://[::1/x",
            "https://::1/x",
            "https://[a.example]/x",
            "ssh://-oProxyCommand=x/y",
            "ssh://-o@a.example/y",
            "-o@a.example:x",
            "git@-oProxyCommand=x:y",
            "git@a.example:-x",
            "git@[::1]:x",
            "git@a.example:",
            "git@a.example:a;id",
            "git@a.example:a'b",
            "git@a.example:$(id)",
            "https://a.example/../x",
            "https://a.example//x",
            "ssh://a.example/a`id`",
        ] {
            assert_eq!(
                Remote::parse(text).map_err(|reason| reason.code.to_string()),
                Err("bad_arguments".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_refusal_says_what_the_address_is() {
        let why = |text: &str| Remote::parse(text).unwrap_err().message;
        assert!(why("ext::sh -c id").contains("holds `\\u{20}`"));
        assert!(why("ext::id").contains("names the program `git-remote-ext`"));
        assert!(why("http://a.example/x").contains("plain http"));
        assert!(why("file:///x").contains("is a file"));
        assert!(why("x.bundle").contains("a file or a bundle"));
    }
}
