//! The network of one call: the places of its grant, and the guard that answers for every other.
//!
//! What a call may reach is decided elsewhere; here a grant becomes a permit, and what came of it becomes facts.

use std::time::Duration;

use contract::{Attempt, EgressClass, Reason, RunFacts, Target};
pub(crate) use egress::Login;
pub(crate) use egress::Methods;
pub(crate) use egress::Usage;
use egress::{Egress, OpenGrant, Outcome, Permit, PermitLimits};
use jail::{Doors, Guarded, LOCAL_DOOR, LocalDoor};
use policy::{EgressLimits, EgressSettings, Grant};

use crate::inside::SshInside;
use crate::surroundings::Surroundings;

/// As many refusals as a model is told of.
const MOST_TOLD: usize = 8;

/// What a gate reaches out with.
#[derive(Debug)]
pub(crate) struct Reaching {
    pub(crate) egress: Egress,
    pub(crate) settings: EgressSettings,
}

impl Reaching {
    /// Whom programs have to trust where the gate may come to see their requests.
    pub(crate) fn authority_of_readers(&self) -> Option<String> {
        self.egress.trusted_inside(&Permit {
            reach: Vec::new(),
            blocked: Vec::new(),
            methods: Methods::ReadOnly,
            spends: Vec::new(),
            by_pattern: Vec::new(),
            private: self.settings.private.clone(),
            login: None,
            limits: PermitLimits::default(),
        })
    }
}

/// The way out of one call's network.
pub(crate) struct WayOut {
    egress: Egress,
    permit: Permit,
}

impl WayOut {
    /// The way out that a grant has; nothing if it names no place. `reading` is what one does that only reads, and `login`
    /// whom it logs in to over ssh.
    pub(crate) fn of(
        grant: &Grant,
        at: &Surroundings,
        reading: Methods,
        login: Option<Login>,
    ) -> Result<Option<WayOut>, Reason> {
        let authority = grant.authority();
        if authority.hosts.is_empty() {
            return Ok(None);
        }
        let Some(Reaching { egress, settings }) = at.reaching() else {
            return Err(Reason::cannot_enforce("this gate cannot give a sandbox a network"));
        };
        let methods = match authority.egress {
            EgressClass::None => return Err(Reason::internal("the grant names hosts and no class for them")),
            EgressClass::ReadOnly => reading,
            EgressClass::Write => Methods::Any,
        };
        let limits = permit_limits(&settings.limits, authority.limits.timeout);
        // What a server of tools is shown of the gate is shown to it by calls of its tools, and by no other call.
        let may_spend = |target: &&Target| {
            let is_a_servers = settings.server_credentials.iter().any(|of| of.to.covers(target));
            reading == Methods::ToolCall || !is_a_servers
        };
        let permit = Permit {
            reach: authority.hosts.clone(),
            blocked: authority.blocked.clone(),
            methods,
            // ATTACK(redirect-that-spends): where an answer leads, or a program goes, the gate's credentials do not go along.
            spends: authority.named.iter().filter(may_spend).cloned().collect(),
            by_pattern: authority.by_pattern.clone(),
            private: settings.private.clone(),
            login: login.filter(|login| egress.signs_for(&login.target)),
            limits,
        };
        Ok(Some(WayOut { egress: egress.clone(), permit }))
    }

    /// What the sandbox needs for it.
    pub(crate) fn guarded(&self) -> Guarded {
        let ports = self.permit.reach.iter().map(|reach| reach.port).collect();
        let local = if self.permit.login.is_some() { LocalDoor::Open } else { LocalDoor::Absent };
        Guarded { ports, authority: self.egress.trusted_inside(&self.permit), local }
    }

    /// What ssh is told inside, to log in to this place. A host whose key nobody has configured is not spoken to.
    pub(crate) fn ssh(&self, login: &Login) -> Result<SshInside, Reason> {
        let known = self.egress.known_hosts(&login.target);
        if known.is_empty() {
            let why = format!("no key of `{}` is known, and none is learnt", login.target);
            return Err(Reason::host_not_allowed(why).with_hint(
                "whoever runs this gate can add it: `egress.known_hosts`, a line such as `example.com ssh-ed25519 AAAA…`",
            ));
        }
        let signer = self.permit.login.is_some().then(|| LOCAL_DOOR.to_owned());
        Ok(SshInside { known_hosts: known, signer })
    }

    /// Posts the guard. If that fails the doors are closed, and nobody is reached.
    pub(crate) fn open(self, doors: Doors) -> Option<OpenGrant> {
        let opened = self.egress.open(self.permit, doors_of(doors));
        opened.inspect_err(|error| tracing::warn!(%error, "a network has no guard, and leads to nobody")).ok()
    }
}

/// The doors that a sandbox has made, as whoever guards them takes them.
pub fn doors_of(doors: Doors) -> egress::Doors {
    let Doors { dns_udp, dns_tcp, http_proxy, socks, tcp, local } = doors;
    egress::Doors { dns_udp, dns_tcp, http_proxy, socks, tcp, signer: local }
}

/// How much a grant may use of its network, as it is configured, for so long.
pub fn permit_limits(configured: &EgressLimits, total: Duration) -> PermitLimits {
    PermitLimits {
        connections: usize::try_from(configured.connections).unwrap_or(usize::MAX),
        bytes: configured.bytes,
        idle: Duration::from_millis(configured.idle_ms),
        total,
    }
}

/// What a model is told of a network that did not let it through.
pub(crate) fn refusals_of(usage: &Usage) -> Vec<String> {
    let refused = usage.events.iter().filter_map(|event| match &event.outcome {
        Outcome::Deny(denial) => Some(format!("refused: `{}`: {denial}", event.place())),
        Outcome::Allow => None,
    });
    refused.take(MOST_TOLD).collect()
}

/// Why somebody was not reached: they were not granted, or they are not there.
pub(crate) fn why_not_reached(usage: &Usage) -> Option<Reason> {
    let mut refused = usage.events.iter().filter_map(|event| match &event.outcome {
        Outcome::Deny(denial) => Some((event, denial)),
        Outcome::Allow => None,
    });
    let (event, denial) = refused.next()?;
    let why = format!("`{}`: {denial}", event.place());
    if !denial.is_about_the_place() {
        return Some(Reason::tool_failed(why));
    }
    let hint = "ask for a host that the call may reach; `toolgate explain` says which it would get";
    Some(Reason::host_not_allowed(why).with_hint(hint))
}

/// The facts of a run, and what its network was used for.
pub(crate) fn with_usage(facts: RunFacts, usage: Usage) -> RunFacts {
    let attempts = usage.events.into_iter().map(|event| Attempt {
        place: event.place(),
        way: event.way.as_str().to_owned(),
        refused: match event.outcome {
            Outcome::Allow => None,
            Outcome::Deny(denial) => Some(denial.code().to_owned()),
        },
        times: event.times,
    });
    let bytes = usage.bytes_per_host.into_iter().map(|(host, bytes)| (host, (bytes.sent, bytes.received)));
    RunFacts {
        attempts: attempts.collect(),
        further_attempts: usage.more,
        bytes_per_host: bytes.collect(),
        ..facts
    }
}
