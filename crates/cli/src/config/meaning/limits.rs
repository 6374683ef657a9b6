//! Tools and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use contract::Category;
use jail::Pattern;
use policy::{FileSettings, ShellSettings, ToolGlob};
use sandbox::BackendName;
use serde_json::{Value, json};

use super::{Meaning, Reader, Records, Tls};
use crate::amount;
use crate::config::at::{At, Given};
use crate::config::file::{Bash, File, Filesystem};
use crate::config::problem::shown;

/// A day: no call takes longer.
pub(super) const MOST_CALL_MILLISECONDS: u64 = 24 * 60 * 60 * 1000;

/// A tebibyte: no file that is read or written at once is larger.
const MOST_FILE_BYTES: u64 = 1 << 40;

/// As many names as either list adds.
const MOST_NAMES: usize = 200;

impl Reader {
    pub(super) fn shell(&mut self, bash: Option<&Bash>) -> ShellSettings {
        let Some(bash) = bash else { return ShellSettings::default() };
        ShellSettings {
            allowed: bash.allowed_commands.get().map(|list| self.commands(list)),
            denied: bash.denied_commands.get().map(|list| self.commands(list)).unwrap_or_default(),
        }
    }

    fn commands(&mut self, list: &[At<String>]) -> BTreeSet<String> {
        for command in list {
            // `git push` would be compared with the name of a program, and never match.
            if command.value.is_empty()
                || command.value.contains(|c: char| c.is_whitespace() || c.is_control())
            {
                let message = format!("`{}` is not the name of one program", shown(&command.value));
                self.refuse(command.place, message);
            }
        }
        list.iter().map(|command| command.value.clone()).collect()
    }

    pub(super) fn files(&mut self, files: Option<&Filesystem>) -> FileSettings {
        let built_in = FileSettings::default();
        let Some(files) = files else { return built_in };
        FileSettings {
            read_only: files.read_only.get().copied().unwrap_or(built_in.read_only),
            delete: files.delete.get().copied().unwrap_or(built_in.delete),
            max_bytes: self
                .amount("max_file_size", &files.max_file_size, MOST_FILE_BYTES)
                .unwrap_or(built_in.max_bytes),
            follow_links: built_in.follow_links,
            also_hidden: self.names(&files.hidden_names),
            also_protected: self.names(&files.protected_names),
        }
    }

    /// Names to guard besides those that always are.
    fn names(&mut self, list: &Given<Vec<At<String>>>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for name in list.get().into_iter().flatten() {
            match Pattern::parse(&name.value) {
                Ok(_) => drop(names.insert(name.value.clone())),
                Err(_) => {
                    let shown = shown(&name.value);
                    let message = format!(
                        "`{shown}` is not a name pattern: one or more names joined by `/`, with `*` for any characters"
                    );
                    self.refuse(name.place, message);
                }
            }
        }
        if names.len() > MOST_NAMES {
            let place = list.get().into_iter().flatten().next().map(|name| name.place);
            place.into_iter().for_each(|place| self.refuse(place, format!("more than {MOST_NAMES} names")));
        }
        names
    }

    pub(super) fn disabled(&mut self, tree: &File) -> Vec<ToolGlob> {
        let Some(tools) = tree.tools.get() else { return Vec::new() };
        let switches = [
            ("shell", tools.bash.get().and_then(|tool| tool.enabled.get())),
            ("fs.*", tools.filesystem.get().and_then(|tool| tool.enabled.get())),
            ("http.*", tools.http.get().and_then(|tool| tool.enabled.get())),
            ("browser.*", tools.browser.get().and_then(|tool| tool.enabled.get())),
        ];
        let off = switches.into_iter().filter(|(_, enabled)| *enabled == Some(&false));
        off.filter_map(|(tool, _)| ToolGlob::parse(tool).ok()).collect()
    }

    /// The shortest time that the configuration has for each category.
    pub(super) fn timeouts(
        &mut self,
        tree: &File,
        backends: &BTreeMap<Category, BackendName>,
    ) -> BTreeMap<Category, u64> {
        let mut timeouts = BTreeMap::new();
        let subprocess = tree.sandboxing.get().and_then(|sandboxing| sandboxing.subprocess.get());
        let seconds = subprocess.and_then(|subprocess| {
            self.amount("timeout_seconds", &subprocess.timeout_seconds, MOST_CALL_MILLISECONDS / 1000)
        });
        if let Some(seconds) = seconds {
            let plain = backends.iter().filter(|(_, backend)| **backend == BackendName::Subprocess);
            timeouts.extend(plain.map(|(category, _)| (*category, seconds.saturating_mul(1000))));
        }
        let tools = tree.tools.get();
        let bash = tools.and_then(|tools| tools.bash.get()).map(|bash| &bash.timeout_ms);
        let http = tools.and_then(|tools| tools.http.get()).map(|http| &http.timeout_ms);
        for (category, given) in [(Category::Terminal, bash), (Category::Web, http)] {
            let time = given.and_then(|given| self.amount("timeout_ms", given, MOST_CALL_MILLISECONDS));
            timeouts.extend(time.map(|time| (category, time)));
        }
        timeouts
    }

