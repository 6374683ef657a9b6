//! A world to reach for, and nothing else: a network namespace in which every address is this machine, with a name server
//! and web servers that note whoever comes.
//!
//! An attack on egress is judged here, at the target: what matters is who was reached, under which address and name.

mod forge;
mod git;
mod names;
mod space;
mod ssh;
mod web;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Try;

pub(crate) use git::serve_beneath;
pub use space::enter_if_possible;
pub(crate) use ssh::serve_ssh;

/// Where the world's name server is.
pub(crate) const NAME_SERVER: &str = "9.9.9.9:53";

/// One who was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// By which address.
    pub(crate) address: IpAddr,
    /// At which port.
    pub(crate) port: u16,
    /// Which name the visitor meant, if it spoke TLS and said so.
    pub(crate) sni: Option<String>,
    /// What it asked: the first line, the headers, and what came with them.
    pub(crate) request: String,
}

impl Visit {
    /// Whether the request holds this text.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.request.contains(text)
    }
}

/// Servers for every address, and what they have seen.
pub(crate) struct World {
    visits: Arc<Mutex<Vec<Visit>>>,
    asked: Arc<Mutex<Vec<String>>>,
    authority: String,
}

impl World {
    /// The one world of this process. It begins when it is first looked at.
    pub(crate) fn get() -> Try<&'static World> {
        static WORLD: OnceLock<Result<World, String>> = OnceLock::new();
        let world = WORLD.get_or_init(|| World::begin().map_err(|error| error.to_string()));
        world.as_ref().map_err(|error| format!("the world cannot begin: {error}").into())
    }

    fn begin() -> Try<World> {
        let (visits, asked) = <(Arc<Mutex<Vec<Visit>>>, Arc<Mutex<Vec<String>>>)>::default();
        names::serve(Arc::clone(&asked))?;
        let authority = web::serve(&visits)?;
        Ok(World { visits, asked, authority })
    }

    /// Who has come since.
    pub(crate) fn visits(&self) -> Vec<Visit> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those who sent this text; a case puts one of its own into all that it sends, because others run beside it.
    pub(crate) fn visits_with(&self, token: &str) -> Vec<Visit> {
        self.visits().into_iter().filter(|visit| visit.says(token)).collect()
    }

    /// Whether the name server was asked for a name with this text in it.
    pub(crate) fn was_asked_for(&self, text: &str) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().any(|name| name.contains(text))
    }

    /// The certificate of those who vouch for the web servers, in PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}
