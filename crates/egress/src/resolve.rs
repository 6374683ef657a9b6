//! Finds the real addresses of a granted host, refuses all of them if one is not permitted, and dials one that was checked.
//!
//! The only place that asks a resolver and the only one that connects to the outside. It never dials a name.
//!
//! # Invariants
//! - What a sandbox makes the gate dial was checked by this very lookup: an answer that changes afterwards changes nothing.
//! - One address that is not permitted refuses the host.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use contract::{Host, Private, Target};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::net::TcpStream;

use crate::EgressError;
use crate::events::Denial;
use crate::guards::{Guard, Guards};
use crate::permit::Permit;

/// Trying more addresses of one host than this is of no use to anybody.
const MAX_TRIES: usize = 8;
const LONGEST_LIFE: Duration = Duration::from_secs(3600);

/// A place of the grant, and its addresses, every one of which may be dialled.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) target: Target,
    addresses: Vec<IpAddr>,
}

/// Asks for the addresses of hosts; has a cache of its own.
pub(crate) struct Resolver {
    /// Nothing where there is nobody to ask.
    resolver: Option<TokioResolver>,
    patience: Duration,
}

impl Resolver {
    /// Asks these, or the machine's own if none are named. A machine that has none finds no name; addresses need nobody.
    pub(crate) fn new(nameservers: &[SocketAddr], patience: Duration) -> Result<Resolver, EgressError> {
        let provider = TokioRuntimeProvider::default();
        if nameservers.is_empty() {
            let built = TokioResolver::builder(provider).and_then(|mut builder| {
                configure(builder.options_mut(), patience);
                builder.build()
            });
            return Ok(Resolver { resolver: built.ok(), patience });
        }
        let servers = nameservers.iter().map(name_server).collect();
        let mut builder =
            TokioResolver::builder_with_config(ResolverConfig::from_name_servers(servers), provider);
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
        configure(builder.options_mut(), patience);
        let built = builder.build().map_err(|source| EgressError::Resolver { source: source.into() })?;
        Ok(Resolver { resolver: Some(built), patience })
    }

    /// The addresses of a granted place, if all of them are permitted.
    pub(crate) async fn check(
        &self,
        permit: &Permit,
        target: Target,
        guards: Guards,
    ) -> Result<Checked, Denial> {
        if let Some(kind) = permit.private.refuses_host(&target.host) {
            return Err(Denial::SpecialName { kind });
        }
        let addresses = self.addresses_of(&target.host).await?;
        if addresses.is_empty() {
            return Err(Denial::NotFound);
        }
        // One bad address among good ones is an attempt, not an accident: none of them is dialled.
        for address in &addresses {
            if permit.blocks(&Host::from(*address)) {
                return Err(Denial::Blocked);
            }
            if let Some(kind) = permit
                .private_for(&target, *address)
                .refuses(*address)
                .filter(|_| guards.stands(Guard::Addresses))
            {
                return Err(Denial::SpecialAddress { address: *address, kind });
            }
        }
        Ok(Checked { target, addresses })
    }

    /// The addresses of a place that an operator named, if all of them are permitted.
    pub(crate) async fn check_own(
        &self,
        target: Target,
        private: &Private,
        guards: Guards,
    ) -> Result<Checked, Denial> {
        if let Some(kind) = private.refuses_host(&target.host) {
            return Err(Denial::SpecialName { kind });
        }
        let addresses = self.addresses_of(&target.host).await?;
        if addresses.is_empty() {
            return Err(Denial::NotFound);
        }
        let is_refused = |address: &IpAddr| private.refuses(*address).map(|kind| (*address, kind));
        match addresses.iter().find_map(is_refused).filter(|_| guards.stands(Guard::Addresses)) {
            Some((address, kind)) => Err(Denial::SpecialAddress { address, kind }),
            None => Ok(Checked { target, addresses }),
        }
    }

    /// Connects to a service of the operator's own, wherever it is. No sandbox has a say in it.
    pub(crate) async fn dial_own(&self, target: &Target) -> Option<TcpStream> {
        let addresses = self.addresses_of(&target.host).await.ok()?;
        dial(&addresses, target.port, self.patience).await.ok()
    }

    async fn addresses_of(&self, host: &Host) -> Result<Vec<IpAddr>, Denial> {
        if let Some(address) = host.address() {
            return Ok(vec![address]);
        }
        let Some(resolver) = &self.resolver else {
            tracing::warn!("this machine names no server to ask for addresses, so no name is found");
            return Err(Denial::NotFound);
        };
        // The dot at the end: no search list makes another name of it.
        let asked = resolver.lookup_ip(format!("{host}."));
        let Ok(Ok(found)) = tokio::time::timeout(self.patience, asked).await else {
            return Err(Denial::NotFound);
        };
        // IPv4 first: not every machine that has an IPv6 address has a route.
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        addresses.sort_by_key(IpAddr::is_ipv6);
        Ok(addresses)
    }
}

impl Checked {
    /// Whether it is this very machine, by every address.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.addresses.iter().all(IpAddr::is_loopback)
    }

    /// Connects to one of the addresses, in turn.
    pub(crate) async fn dial(&self, patience: Duration) -> Result<TcpStream, Denial> {
        dial(&self.addresses, self.target.port, patience).await
    }
}

async fn dial(addresses: &[IpAddr], port: u16, patience: Duration) -> Result<TcpStream, Denial> {
    for address in addresses.iter().take(MAX_TRIES) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that dials: what a sandbox asks for comes from a `Checked`, the rest is the operator's own"
        )]
        let dialled = TcpStream::connect(SocketAddr::new(*address, port));
        if let Ok(Ok(stream)) = tokio::time::timeout(patience, dialled).await {
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
    }
    Err(Denial::Unreachable)
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(with_port).to_vec();
    NameServerConfig::new(address.ip(), true, connections)
}

fn configure(options: &mut ResolverOpts, patience: Duration) {
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.positive_max_ttl = Some(LONGEST_LIFE);
    options.negative_max_ttl = Some(Duration::from_secs(10));
    // Of the two kinds of address one may never be answered for; the other counts, before our patience ends.
    options.timeout = options.timeout.min(patience / 3);
    options.attempts = options.attempts.min(2);
    options.ndots = 1;
}
