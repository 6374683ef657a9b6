//! What calls may reach, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use contract::{Category, HostPattern, Private, Reach, ReachError, Target, preset, show_hidden};
use egress::KnownHost;
use policy::{
    Credential, EgressLimits, EgressSettings, HeaderSettings, HttpSettings, ToolGlob, ToolPlaces,
    VaultSettings,
};

use super::Reader;
use super::backends::runs_in_docker;
use super::limits::MOST_CALL_MILLISECONDS;
use crate::amount;
use crate::config::at::{At, Given};
use crate::config::file::{Egress, EgressLimitsFile, File, Http, VaultFile};
use crate::config::problem::shown;
use crate::way_out::injection_of;

/// As many places and hosts as one list has.
const MOST_PLACES: usize = 1000;

/// As many connections as one call has at once.
const MOST_CONNECTIONS: u64 = 4096;

/// The largest answer that is read, and a great deal for one call to send or receive.
const MOST_RESPONSE: u64 = 1 << 30;
const MOST_BYTES: u64 = 1 << 42;

impl Reader {
    pub(super) fn egress(&mut self, tree: &File) -> EgressSettings {
        let empty = Egress::default();
        let file = tree.egress.get().unwrap_or(&empty);
        // What is private is known before the lists are read, and which ports a domain without one has.
        let private = self.private(&file.private);
        let ports = self.ports(&file.ports);
        let built_in = EgressSettings { private, ports, ..EgressSettings::default() };
        EgressSettings {
            allow: file.allow.get().map(|list| self.places(list, &built_in)),
            by_category: self.by_category(tree, file, &built_in),
            by_tool: self.by_tool(tree, &built_in),
            block: self.blocked(&file.block),
            nameservers: self.nameservers(&file.nameservers),
            extra_roots: file.extra_roots.at().and_then(|path| self.path(path)),
            credentials: self.credentials(file, &built_in.private),
            vault: file.vault.at().and_then(|vault| self.vault(vault)),
            known_hosts: self.known_hosts(&file.known_hosts),
            known_hosts_file: file.known_hosts_file.at().and_then(|path| self.path(path)),
            limits: file.limits.get().map(|limits| self.egress_limits(limits)).unwrap_or_default(),
            http: self.http(tree.tools.get().and_then(|tools| tools.http.get())),
            ..built_in
        }
    }

    fn private(&mut self, list: &Given<Vec<At<String>>>) -> Private {
        let mut private = Private::none();
        for entry in list.get().into_iter().flatten() {
            if let Err(error) = private.add(&entry.value) {
                self.refuse(entry.place, show_hidden(&error.to_string()));
            }
        }
        private
    }

    fn ports(&mut self, list: &Given<Vec<At<u64>>>) -> BTreeSet<u16> {
        let Some(list) = list.get() else { return EgressSettings::default().ports };
        let mut ports = BTreeSet::new();
        for port in list {
            match u16::try_from(port.value).ok().filter(|port| *port != 0) {
                Some(port) => drop(ports.insert(port)),
                None => {
                    self.refuse(port.place, format!("`{}` is no port: a number from 1 to 65535", port.value))
                }
            }
        }
        ports
    }

    /// A list of places and presets.
    pub(super) fn places(&mut self, list: &[At<String>], egress: &EgressSettings) -> Vec<Reach> {
        let mut places = Vec::new();
        for text in list {
            let read = match text.value.strip_prefix("preset:") {
                Some(name) => preset(name),
                None => Reach::permit(&text.value, &egress.private).map(|reach| vec![reach]),
            };
            self.add_places(text, read, &mut places);
        }
        in_order(places)
    }

    /// A list of domains: on the configured ports where they name none. `*` is any public host.
    fn domains(&mut self, list: &[At<String>], egress: &EgressSettings) -> Vec<Reach> {
        let mut places = Vec::new();
        for text in list {
            let read = match Reach::permit(&text.value, &egress.private) {
                Err(ReachError::Everything { .. }) if text.value == "*" => {
                    Ok(egress.any_public_host().collect())
                }
                Err(ReachError::NoPort { text }) => {
                    let on = |port| Reach::permit(&format!("{text}:{port}"), &egress.private);
                    egress.ports.iter().map(on).collect()
                }
                other => other.map(|reach| vec![reach]),
            };
            self.add_places(text, read, &mut places);
        }
        in_order(places)
    }

    fn add_places(
        &mut self,
        text: &At<String>,
        read: Result<Vec<Reach>, ReachError>,
        places: &mut Vec<Reach>,
    ) {
        match read {
            Ok(read) if places.len() + read.len() <= MOST_PLACES => places.extend(read),
            Ok(_) => self.refuse(text.place, format!("more than {MOST_PLACES} places")),
            Err(error) => self.refuse(text.place, show_hidden(&error.to_string())),
        }
    }

