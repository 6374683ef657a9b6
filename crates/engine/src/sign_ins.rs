//! Sign-ins of the gate to other people's servers: kept sealed in the store, and told in the ledger.
//!
//! It knows no token: what is kept is bytes.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use serde_json::json;
use store::StoreError;
use tools::mcp::{SignIn, SignInEvent, SignInKeeper};
use zeroize::Zeroizing;

use crate::engine::{Engine, Inner};

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Not for as long as anybody asks: what it keeps for belongs to the engine.
struct Keeper(Weak<Inner>);

impl Keeper {
    fn engine(&self) -> Option<Engine> {
        self.0.upgrade().map(|inner| Engine { inner, held: None, caller: None, session: None })
    }
}

impl Engine {
    /// How the gate signs in to a server, if it does.
    pub fn sign_in(&self, server: &str) -> Option<SignIn> {
        self.inner.surroundings.sign_in(server)
    }

    /// Has the sign-ins of the configured servers kept.
    pub(crate) fn keep_sign_ins(&self) {
        let keeper: Arc<dyn SignInKeeper> = Arc::new(Keeper(Arc::downgrade(&self.inner)));
        for upstream in self.upstreams() {
            if let Some(sign_in) = self.sign_in(upstream.name()) {
                sign_in.kept_by(Arc::clone(&keeper));
            }
        }
    }
}

impl SignInKeeper for Keeper {
    fn kept<'a>(&'a self, server: &'a str) -> Later<'a, Option<Zeroizing<Vec<u8>>>> {
        Box::pin(async move {
            let kept = self.engine()?.inner.store.sign_in(server).await;
            kept.inspect_err(|error| tracing::warn!(server, %error, "a sign-in cannot be read"))
                .ok()
                .flatten()
        })
    }

    fn keep<'a>(
        &'a self,
        server: &'a str,
        kept: Zeroizing<Vec<u8>>,
        event: Option<SignInEvent>,
    ) -> Later<'a, bool> {
        Box::pin(async move {
            let Some(engine) = self.engine() else { return false };
            let told = event.map(|event| told(server, event));
            let done: Result<(), StoreError> =
                engine.inner.store.keep_sign_in(server, &kept, told, engine.now()).await;
            done.inspect_err(|error| tracing::warn!(server, %error, "a sign-in cannot be kept")).is_ok()
        })
    }

    fn tell<'a>(&'a self, server: &'a str, event: SignInEvent) -> Later<'a, ()> {
        Box::pin(async move {
            let (Some(engine), (kind, body)) = (self.engine(), told(server, event)) else { return };
            if let Err(error) = engine.inner.store.tell_of_sign_in(kind, body, engine.now()).await {
                tracing::warn!(server, %error, "the ledger was not told of a sign-in");
            }
        })
    }
}

/// What the ledger is told: who and what for, and no secret.
fn told(server: &str, event: SignInEvent) -> (&'static str, serde_json::Value) {
    let SignInEvent { what, issuer, resource, scopes, why } = event;
    let kind = match what {
        "signed_in" => "server.signed_in",
        "renewed" => "server.sign_in_renewed",
        _ => "server.sign_in_refused",
    };
    let body =
        json!({ "server": server, "issuer": issuer, "resource": resource, "scopes": scopes, "why": why });
    (kind, body)
}
