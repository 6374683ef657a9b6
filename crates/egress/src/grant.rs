//! One open grant: its doors, its tasks, and what it was used for.
//!
//! Decides nothing about protocols; it says which place is meant, and keeps count.
//!
//! # Invariants
//! - Every task and connection of the grant belongs to it, and ends with it: also when it is merely dropped.
//! - No lookup goes out for a host that the permit does not hold.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use contract::{Host, Target};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::{Denial, Outcome, Record, Usage, Way};
use crate::names::Names;
use crate::permit::Permit;
use crate::resolve::Checked;
use crate::ssh::Login;
use crate::{Gate, OpenError};

/// As many requests of one grant as are held in memory at once.
const TURNS: usize = 8;

/// Sockets that listen inside a sandbox's network, where every address leads to them.
#[derive(Debug)]
pub struct Doors {
    /// `127.0.0.1:53`, UDP.
    pub dns_udp: OwnedFd,
    /// `127.0.0.1:53`, TCP.
    pub dns_tcp: OwnedFd,
    /// `127.0.0.1:3128`.
    pub http_proxy: OwnedFd,
    /// `127.0.0.1:1080`.
    pub socks: OwnedFd,
    /// For each granted port, one that listens on every address of both families.
    pub tcp: Vec<(u16, OwnedFd)>,
    /// A unix socket, for whoever logs in over ssh.
    pub signer: Option<OwnedFd>,
}

/// A grant that is open. Dropping it ends every task and connection of it.
#[derive(Debug)]
pub struct OpenGrant {
    grant: Arc<Grant>,
}

impl OpenGrant {
    pub(crate) fn new(gate: Arc<Gate>, permit: Permit, doors: Doors) -> Result<OpenGrant, OpenError> {
        let permit = gate.guards.kept(permit);
        let names = Names::new(gate.supply.clone());
        let record = Record::new(gate.clock, permit.limits.bytes);
        let slots = Arc::new(Semaphore::new(permit.limits.connections.min(Semaphore::MAX_PERMITS)));
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let total = permit.limits.total;
        let grant =
            Arc::new(Grant { permit, names, record, gate, slots, turns: Semaphore::new(TURNS), tasks, end });
        // From here on, an error on the way drops it, and with it what was begun.
        let open = OpenGrant { grant };
        open.attend(doors)?;
        let end = open.grant.end.clone();
        open.grant.spawn(async move {
            tokio::time::sleep(total).await;
            end.cancel();
        });
        Ok(open)
    }

    fn attend(&self, doors: Doors) -> Result<(), OpenError> {
        let grant = &self.grant;
        let asked = udp(doors.dns_udp)?;
        grant.spawn(crate::dns_door::answer_packets(Arc::clone(grant), asked));
        self.listen(doors.dns_tcp, Way::Dns, crate::dns_door::answer_stream)?;
        self.listen(doors.http_proxy, Way::Connect, crate::connect::serve)?;
        self.listen(doors.socks, Way::Socks, crate::socks::serve)?;
        for (port, door) in doors.tcp {
            self.listen(door, Way::Tcp, move |grant, stream| crate::carry::serve(grant, stream, port))?;
        }
        doors.signer.map_or(Ok(()), |door| self.listen_locally(door))
    }

    /// Has the signer answer whoever comes by its door.
    fn listen_locally(&self, door: OwnedFd) -> Result<(), OpenError> {
        let listener = unix(door)?;
        let grant = Arc::clone(&self.grant);
        self.grant.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                // It counts among the grant's connections.
                match (grant.take_slot(), &grant.permit.login) {
                    (Some(slot), _) => {
                        let work = crate::ssh::serve(Arc::clone(&grant), stream);
                        grant.spawn(async move {
                            work.await;
                            drop(slot);
                        });
                    }
                    (None, Some(Login { target, .. })) => {
                        let host = target.host.to_string();
                        grant.deny(&host, target.port, Way::Signer, Denial::TooManyConnections);
                    }
                    (None, None) => {}
                }
            }
        });
        Ok(())
    }

    /// Serves every connection that comes in by a door, in a task of its own.
    fn listen<F, S>(&self, door: OwnedFd, way: Way, serve: F) -> Result<(), OpenError>
    where
        F: Fn(Arc<Grant>, TcpStream) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = tcp(door)?;
        let grant = Arc::clone(&self.grant);
        self.grant.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Out of descriptors, or the client is gone again: neither is mended by haste.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                match grant.take_slot() {
                    Some(slot) => {
                        let work = serve(Arc::clone(&grant), stream);
                        grant.spawn(async move {
                            work.await;
                            drop(slot);
                        });
                    }
                    None => {
                        let Ok(at) = stream.local_addr() else { continue };
                        let host = at.ip().to_canonical().to_string();
                        grant.deny(&host, at.port(), way, Denial::TooManyConnections);
                    }
                }
            }
        });
        Ok(())
    }

    /// What it was used for so far.
    pub fn usage_so_far(&self) -> Usage {
        self.grant.record.usage()
    }

    /// Ends every connection and says what the grant was used for.
    pub async fn close(self) -> Usage {
        self.grant.end.cancel();
        self.grant.tasks.close();
        self.grant.tasks.wait().await;
        self.grant.record.usage()
    }
}