    fn blocked(&mut self, list: &Given<Vec<At<String>>>) -> Vec<HostPattern> {
        let mut blocked = Vec::new();
        for text in list.get().into_iter().flatten().take(MOST_PLACES) {
            match HostPattern::parse(&text.value) {
                Ok(pattern) => blocked.push(pattern),
                Err(error) => {
                    let error = show_hidden(&error.to_string());
                    let message =
                        format!("{error}; what is blocked is a host without a port, or `*.` and a name");
                    self.refuse(text.place, message);
                }
            }
        }
        // What is cut off would not be blocked.
        if let Some(text) = list.get().and_then(|list| list.get(MOST_PLACES)) {
            self.refuse(text.place, format!("more than {MOST_PLACES} hosts"));
        }
        in_order(blocked)
    }

    /// Lists of categories: their own, and those of the containers that they run in.
    fn by_category(
        &mut self,
        tree: &File,
        file: &Egress,
        egress: &EgressSettings,
    ) -> BTreeMap<Category, Vec<Reach>> {
        let mut lists = BTreeMap::new();
        if let Some(docker) = tree.sandboxing.get().and_then(|sandboxing| sandboxing.docker.get()) {
            let hosts = self.places(docker.allowed_hosts.get().map_or(&[], Vec::as_slice), egress);
            let own = docker.network_overrides.get();
            for category in Category::ALL.iter().copied().filter(|category| runs_in_docker(tree, *category)) {
                let network = own.and_then(|own| own.of(category)).or(docker.network.get());
                // A bridge without allowed hosts leads nowhere, and no network does not either.
                let is_bridged = network.is_some_and(|word| word.0 == "bridge");
                lists.insert(category, if is_bridged { hosts.clone() } else { Vec::new() });
            }
        }
        for (category, list) in file.overrides.get().into_iter().flat_map(|overrides| overrides.iter()) {
            lists.insert(category, self.places(list, egress));
        }
        lists
    }

    fn by_tool(&mut self, tree: &File, egress: &EgressSettings) -> Vec<ToolPlaces> {
        let Some(tools) = tree.tools.get() else { return Vec::new() };
        let (http, browser, none) = (tools.http.get(), tools.browser.get(), Given::default());
        let lists = [
            (
                "http.*",
                http.map(|http| &http.allowed_domains),
                http.map_or(&none, |http| &http.blocked_domains),
            ),
            ("browser.*", browser.map(|browser| &browser.allowed_domains), &none),
        ];
        let mut read = Vec::new();
        for (tool, allowed, blocked) in lists {
            let allow = allowed.and_then(Given::get).map(|list| self.domains(list, egress));
            let block = self.blocked(blocked);
            if (allow.is_some() || !block.is_empty())
                && let Ok(tool) = ToolGlob::parse(tool)
            {
                read.push(ToolPlaces { tool, allow, block });
            }
        }
        read
    }

    fn nameservers(&mut self, list: &Given<Vec<At<String>>>) -> Vec<SocketAddr> {
        let mut servers = Vec::new();
        for text in list.get().into_iter().flatten() {
            let bare = text.value.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
            match bare.or_else(|_| text.value.parse()) {
                Ok(server) if server.port() != 0 && !server.ip().is_unspecified() => servers.push(server),
                _ => {
                    let message = format!(
                        "`{}` is no address such as `192.0.2.53` or `192.0.2.53:53`",
                        shown(&text.value)
                    );
                    self.refuse(text.place, message);
                }
            }
        }
        servers
    }

    fn credentials(&mut self, file: &Egress, private: &Private) -> Vec<Credential> {
        let mut read: Vec<Credential> = Vec::new();
        for at in file.credentials.get().into_iter().flatten() {
            let Some(credential) = self.credential(at, private) else { continue };
            let injection = injection_of(&credential.form);
            let mut others = read.iter().filter(|other| other.to == credential.to);
            if others.any(|other| injection_of(&other.form).shares_place_with(&injection)) {
                let why =
                    format!("two credentials for `{}` go to the same place of a request", credential.to);
                self.refuse(at.place, why);
            }
            read.push(credential);
        }
        let needs_vault = read.iter().any(|credential| credential.from.is_in_a_vault());
        if needs_vault && let Some(at) = file.credentials.at().filter(|_| file.vault.at().is_none()) {
            self.refuse(at.place, "a secret comes from `vault:`, and there is no `egress.vault`");
        }
        read
    }

    /// Keys of hosts, a line for each host.
    fn known_hosts(&mut self, list: &Given<Vec<At<String>>>) -> Vec<String> {
        let mut known = Vec::new();
        for line in list.get().into_iter().flatten() {
            match KnownHost::parse(&line.value) {
                Ok(hosts) => known.extend(hosts.iter().map(KnownHost::line)),
                Err(error) => self.refuse(line.place, show_hidden(&error.to_string())),
            }
        }
        if let Some(line) = list.get().and_then(|list| list.get(MOST_PLACES)) {
            self.refuse(line.place, format!("more than {MOST_PLACES} known hosts"));
        }
        in_order(known)
    }

