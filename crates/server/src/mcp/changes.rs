//! Tells clients that what they were told of tools, prompts and resources is no longer so, whoever has changed it.
//!
//! # Invariants
//! - A client is told when what its own agent sees has become another, and not because others have changed something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contract::Digest;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Server;
use super::disclosure::definitions;

/// What a client follows in its session. Ends with the server that it talks to.
pub(super) struct Followed {
    /// The addresses as the client has them, by server and what that calls them.
    addresses: Arc<Mutex<HashMap<(String, String), String>>>,
    /// What the client was last told that its tools are.
    told: Arc<Mutex<Option<Digest>>>,
    ended: CancellationToken,
    _ends: DropGuard,
}

impl Default for Followed {
    fn default() -> Followed {
        let ended = CancellationToken::new();
        Followed { addresses: Arc::default(), told: Arc::default(), _ends: ended.clone().drop_guard(), ended }
    }
}

/// As many updates as wait to be told.
const MOST_WAITING: usize = 64;
/// As many addresses as one client follows.
const MOST_FOLLOWED: usize = 256;

impl Followed {
    /// Whether a client was not told yet that its tools are these. From now on it is.
    fn is_news(&self, tools: Digest) -> bool {
        lock(&self.told).replace(tools) != Some(tools)
    }

    pub(super) fn set(&self, server: &str, own: &str, shown: &str, following: Following) {
        let mut addresses = lock(&self.addresses);
        let key = (server.to_owned(), own.to_owned());
        match following {
            Following::Begins if addresses.len() < MOST_FOLLOWED => {
                drop(addresses.insert(key, shown.to_owned()));
            }
            Following::Begins => {}
            Following::Ends => drop(addresses.remove(&key)),
        }
    }
}

/// Whether a client begins to follow what is at an address, or ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Begins,
    Ends,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an agent sees, in short.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    tools: Digest,
    prompts: Digest,
    resources: Digest,
}

/// What has become another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changed {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// The address of something that has, as the client has it.
    updated: Option<String>,
}

/// Waits for changes.
struct Watch<'a> {
    server: &'a Server,
    catalogue: watch::Receiver<u64>,
    loaded: watch::Receiver<u64>,
    /// What servers of others say has become another: which server, and at which of its addresses.
    updates: mpsc::Receiver<(String, String)>,
    seen: Seen,
}

impl Server {
    fn seen(&self) -> Seen {
        fn digest<T: serde::Serialize>(value: &T) -> Digest {
            Digest::of(&serde_json::to_vec(value).unwrap_or_default())
        }
        Seen {
            tools: digest(&definitions(&self.engine, &self.agent, None)),
            prompts: digest(&self.prompts().prompts),
            resources: digest(&(self.resources_of_others(), self.templates_of_others())),
        }
    }

    /// Whether a client that has changed its tools itself has to be told.
    pub(super) fn tools_are_news(&self) -> bool {
        self.followed.is_news(self.seen().tools)
    }

    fn watch(&self) -> Watch<'_> {
        let (say, updates) = mpsc::channel(MOST_WAITING);
        for upstream in self.engine.upstreams() {
            let (name, mut updates) = (upstream.name().to_owned(), upstream.updates());
            let (say, agent) = (say.clone(), self.agent.clone());
            tokio::spawn(async move {
                loop {
                    let next = tokio::select! {
                        () = say.closed() => return,
                        next = updates.recv() => next,
                    };
                    match next {
                        // What nobody takes in time is not told.
                        Ok((of, uri)) if of == agent => drop(say.try_send((name.clone(), uri))),
                        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return,
                    }
                }
            });
        }
        Watch {
            server: self,
            catalogue: self.engine.catalogue_changes(),
            loaded: self.engine.loaded_changes(),
            updates,
            seen: self.seen(),
        }
    }

    /// Tells a client of a session for as long as that lasts.
    pub(super) fn follow(&self, peer: Peer<RoleServer>) {
        let ended = self.followed.ended.clone();
        let Followed { addresses, told, .. } = &self.followed;
        let followed =
            Followed { addresses: Arc::clone(addresses), told: Arc::clone(told), ..Followed::default() };
        let watcher = Server { followed, ..self.like() };
        tokio::spawn(async move {
            let mut watch = watcher.watch();
            loop {
                let changed = tokio::select! {
                    () = ended.cancelled() => return,
                    changed = watch.next() => changed,
                };
                if peer.is_transport_closed() {
                    return;
                }
                if changed.tools {
                    let _ = peer.notify_tool_list_changed().await;
                }
                if changed.prompts {
                    let _ = peer.notify_prompt_list_changed().await;
                }
                if changed.resources {
                    let _ = peer.notify_resource_list_changed().await;
                }
                if let Some(uri) = changed.updated {
                    let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
                }
            }
        });
    }

    /// What is told to a client that listens without a session.
    pub(super) fn told_of(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let mut told = requested.clone();
        // A server of others says so within a session with us, which such a client has not.
        told.resource_subscriptions = None;
        told
    }

    /// Tells one that listens without a session.
    pub(super) async fn tell_listener(&self, context: &SubscriptionContext) {
        let mut watch = self.watch();
        loop {
            let changed = tokio::select! {
                () = context.cancelled() => return,
                changed = watch.next() => changed,
            };
            // What this one did not ask for is not sent.
            if changed.tools {
                let _ = context.sink().notify_tool_list_changed().await;
            }
            if changed.prompts {
                let _ = context.sink().notify_prompt_list_changed().await;
            }
            if changed.resources {
                let _ = context.sink().notify_resource_list_changed().await;
            }
        }
    }
}

impl Watch<'_> {
    /// The next change of what the agent sees.
    async fn next(&mut self) -> Changed {
        loop {
            let updated = tokio::select! {
                // Whoever has nothing more to say, as where there are no servers of others, keeps nobody from hearing the rest.
                Ok(()) = self.catalogue.changed() => None,
                Ok(()) = self.loaded.changed() => None,
                Some(updated) = self.updates.recv() => Some(updated),
                else => std::future::pending().await,
            };
            if let Some(of) = updated {
                match lock(&self.server.followed.addresses).get(&of).cloned() {
                    Some(uri) => return Changed { updated: Some(uri), ..Changed::default() },
                    None => continue,
                }
            }
            let before = std::mem::replace(&mut self.seen, self.server.seen());
            let changed = Changed {
                tools: before.tools != self.seen.tools && self.server.followed.is_news(self.seen.tools),
                prompts: before.prompts != self.seen.prompts,
                resources: before.resources != self.seen.resources,
                updated: None,
            };
            if changed != Changed::default() {
                return changed;
            }
        }
    }
}