    /// A number of which at least one makes sense.
    pub(super) fn amount(&mut self, name: &str, given: &Given<u64>, most: u64) -> Option<u64> {
        let at = given.at()?;
        if (1..=most).contains(&at.value) {
            return Some(at.value);
        }
        self.refuse(at.place, format!("`{name}` is `{}`, not from 1 to {most}", at.value));
        None
    }

    pub(super) fn store(&mut self, tree: &File) -> Option<Records> {
        let text = tree.store.at()?;
        // What follows the scheme may hold a password, so it is not repeated.
        let (scheme, rest) = text.value.split_once(':').unwrap_or((text.value.as_str(), ""));
        let why = match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                return self.path(&At { value: path.to_owned(), place: text.place }).map(Records::File);
            }
            "postgres" | "postgresql" => match store::names_no_secret(&text.value) {
                Ok(()) => return Some(Records::Server(text.value.clone())),
                Err(why) => why.to_string(),
            },
            "env" if is_variable(rest) => return Some(Records::Variable(rest.to_owned())),
            "env" => "`env:` is followed by the name of a variable, such as `env:TOOLGATE_STORE`".to_owned(),
            other => format!(
                "`{}` is no store: write `sqlite:PATH`, `postgres://USER@HOST/DATABASE` or `env:NAME`",
                shown(other)
            ),
        };
        self.refuse(text.place, why);
        None
    }

    pub(super) fn listen(&mut self, tree: &File, tls: Option<&Tls>) -> SocketAddr {
        let built_in = Meaning::default().listen;
        let Some(text) = tree.listen.at() else { return built_in };
        let local = text.value.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let local = local.map(|port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        match local.or_else(|| text.value.parse::<SocketAddr>().ok()) {
            Some(address) if address.ip().is_loopback() => address,
            // ATTACK(open-in-the-clear)
            Some(address) if tls.is_some_and(|tls| !tls.names.is_empty()) => address,
            Some(_) => {
                let message = format!(
                    "`{}` can be reached from outside: that takes a certificate and a name, under `tls`",
                    shown(&text.value)
                );
                self.refuse(text.place, message);
                built_in
            }
            None => {
                let message = format!("`{}` is not an address such as `127.0.0.1:7433`", shown(&text.value));
                self.refuse(text.place, message);
                built_in
            }
        }
    }

    /// Checks what is read and not in force yet, and says so.
    pub(super) fn keep_for_later(&mut self, tree: &File) {
        let later = |what: &str| format!("`{what}` is read but not in force yet");
        if let Some(sandboxing) = tree.sandboxing.get() {
            if let Some(subprocess) = sandboxing.subprocess.get() {
                let switches = [
                    ("workspace_only", &subprocess.workspace_only),
                    ("restricted_path", &subprocess.restricted_path),
                ];
                for (name, switch) in switches {
                    if let Some(at) = switch.at().filter(|at| !at.value) {
                        self.warn(at.place, format!("`{name}` cannot be switched off"));
                    }
                }
                if let Some(at) = subprocess.extra_safe_path_prefixes.at() {
                    self.warn(at.place, later("extra_safe_path_prefixes"));
                }
            }
            if let Some(docker) = sandboxing.docker.at() {
                self.check_size(&docker.value.memory_limit);
                if let Some(at) = docker.value.cpu_limit.at()
                    && let Err(why) = amount::thousandths(&at.value)
                {
                    self.refuse(at.place, why);
                }
                self.amount("timeout_seconds", &docker.value.timeout_seconds, MOST_CALL_MILLISECONDS / 1000);
                self.warn(docker.place, later("sandboxing.docker"));
            }
            if let Some(pods) = sandboxing.k8s.at() {
                self.warn(pods.place, later("sandboxing.k8s"));
            }
        }
        if let Some(tools) = tree.tools.get() {
            let browser = tools.browser.at().filter(|at| at.value.enabled.get() != Some(&false));
            if let Some(at) = browser {
                self.warn(at.place, "`tools.browser` is read, but this version has no such tools");
            }
            if let Some(sandbox) = tools.sandbox.get() {
                self.check_size(&sandbox.memory_limit);
            }
        }
    }

    fn check_size(&mut self, size: &Given<String>) {
        if let Some(at) = size.at()
            && let Err(why) = amount::bytes(&at.value)
        {
            self.refuse(at.place, why);
        }
    }
}

/// What was read and is not in force yet, as it was typed.
pub(super) fn kept(tree: &File) -> Value {
    let sandboxing = tree.sandboxing.get();
    let tools = tree.tools.get();
    let mut kept = json!({
        "trust": tree.trust,
        "docker": sandboxing.map(|sandboxing| &sandboxing.docker),
        "kubernetes": sandboxing.map(|sandboxing| &sandboxing.k8s),
        "browser": tools.map(|tools| &tools.browser),
        "sandbox": tools.map(|tools| &tools.sandbox),
    });
    leave_out_nulls(&mut kept);
    kept
}

fn leave_out_nulls(value: &mut Value) {
    if let Value::Object(entries) = value {
        entries.retain(|_, entry| !entry.is_null());
        entries.values_mut().for_each(leave_out_nulls);
    }
}

/// A name that a variable of the environment can have everywhere.
pub(super) fn is_variable(name: &str) -> bool {
    let may_begin = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(may_begin) && name.chars().all(|c| may_begin(c) || c.is_ascii_digit())
}