    fn vault(&mut self, at: &At<VaultFile>) -> Option<VaultSettings> {
        let vault = &at.value;
        for (key, given) in [("address", vault.address.at()), ("token", vault.token.at())] {
            if given.is_none() {
                self.refuse(at.place, format!("`{key}` is missing in `vault`"));
            }
        }
        let token = vault.token.at().and_then(|text| self.source(text));
        if token.as_ref().is_some_and(|token| !token.is_at_hand())
            && let Some(at) = vault.token.at()
        {
            self.refuse(at.place, "the token of a vault comes from `env:NAME` or `file:PATH`");
            return None;
        }
        let address = vault.address.at()?;
        let rest = address.value.strip_prefix("https://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        // Not repeated: there may be a password in it.
        let target = rest.map(|rest| Target::parse(rest).or_else(|_| Target::parse(&format!("{rest}:443"))));
        match target {
            Some(Ok(address)) => Some(VaultSettings { address, token: token? }),
            _ => {
                self.refuse(
                    address.place,
                    "the address of a vault is one such as `https://vault.example.com:8200`",
                );
                None
            }
        }
    }

    fn egress_limits(&mut self, limits: &EgressLimitsFile) -> EgressLimits {
        let built_in = EgressLimits::default();
        let connections = self.amount("connections", &limits.connections, MOST_CONNECTIONS);
        EgressLimits {
            connections: connections
                .and_then(|most| u32::try_from(most).ok())
                .unwrap_or(built_in.connections),
            bytes: self.volume("bytes", &limits.bytes, MOST_BYTES).unwrap_or(built_in.bytes),
            idle_ms: self
                .amount("idle_ms", &limits.idle_ms, MOST_CALL_MILLISECONDS)
                .unwrap_or(built_in.idle_ms),
        }
    }

    /// So many bytes.
    fn volume(&mut self, name: &str, given: &Given<String>, most: u64) -> Option<u64> {
        let At { value, place } = self.parsed(given, amount::bytes)?;
        if (1..=most).contains(&value) {
            return Some(value);
        }
        self.refuse(place, format!("`{name}` is `{value}`, not from 1 to {most}"));
        None
    }

    fn http(&mut self, http: Option<&Http>) -> HttpSettings {
        let built_in = HttpSettings::default();
        let Some(http) = http else { return built_in };
        let headers = http.headers.get();
        let names = |list: Option<&Given<Vec<At<String>>>>, reader: &mut Reader| {
            let list = list.and_then(Given::get)?;
            Some(list.iter().filter_map(|name| reader.header_name(name)).collect::<BTreeSet<String>>())
        };
        let allow = names(headers.map(|headers| &headers.allow), self);
        let strip = names(headers.map(|headers| &headers.strip), self).unwrap_or_default();
        let mut add = BTreeMap::new();
        for (name, value) in headers.and_then(|headers| headers.add.get()).into_iter().flatten() {
            if value.value.contains(|c: char| c.is_control()) {
                self.refuse(value.place, "the value of a header is one line");
            }
            add.extend(self.header_name(name).map(|name| (name, value.value.clone())));
        }
        HttpSettings {
            methods: match http.methods.get() {
                Some(list) => list.iter().filter_map(|method| self.method(method)).collect(),
                None => built_in.methods,
            },
            headers: HeaderSettings { allow, strip, add },
            max_response: self
                .volume("max_response", &http.max_response, MOST_RESPONSE)
                .unwrap_or(built_in.max_response),
        }
    }

    fn method(&mut self, text: &At<String>) -> Option<String> {
        let is_method = !text.value.is_empty() && text.value.bytes().all(|byte| byte.is_ascii_uppercase());
        // These lead on to other hosts, or show what was sent.
        if is_method && !matches!(text.value.as_str(), "CONNECT" | "TRACE") {
            return Some(text.value.clone());
        }
        self.refuse(text.place, format!("`{}` is no method such as `GET` or `POST`", shown(&text.value)));
        None
    }

    pub(super) fn header_name(&mut self, text: &At<String>) -> Option<String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !text.value.is_empty() && text.value.len() <= 128 && text.value.bytes().all(is_token) {
            return Some(text.value.to_ascii_lowercase());
        }
        self.refuse(text.place, format!("`{}` is no name of a header", shown(&text.value)));
        None
    }

    /// A host to which a secret goes, and its port: the usual one where none is named.
    pub(super) fn secret_place(&mut self, text: &At<String>, usual: u16, private: &Private) -> Option<Reach> {
        let read = match Reach::permit(&text.value, private) {
            Err(ReachError::NoPort { text }) => Reach::permit(&format!("{text}:{usual}"), private),
            other => other,
        };
        match read {
            Ok(reach) if matches!(reach.host, HostPattern::Exact(_) | HostPattern::Below(_)) => Some(reach),
            Ok(_) => {
                self.refuse(text.place, "a secret goes to a host or to `*.` and a name, not to a range");
                None
            }
            Err(error) => {
                self.refuse(text.place, show_hidden(&error.to_string()));
                None
            }
        }
    }
}

/// Sorted, each once: the order has no meaning, and should not name other settings.
fn in_order<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}