impl Drop for OpenGrant {
    fn drop(&mut self) {
        self.grant.end.cancel();
    }
}

/// What the tasks of a grant share.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) permit: Permit,
    pub(crate) names: Names,
    pub(crate) record: Record,
    pub(crate) gate: Arc<Gate>,
    slots: Arc<Semaphore>,
    /// For requests that are held in memory.
    pub(crate) turns: Semaphore,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Grant {
    /// Runs `work` for as long as the grant is open.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = work => {}
            }
        });
    }

    fn take_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }

    /// Programs know the addresses of `localhost` by themselves, and ask nobody: where that name is granted, and the address is
    /// not, the name is meant.
    fn as_localhost(&self, target: Target) -> Target {
        let is_loopback = target.host.address().is_some_and(|address| address.to_canonical().is_loopback());
        if !is_loopback || self.permit.covers(&target) {
            return target;
        }
        match Host::parse("localhost").map(|host| Target { host, port: target.port }) {
            Ok(named) if self.permit.covers(&named) => named,
            _ => target,
        }
    }

    /// Which place of the permit is meant by a host and a port. An address that was given for a name means the name.
    pub(crate) fn place(&self, host: Host, port: u16) -> Result<Target, (Host, Denial)> {
        let host = match host.address().map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => self.names.name_at(address).unwrap_or(host),
            _ => host,
        };
        let target = self.as_localhost(Target { host, port });
        let refused = if self.permit.covers(&target) {
            self.names.may_use(&self.permit, &target.host).err()
        } else if target.host.address().is_some() {
            Some(Denial::AddressNotGranted)
        } else {
            Some(self.permit.via(&target.host).map_or(Denial::HostNotGranted, |_| Denial::PortNotGranted))
        };
        match refused {
            None => Ok(target),
            Some(denial) => Err((target.host, denial)),
        }
    }

    /// The place that is meant, and its addresses, all of them permitted.
    pub(crate) async fn check(&self, host: Host, port: u16) -> Result<Checked, (Host, Denial)> {
        let target = self.place(host, port)?;
        // Also a name that nobody asked the DNS for counts among those of the grant.
        if target.host.name().is_some() {
            let counted = self.names.address_of(&self.permit, &target.host);
            counted.map_err(|denial| (target.host.clone(), denial))?;
        }
        let host = target.host.clone();
        let checked = self.gate.resolver.check(&self.permit, target, self.gate.guards).await;
        checked.map_err(|denial| (host, denial))
    }

    pub(crate) fn allow(&self, target: &Target, way: Way) {
        self.record.note(&target.host.to_string(), target.port, way, Outcome::Allow);
    }

    pub(crate) fn deny(&self, host: &str, port: u16, way: Way, denial: Denial) {
        tracing::debug!(host, port, ?way, reason = denial.code(), "refused a connection");
        self.record.note(host, port, way, Outcome::Deny(denial));
    }
}

fn tcp(door: OwnedFd) -> Result<TcpListener, OpenError> {
    let listener = std::net::TcpListener::from(door);
    listener.set_nonblocking(true).map_err(|source| OpenError::Door { source })?;
    TcpListener::from_std(listener).map_err(|source| OpenError::Door { source })
}

fn unix(door: OwnedFd) -> Result<UnixListener, OpenError> {
    let listener = std::os::unix::net::UnixListener::from(door);
    listener.set_nonblocking(true).map_err(|source| OpenError::Door { source })?;
    UnixListener::from_std(listener).map_err(|source| OpenError::Door { source })
}

fn udp(door: OwnedFd) -> Result<UdpSocket, OpenError> {
    let socket = std::net::UdpSocket::from(door);
    socket.set_nonblocking(true).map_err(|source| OpenError::Door { source })?;
    UdpSocket::from_std(socket).map_err(|source| OpenError::Door { source })
}
