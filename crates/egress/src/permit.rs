//! What one call may reach, in the words of this crate.
//!
//! Decides nothing: the permit was made from a grant.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use contract::{Host, HostPattern, Private, Reach, Target};

use crate::ssh::Login;

/// What one call may reach.
#[derive(Clone, Debug)]
pub struct Permit {
    /// The places. None means none.
    pub reach: Vec<Reach>,
    /// Hosts that are not among them, whatever the places say.
    pub blocked: Vec<HostPattern>,
    /// What may be done there.
    pub methods: Methods,
    /// The places for which credentials are added: those that the call itself names. Whoever is asked cannot have others asked
    /// in the gate's name.
    pub spends: Vec<Target>,
    /// Places that are in `reach` by themselves, and were granted only for what they are like.
    pub by_pattern: Vec<Target>,
    /// Special addresses that granted hosts may lie at. None means none.
    pub private: Private,
    /// Whom it logs in to over ssh, if the gate is to sign for it.
    pub login: Option<Login>,
    /// How much of it.
    pub limits: PermitLimits,
}

/// What may be done at the places of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// GET and HEAD. The gate ends TLS to see that it is so, and lets nothing but HTTP through.
    ReadOnly,
    /// The same, and the one request by which git asks for objects, which is a POST.
    GitFetch,
    /// GET, HEAD, and the one request by which a server of tools is asked: a POST of JSON. Whether that changes something is
    /// up to the server; whoever lets a call by as one that reads has looked at its tool.
    ToolCall,
    /// Anything, in any protocol.
    Any,
}

impl Methods {
    /// Whether every request has to be seen.
    pub(crate) fn only_reads(self) -> bool {
        match self {
            Methods::ReadOnly | Methods::GitFetch | Methods::ToolCall => true,
            Methods::Any => false,
        }
    }
}

/// How much one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitLimits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes in all, both ways.
    pub bytes: u64,
    /// How long nothing may move on a connection.
    pub idle: Duration,
    /// How long the network is open at all.
    pub total: Duration,
}

impl Default for PermitLimits {
    fn default() -> PermitLimits {
        PermitLimits {
            connections: 64,
            bytes: 8 << 30,
            idle: Duration::from_secs(300),
            total: Duration::from_secs(24 * 3600),
        }
    }
}

/// How a host comes to be in a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// It is named, or is an address of a named range.
    Named,
    /// It is below a `*.` pattern.
    Pattern {
        /// What stands for the `*`.
        under: String,
    },
    /// Any host of the outside is permitted.
    Public,
}

impl Permit {
    /// How the host comes to be in the permit, on whichever port.
    pub(crate) fn via(&self, host: &Host) -> Option<Via> {
        if self.blocks(host) {
            return None;
        }
        let covering = self.reach.iter().filter(|reach| reach.host.covers(host));
        covering.map(|reach| via(&reach.host, host)).min_by_key(Via::looseness)
    }

    /// Whether this port of the host is in the permit.
    pub(crate) fn covers(&self, target: &Target) -> bool {
        !self.blocks(&target.host) && self.reach.iter().any(|reach| reach.covers(target))
    }

    /// The special addresses that a place may lie at. ATTACK(opted-in-by-a-name): opting in to a range is no yes to whatever
    /// name leads there: one that is not named itself lies there only if the address is granted, too.
    pub(crate) fn private_for(&self, target: &Target, address: IpAddr) -> Cow<'_, Private> {
        let at = Target { host: Host::from(address), port: target.port };
        let is_named = self.via(&target.host) == Some(Via::Named) && !self.by_pattern.contains(target);
        if is_named || self.covers(&at) { Cow::Borrowed(&self.private) } else { Cow::Owned(Private::none()) }
    }

    /// Whether the host, or one at this address, is blocked.
    pub(crate) fn blocks(&self, host: &Host) -> bool {
        self.blocked.iter().any(|pattern| pattern.covers(host))
    }
}

impl Via {
    fn looseness(&self) -> u8 {
        match self {
            Via::Named => 0,
            Via::Pattern { .. } => 1,
            Via::Public => 2,
        }
    }
}

fn via(pattern: &HostPattern, host: &Host) -> Via {
    match pattern {
        HostPattern::Exact(_) | HostPattern::Network(_) => Via::Named,
        HostPattern::Below(zone) => {
            let name = host.name().unwrap_or_default();
            let under = name.strip_suffix(zone.name()).unwrap_or(name);
            Via::Pattern { under: under.trim_end_matches('.').to_owned() }
        }
        HostPattern::Public => Via::Public,
    }
}
