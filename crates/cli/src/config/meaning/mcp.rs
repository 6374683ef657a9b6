//! Other people's MCP servers: how each is talked to, and what it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use contract::{AgentName, Reach, Reason, Target};
use policy::{
    Agent, Credential, CredentialForm, EgressSettings, Era, NamePrefix, UpstreamSettings, UpstreamWay,
    WorkspaceAccess,
};

use super::Reader;
use crate::config::at::{At, Given};
use crate::config::file::{File, ServerFile};
use crate::config::problem::{Problem, shown};

/// As many servers as there are at most.
const MOST_SERVERS: usize = 200;
const LONGEST_NAME: usize = 32;
const MOST_MILLISECONDS: u64 = 600_000;

impl Reader {
    /// The servers, and the credentials that the way out gets for them.
    pub(super) fn servers(
        &mut self,
        tree: &File,
        egress: &mut EgressSettings,
        agents: &BTreeMap<AgentName, Agent>,
    ) -> BTreeMap<String, UpstreamSettings> {
        let Some(servers) = tree.mcp.get().and_then(|mcp| mcp.servers.at()) else { return BTreeMap::new() };
        if servers.value.len() > MOST_SERVERS {
            self.refuse(servers.place, format!("more than {MOST_SERVERS} servers"));
        }
        let mut read = BTreeMap::new();
        for (name, file) in &servers.value {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.value.is_empty() || name.value.len() > LONGEST_NAME || !name.value.chars().all(is_plain) {
                let why = format!(
                    "`{}` is not a name of at most {LONGEST_NAME} small letters, digits and `-`",
                    shown(&name.value)
                );
                self.refuse(name.place, why);
                continue;
            }
            if let Some(settings) = self.server(name, file, egress, agents) {
                read.insert(name.value.clone(), settings);
            }
        }
        self.refuse_shared_tokens(&servers.value);
        read
    }

    /// A token goes to a host and port, whichever server there is asked: so there is one server there, or no token.
    fn refuse_shared_tokens(&mut self, servers: &BTreeMap<At<String>, ServerFile>) {
        let mut asked: Vec<(Target, &str, bool)> = Vec::new();
        for (name, file) in servers {
            let Some(url) = file.url.at() else { continue };
            let Ok((target, _)) = tools::mcp::place_of(&url.value) else { continue };
            let has_token = file.auth.get().is_some();
            if let Some((_, other, _)) =
                asked.iter().find(|(place, _, shown)| *place == target && (has_token || *shown))
            {
                let why = format!(
                    "`{other}` is at `{target}`, too, and what one of them is shown by `auth` the other would be; give them different hosts or ports"
                );
                self.refuse(url.place, why);
            }
            asked.push((target, name.value.as_str(), has_token));
        }
    }

    fn server(
        &mut self,
        name: &At<String>,
        file: &ServerFile,
        egress: &mut EgressSettings,
        agents: &BTreeMap<AgentName, Agent>,
    ) -> Option<UpstreamSettings> {
        let way = match (file.command.at(), file.url.at()) {
            (Some(command), None) => self.command(command),
            (None, Some(url)) => self.url(name, file, url, egress),
            _ => {
                let why = format!("the server `{}` has to have either a `command` or a `url`", name.value);
                self.refuse(name.place, why);
                None
            }
        };
        let allow = match file.allow.get() {
            Some(list) => self.places(list, egress),
            None => Vec::new(),
        };
        let (enable, disable) = match file.tools.get() {
            Some(tools) => (names(&tools.enable), names(&tools.disable)),
            None => (None, None),
        };
        let settings = UpstreamSettings {
            way: way?,
            allow,
            read: self.directories(&file.ro).unwrap_or_default(),
            write: self.directories(&file.rw).unwrap_or_default(),
            workspace: file.workspace.get().map_or(WorkspaceAccess::None, |word| word.0),
            variables: self.variables(file),
            enable,
            disable: disable.unwrap_or_default(),
            timeout_ms: self
                .amount("timeout_ms", &file.timeout_ms, MOST_MILLISECONDS)
                .unwrap_or(UpstreamSettings::USUAL_TIMEOUT_MS),
            prefix: file.prefix.get().map_or(NamePrefix::Always, |word| word.0),
            agents: self.agents_of(file, agents),
            passes: file.pass_on.get().into_iter().flatten().map(|word| word.0).collect(),
            era: file.revision.get().map_or(Era::default(), |word| word.0),
        };
        Some(settings)
    }

