//! Which places a call gets: those that it names, and those that are listed for it.
//!
//! # Invariants
//! - What stays inside gets none.
//! - A special address is refused that nobody has opted in to, and a blocked host always.
//! - What is on no list is asked for by its name, so that a yes to one place is none to another.

use contract::{Category, EgressClass, HostPattern, Reach, Reason, Special, Target};
use serde::Serialize;

use crate::egress::EgressSettings;
use crate::facts::Admitted;
use crate::level::Network;
use crate::settings::Settings;

/// The places of one call.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// What it gets.
    pub(crate) granted: Vec<Reach>,
    /// What it does not get, whatever the list above says.
    pub(crate) blocked: Vec<HostPattern>,
    /// Those that it names and that are listed.
    pub(crate) listed: Vec<Target>,
    /// Those that it names and that are not.
    pub(crate) unlisted: Vec<Target>,
    /// Of those that are listed, the ones that only a pattern lists.
    pub(crate) by_pattern: Vec<Target>,
}

/// As many places as a question names besides those of the call.
const MOST_SHOWN: usize = 20;

impl Places {
    /// Those that the call itself names.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Target> {
        self.listed.iter().chain(&self.unlisted)
    }

    /// What whoever is asked is told of the places that a call gets besides those that it names.
    pub(crate) fn told_of_others(&self) -> Option<String> {
        let named: Vec<Reach> = self.named().cloned().map(Reach::from).collect();
        let others: Vec<String> = self
            .granted
            .iter()
            .filter(|reach| !named.contains(reach))
            .map(|reach| format!("`{reach}`"))
            .collect();
        let shown = others.iter().take(MOST_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        match others.len().saturating_sub(MOST_SHOWN) {
            _ if others.is_empty() => None,
            0 => Some(format!("it could reach what is listed: {shown}")),
            more => Some(format!("it could reach what is listed: {shown} and {more} more")),
        }
    }
}

/// A place that a call names, and what is known of it, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedPlace {
    /// `host:port`.
    pub place: String,
    /// `listed`, `unlisted`, `blocked` or `special`.
    pub class: &'static str,
    /// What kind of address it is, if it is a special one.
    pub special: Option<&'static str>,
}

/// The places that a call names, each with what the lists say of it. Decides nothing.
pub fn named_places(call: &Admitted, settings: &Settings) -> Vec<NamedPlace> {
    let Some(agent) = settings.agents.get(&call.agent) else { return Vec::new() };
    let (tool, egress) = (&call.tool, &settings.egress);
    let listed = egress.listed(&tool.name, tool.category, settings.constraints_of(agent).network);
    let blocked = egress.blocked(&tool.name);
    let named = |target: &Target| {
        let special = target.host.special().map(Special::describe);
        let class = if blocked.iter().any(|pattern| pattern.covers(&target.host)) {
            "blocked"
        } else if special.is_some() {
            "special"
        } else if listed.places.iter().chain(&call.facets.reaches).any(|reach| reach.covers(target)) {
            "listed"
        } else {
            "unlisted"
        };
        NamedPlace { place: target.to_string(), class, special }
    };
    call.facets.hosts.iter().map(named).collect()
}

/// Refuses a call that names this machine, a private network or a metadata service.
pub(crate) fn refuse_special(call: &Admitted, egress: &EgressSettings) -> Result<(), Reason> {
    // ATTACK(metadata-service): denied by its address, whatever else would allow it.
    let refused =
        |target: &Target| egress.private.refuses_host(&target.host).map(|why| (target.clone(), why));
    match call.facets.hosts.iter().find_map(refused) {
        None => Ok(()),
        Some((target, special)) => {
            let hint =
                "name a public host; whoever runs this gate can opt in to private ones with `egress.private`";
            Err(Reason::host_not_allowed(format!("`{}` is {special}", target.host)).with_hint(hint))
        }
    }
}

/// Why a call does not get the places it names.
pub(crate) enum Unreached<'a> {
    /// This one is blocked, whatever is listed.
    Blocked(&'a Target, Reason),
    /// No list has what it takes.
    Unlisted(Reason),
}

/// The places that a call gets, if it may run.
pub(crate) fn places_of<'a>(
    call: &'a Admitted,
    network: Network,
    egress: &EgressSettings,
) -> Result<Places, Unreached<'a>> {
    let (tool, facets) = (&call.tool, &call.facets);
    // INVARIANT(grant-within-contract)
    if facets.egress == EgressClass::None || tool.egress == EgressClass::None || network == Network::None {
        return Ok(Places::default());
    }
    let list = egress.listed(&tool.name, tool.category, network);
    let blocked = egress.blocked(&tool.name);
    let mut places = Places::default();
    for target in &facets.hosts {
        // ATTACK(blocked-host): in the one spelling that it has, whatever was written.
        if blocked.iter().any(|pattern| pattern.covers(&target.host)) {
            let hint =
                "whoever runs this gate can change that: `egress.block`, or `blocked_domains` under `tools`";
            let why = format!("`{}` is a blocked host", target.host);
            return Err(Unreached::Blocked(target, Reason::host_not_allowed(why).with_hint(hint)));
        }
        let listed = list.places.iter().chain(&facets.reaches);
        let mut covering = listed.filter(|reach| reach.covers(target)).peekable();
        if covering.peek().is_some() {
            if !covering.any(|reach| matches!(reach.host, HostPattern::Exact(_) | HostPattern::Network(_))) {
                places.by_pattern.push(target.clone());
            }
            places.listed.push(target.clone());
        // ATTACK(empty-list): no question is put that could make somebody of nobody.
        } else if list.is_nobody {
            let why = format!("`{target}` is not listed, and the list is empty, which means nobody");
            return Err(Unreached::Unlisted(Reason::host_not_allowed(why).with_hint(LISTS)));
        // ATTACK(unlisted-host): a host that is like a listed one is another.
        } else {
            places.unlisted.push(target.clone());
        }
    }
    places.granted = facets.hosts.iter().cloned().map(Reach::from).collect();
    places.granted.extend(facets.reaches.iter().cloned());
    // What a command reaches cannot be told from its words; where a reading request is led on to could be asked for
    // freely by another call.
    let is_command = facets.is_networked();
    if is_command || (tool.category == Category::Web && facets.egress == EgressClass::ReadOnly) {
        places.granted.extend(list.places);
    }
    if is_command && places.granted.is_empty() {
        let why = "there is no list of hosts that a command could reach, and this one names none";
        return Err(Unreached::Unlisted(Reason::host_not_allowed(why).with_hint(LISTS)));
    }
    places.granted.sort_unstable();
    places.granted.dedup();
    if !places.granted.is_empty() {
        places.blocked = blocked;
    }
    Ok(places)
}

const LISTS: &str = "whoever runs this gate can list hosts: `egress.allow` or `egress.overrides`, such as `preset:python` or `example.com:443`";