    fn command(&mut self, command: &At<Vec<At<String>>>) -> Option<UpstreamWay> {
        if let Some(bad) = command.value.iter().find(|word| word.value.contains('\0')) {
            self.refuse(bad.place, "a word of the command holds a NUL character");
            return None;
        }
        if command.value.first().is_none_or(|program| program.value.is_empty()) {
            self.refuse(command.place, "the command is empty: name the program and its arguments");
            return None;
        }
        Some(UpstreamWay::Command(command.value.iter().map(|word| word.value.clone()).collect()))
    }

    fn url(
        &mut self,
        name: &At<String>,
        file: &ServerFile,
        url: &At<String>,
        egress: &mut EgressSettings,
    ) -> Option<UpstreamWay> {
        let behind_walls = [
            ("env", file.env.at().map(|at| at.place)),
            ("allow", file.allow.at().map(|at| at.place)),
            ("ro", file.ro.at().map(|at| at.place)),
            ("rw", file.rw.at().map(|at| at.place)),
            ("workspace", file.workspace.at().map(|at| at.place)),
            ("pass_on", file.pass_on.at().map(|at| at.place)),
            ("revision", file.revision.at().map(|at| at.place)),
        ];
        for (key, place) in behind_walls {
            if let Some(place) = place {
                let why = format!("`{key}` is for programs that are started here; `{}` is not", name.value);
                self.refuse(place, why);
            }
        }
        let (target, is_secure) = match tools::mcp::place_of(&url.value) {
            Ok(place) => place,
            Err(Reason { message, .. }) => {
                self.refuse(url.place, message);
                return None;
            }
        };
        if let Some(special) = egress.private.refuses_host(&target.host) {
            let why = format!(
                "`{}` is {special}; list it under `egress.private` as well, if it is meant",
                target.host
            );
            self.refuse(url.place, why);
        }
        if let Some(bearer) = file.auth.get().and_then(|auth| auth.bearer.at()) {
            if !is_secure {
                self.refuse(bearer.place, "a token is sent over TLS alone: the `url` has to be https");
            }
            self.bearer(bearer, target, egress);
        }
        if let Some(oauth) = file.auth.get().and_then(|auth| auth.oauth.at()) {
            let target = tools::mcp::place_of(&url.value).map(|(target, _)| target);
            if let Ok(target) = target {
                self.sign_in(&name.value, url, target, oauth, egress);
            }
        }
        Some(UpstreamWay::Url(url.value.clone()))
    }

    fn bearer(&mut self, bearer: &At<String>, target: Target, egress: &mut EgressSettings) {
        let Some(from) = self.source(bearer) else { return };
        let to = Reach::from(target);
        let mut known = egress.credentials.iter().chain(&egress.server_credentials);
        if known.any(|known| known.to == to) {
            self.refuse(bearer.place, format!("there is a credential for `{to}` already"));
            return;
        }
        egress.server_credentials.push(Credential { to, form: CredentialForm::Bearer, from });
    }

    fn variables(&mut self, file: &ServerFile) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        for (name, value) in file.env.get().into_iter().flatten() {
            if !super::limits::is_variable(&name.value) || value.contains('\0') {
                self.refuse(name.place, format!("`{}` is not a variable", shown(&name.value)));
            // What a server holds it can give away.
            } else if jail::is_denied_variable(OsStr::new(&name.value)) {
                let message = format!(
                    "`{}` is the name of a secret, or of a way to inject code, and no sandbox gets it; let the gate add a credential on the way out: `egress.credentials`",
                    name.value
                );
                self.problems.push(Problem::new(name.place, message));
            } else {
                variables.insert(name.value.clone(), value.clone());
            }
        }
        variables
    }

    fn agents_of(
        &mut self,
        file: &ServerFile,
        agents: &BTreeMap<AgentName, Agent>,
    ) -> Option<BTreeSet<AgentName>> {
        let mut named = BTreeSet::new();
        for text in file.agents.get()? {
            match AgentName::parse(&text.value).ok().filter(|name| agents.contains_key(name)) {
                Some(name) => drop(named.insert(name)),
                None => {
                    let known = agents.keys().map(AgentName::as_str);
                    let problem = Problem::unknown(text.place, "there is no agent", &text.value, known);
                    self.problems.push(problem);
                }
            }
        }
        Some(named)
    }
}

fn names(list: &Given<Vec<At<String>>>) -> Option<BTreeSet<String>> {
    list.get().map(|list| list.iter().map(|name| name.value.clone()).collect())
}
