//! Signs the gate in to servers of tools: OAuth 2.1 as MCP has it, in which the gate is the client.
//!
//! What it gets is put into requests on their way out, like any other credential, and never shown to whoever makes them.
//! Who may have a call made is not known here.
//!
//! # Invariants
//! - A token goes to the address of the server that it was asked for, over TLS or to this machine, and to no other place or path.
//! - Every code is bound to its request: S256, a state of 256 bits, and the issuer where the answer names one.
//! - What one issuer gave, a name, a secret or a token, is shown to no other.
//! - People sign in when they say so. The gate by itself renews what it has, and never opens a page.

mod challenge;
mod client;
mod kept;
mod metadata;
mod returned;
mod settings;
mod token;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use self::challenge::Challenge;
use self::client::{Client, client_for, encoded};
use self::kept::{Kept, Tokens};
use self::metadata::{Found, Issuer, discover};
use self::returned::Returned;
pub use self::settings::{ClientKind, NotSignedIn, SignInBy, SignInEvent, SignInKeeper, SignInSettings};
use self::token::Given;
use crate::Gate;
use crate::credentials::Secret;
use crate::fetch::{Question, WebUrl};

/// A token is renewed so long before its end, in milliseconds.
const EARLY: i64 = 30_000;

/// The sign-in of one server, as long as the gate runs.
pub(crate) struct Held {
    pub(crate) settings: SignInSettings,
    pub(crate) url: WebUrl,
    kept: Mutex<Kept>,
    /// One renews at a time.
    turn: tokio::sync::Mutex<()>,
    keeper: OnceLock<Arc<dyn SignInKeeper>>,
}

impl fmt::Debug for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Held({})", self.settings.server)
    }
}

impl Held {
    pub(crate) fn new(settings: SignInSettings) -> Option<Held> {
        let url = WebUrl::parse(&settings.url)?;
        let kept = Mutex::new(Kept { server: settings.url.clone(), ..Kept::default() });
        Some(Held { settings, url, kept, turn: tokio::sync::Mutex::default(), keeper: OnceLock::new() })
    }

    /// What is shown to the server with a request to this path, if anything is.
    pub(crate) fn token_for(&self, path: &str) -> Option<Secret> {
        // ATTACK(token-for-a-neighbour): others may live at the same place.
        let own = if self.url.path().is_empty() { "/" } else { self.url.path() };
        let kept = self.lock();
        (path == own).then(|| kept.tokens.as_ref().map(|tokens| tokens.access.clone())).flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Whoever panicked with it in hand has left it whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Kept {
        self.lock().clone()
    }

    /// Takes in what was kept last, by whichever gate.
    async fn look(&self) {
        let Some(keeper) = self.keeper.get() else { return };
        if let Some(bytes) = keeper.kept(&self.settings.server).await
            && let Some(kept) = Kept::read(&bytes, &self.settings.url)
        {
            *self.lock() = kept;
        }
    }

    async fn keep(&self, kept: Kept, event: Option<SignInEvent>) -> Result<(), NotSignedIn> {
        let keeper = self.keeper.get().ok_or(NotSignedIn::NotKept)?;
        if !keeper.keep(&self.settings.server, kept.write(), event).await {
            return Err(NotSignedIn::NotKept);
        }
        *self.lock() = kept;
        Ok(())
    }

    async fn tell(&self, why: &NotSignedIn) {
        if let Some(keeper) = self.keeper.get() {
            let event = SignInEvent {
                what: "refused",
                issuer: None,
                resource: Some(self.settings.url.clone()),
                scopes: Vec::new(),
                why: Some(why.to_string()),
            };
            keeper.tell(&self.settings.server, event).await;
        }
    }
}

/// The sign-in of one server.
#[derive(Clone)]
pub struct SignIn {
    pub(crate) gate: Arc<Gate>,
    pub(crate) held: Arc<Held>,
}

impl fmt::Debug for SignIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.fmt(formatter)
    }
}

/// A sign-in that somebody has to say yes to.
pub struct Pending {
    /// The page where they do.
    pub page: String,
    /// Who asks them there.
    pub issuer: String,
    state: Zeroizing<String>,
    verifier: Zeroizing<String>,
    redirect: String,
    asked: Vec<String>,
    client: Client,
    found: Found,
}

impl Pending {
    /// Whether somebody comes back from it with this query, and not from elsewhere.
    pub fn is_answered_by(&self, query: &str) -> bool {
        Returned::read(query).is_some_and(|returned| self.is_ours(&returned))
    }

    fn is_ours(&self, returned: &Returned) -> bool {
        let hash = |text: &str| digest(&SHA256, text.as_bytes());
        let ours = hash(&self.state);
        returned.state.as_ref().is_some_and(|state| hash(state).as_ref() == ours.as_ref())
    }
}

impl SignIn {
    /// Says who keeps it. Once.
    pub fn kept_by(&self, keeper: Arc<dyn SignInKeeper>) {
        let _ = self.held.keeper.set(keeper);
    }

    /// What the server is called.
    pub fn server(&self) -> &str {
        &self.held.settings.server
    }

    /// Makes what there is ready for a request: takes in what other gates have got, and renews what is about to end.
    pub async fn make_ready(&self) {
        self.held.look().await;
        let now = (self.gate.clock)();
        let ends = self.held.lock().tokens.as_ref().is_some_and(|tokens| tokens.until - EARLY <= now);
        if ends {
            let _turn = self.held.turn.lock().await;
            // Somebody else may have done it meanwhile.
            self.held.look().await;
            let tokens = self.held.now().tokens;
            if let Some(tokens) = tokens.filter(|tokens| tokens.until - EARLY <= now) {
                let renewed = self.renew(tokens).await;
                if let Err(why) = renewed {
                    self.held.tell(&why).await;
                }
            }
        }
    }

    /// The server did not let a request in. Whether it is worth while to ask again; else why not.
    pub async fn turned_away(&self, status: u16, authenticate: &[String]) -> Result<(), NotSignedIn> {
        let challenge = Challenge::read(authenticate.iter().map(String::as_str));
        let done = {
            let _turn = self.held.turn.lock().await;
            self.answer(status, challenge).await
        };
        if let Err(why) = &done {
            self.held.tell(why).await;
        }
        done
    }

    async fn answer(&self, status: u16, challenge: Challenge) -> Result<(), NotSignedIn> {
        let shown = self.held.now().tokens;
        self.held.look().await;
        let kept = self.held.now();
        // Another gate has signed in meanwhile.
        if kept.tokens.is_some()
            && kept.tokens.as_ref().map(|t| &t.access) != shown.as_ref().map(|t| &t.access)
        {
            return Ok(());
        }
        let wants = challenge.scopes.clone().unwrap_or_default();
        if status == 403 {
            let is_about_scopes = challenge.error.as_deref() == Some("insufficient_scope");
            let has_asked = |scope| kept.tokens.as_ref().is_some_and(|tokens| tokens.asked.contains(scope));
            // ATTACK(endless-step-up): what was asked for once is not asked for again.
            if !is_about_scopes || wants.is_empty() || wants.iter().all(has_asked) {
                return Err(NotSignedIn::NotEnough);
            }
        }
        let found = discover(&self.gate, &self.held, Some(&challenge)).await?;
        let same = kept.tokens.filter(|tokens| tokens.issuer == found.issuer.issuer);
        match (self.held.settings.by, same) {
            (SignInBy::ClientCredentials, same) => {
                let before = same.map(|tokens| tokens.asked).unwrap_or_default();
                return self.show_ourselves(&found, &challenge, before).await;
            }
            (SignInBy::People, Some(tokens)) if status == 401 && tokens.refresh.is_some() => {
                if self.renew(tokens).await.is_ok() {
                    return Ok(());
                }
            }
            (SignInBy::People, _) => {}
        }
        // What the server asks for is kept for whoever signs in next.
        let mut kept = self.held.now();
        if status == 401 {
            kept.tokens = None;
        }
        kept.challenge = Some(challenge);
        self.held.keep(kept, None).await?;
        Err(NotSignedIn::NobodyHas)
    }

    /// Gets a token with the gate's own name and secret.
    async fn show_ourselves(
        &self,
        found: &Found,
        challenge: &Challenge,
        before: Vec<String>,
    ) -> Result<(), NotSignedIn> {
        let client = client_for(&self.gate, &self.held, &found.issuer, None, None).await?;
        let asked = self.scopes(found, Some(challenge), before);
        let mut form =
            vec![("grant_type", plain("client_credentials")), ("resource", plain(&found.resource.resource))];
        if !asked.is_empty() {
            form.push(("scope", plain(&asked.join(" "))));
        }
        let endpoint = found.issuer.token_endpoint()?;
        let given = token::ask(&self.gate, &self.held, &endpoint, &client, form).await?;
        self.take(given, found, client, asked).await
    }

    /// Renews a token. Where another gate was faster, its token counts.
    async fn renew(&self, tokens: Tokens) -> Result<(), NotSignedIn> {
        let endpoint = WebUrl::parse(&tokens.token_endpoint).ok_or(NotSignedIn::Lacks("token_endpoint"))?;
        let mut form = match (self.held.settings.by, &tokens.refresh) {
            (SignInBy::ClientCredentials, _) => vec![("grant_type", plain("client_credentials"))],
            (SignInBy::People, Some(refresh)) => {
                vec![("grant_type", plain("refresh_token")), ("refresh_token", plain(refresh.expose()))]
            }
            (SignInBy::People, None) => return self.forget(&tokens).await,
        };
        form.push(("resource", plain(&tokens.resource)));
        if self.held.settings.by == SignInBy::ClientCredentials && !tokens.asked.is_empty() {
            form.push(("scope", plain(&tokens.asked.join(" "))));
        }
        match token::ask(&self.gate, &self.held, &endpoint, &tokens.client, form).await {
            Ok(given) => {
                let event = SignInEvent {
                    what: "renewed",
                    issuer: Some(tokens.issuer.clone()),
                    resource: Some(tokens.resource.clone()),
                    scopes: tokens.scopes.clone(),
                    why: None,
                };
                let mut kept = self.held.now();
                kept.tokens = Some(Tokens {
                    until: (self.gate.clock)() + given.lasts * 1000,
                    scopes: given.scopes.unwrap_or(tokens.scopes),
                    access: given.access,
                    // Each is used once, where the issuer gives another.
                    refresh: given.refresh.or(tokens.refresh),
                    ..tokens
                });
                self.held.keep(kept, Some(event)).await
            }
            Err(NotSignedIn::Refused { error }) => {
                self.held.look().await;
                let now = self.held.now().tokens;
                if now.as_ref().is_some_and(|now| now.access != tokens.access) {
                    return Ok(());
                }
                self.forget(&tokens).await?;
                Err(NotSignedIn::Refused { error })
            }
            Err(why) => Err(why),
        }
    }

    /// Drops a token that is of no use any more.
    async fn forget(&self, tokens: &Tokens) -> Result<(), NotSignedIn> {
        let mut kept = self.held.now();
        if kept.tokens.as_ref().is_some_and(|now| now.access == tokens.access) {
            kept.tokens = None;
            self.held.keep(kept, None).await?;
        }
        Ok(())
    }

    /// Begins a sign-in that somebody says yes to, and is sent back to `redirect` from.
    pub async fn begin(&self, redirect: &str) -> Result<Pending, NotSignedIn> {
        let begun = self.try_begin(redirect).await;
        if let Err(why) = &begun {
            self.held.tell(why).await;
        }
        begun
    }

    async fn try_begin(&self, redirect: &str) -> Result<Pending, NotSignedIn> {
        self.held.look().await;
        let kept = self.held.now();
        let challenge = match &kept.challenge {
            Some(challenge) => Some(challenge.clone()),
            None => self.probe().await,
        };
        let found = discover(&self.gate, &self.held, challenge.as_ref()).await?;
        let page = Issuer::endpoint(found.issuer.authorization_endpoint.as_ref(), "authorization_endpoint")?;
        let client =
            client_for(&self.gate, &self.held, &found.issuer, kept.client.as_ref(), Some(redirect)).await?;
        let before = kept.tokens.filter(|tokens| tokens.issuer == found.issuer.issuer);
        let before = before.map(|tokens| tokens.asked).unwrap_or_default();
        let asked = self.scopes(&found, challenge.as_ref(), before);
        let (state, verifier) = (random()?, random()?);
        let hash = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let mut query = vec![
            ("response_type", "code".to_owned()),
            ("client_id", client.id.clone()),
            ("redirect_uri", redirect.to_owned()),
            ("state", state.to_string()),
            ("code_challenge", hash),
            ("code_challenge_method", "S256".to_owned()),
            ("resource", found.resource.resource.clone()),
        ];
        if !asked.is_empty() {
            query.push(("scope", asked.join(" ")));
        }
        if asked.iter().any(|scope| scope == "offline_access") {
            query.push(("prompt", "consent".to_owned()));
        }
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", *encoded(value))).collect();
        let joint = if page.query().is_some() { '&' } else { '?' };
        Ok(Pending {
            page: format!("{}{joint}{}", page.as_str(), query.join("&")),
            issuer: found.issuer.issuer.clone(),
            state,
            verifier,
            redirect: redirect.to_owned(),
            asked,
            client,
            found,
        })
    }

    /// Ends it, with the query that the issuer has sent somebody back with.
    pub async fn finish(&self, pending: Pending, query: &str) -> Result<(), NotSignedIn> {
        let done = {
            let _turn = self.held.turn.lock().await;
            self.try_finish(pending, query).await
        };
        if let Err(why) = &done {
            self.held.tell(why).await;
        }
        done
    }

    async fn try_finish(&self, pending: Pending, query: &str) -> Result<(), NotSignedIn> {
        let answer = Returned::read(query).ok_or(NotSignedIn::OtherState)?;
        // ATTACK(state-mismatch): whoever sends us here has to have been sent there by us.
        if !pending.is_ours(&answer) {
            return Err(NotSignedIn::OtherState);
        }
        // ATTACK(issuer-mix-up): the code of one issuer is shown to no other.
        let issuer = &pending.found.issuer;
        match &answer.issuer {
            Some(named) if *named != issuer.issuer => return Err(NotSignedIn::OtherIssuer),
            None if issuer.authorization_response_iss_parameter_supported => {
                return Err(NotSignedIn::OtherIssuer);
            }
            _ => {}
        }
        if let Some(error) = answer.error {
            return Err(NotSignedIn::Refused { error });
        }
        let code = answer.code.ok_or(NotSignedIn::Lacks("code"))?;
        let form = vec![
            ("grant_type", plain("authorization_code")),
            ("code", code),
            ("redirect_uri", plain(&pending.redirect)),
            ("code_verifier", pending.verifier),
            ("resource", plain(&pending.found.resource.resource)),
        ];
        let endpoint = issuer.token_endpoint()?;
        let given = token::ask(&self.gate, &self.held, &endpoint, &pending.client, form).await?;
        self.take(given, &pending.found, pending.client, pending.asked).await
    }

    async fn take(
        &self,
        given: Given,
        found: &Found,
        client: Client,
        asked: Vec<String>,
    ) -> Result<(), NotSignedIn> {
        let scopes = given.scopes.unwrap_or_else(|| asked.clone());
        let (issuer, resource) = (found.issuer.issuer.clone(), found.resource.resource.clone());
        let event = SignInEvent {
            what: "signed_in",
            issuer: Some(issuer.clone()),
            resource: Some(resource.clone()),
            scopes: scopes.clone(),
            why: None,
        };
        let tokens = Tokens {
            issuer,
            resource,
            token_endpoint: found.issuer.token_endpoint()?.as_str().to_owned(),
            client: client.clone(),
            access: given.access,
            refresh: given.refresh,
            until: (self.gate.clock)() + given.lasts * 1000,
            asked,
            scopes,
        };
        let kept = Kept {
            server: self.held.settings.url.clone(),
            challenge: None,
            client: client.redirect.is_some().then_some(client),
            tokens: Some(tokens),
        };
        self.held.keep(kept, Some(event)).await
    }

    /// What is asked for: as the operator says, else as the server does, and what was asked for before.
    fn scopes(&self, found: &Found, challenge: Option<&Challenge>, before: Vec<String>) -> Vec<String> {
        let wanted = self.held.settings.scopes.clone();
        let wanted = wanted.or_else(|| challenge.and_then(|challenge| challenge.scopes.clone()));
        let wanted = wanted.or_else(|| found.resource.scopes_supported.clone()).unwrap_or_default();
        let mut asked = before;
        for scope in wanted {
            if !asked.contains(&scope) {
                asked.push(scope);
            }
        }
        // So that people are not asked again and again.
        let offline = "offline_access".to_owned();
        let is_known = found.issuer.scopes_supported.as_ref().is_some_and(|known| known.contains(&offline));
        if is_known && self.held.settings.is_for_people() && !asked.contains(&offline) {
            asked.push(offline);
        }
        asked
    }

    /// What the server says to somebody who shows nothing.
    async fn probe(&self) -> Option<Challenge> {
        let body = Some(("application/json", Zeroizing::new(PROBE.as_bytes().to_vec())));
        let accept = Zeroizing::new("application/json, text/event-stream".to_owned());
        let headers = vec![("accept", accept)];
        let question = Question { url: &self.held.url, body, headers, most: 64 * 1024 };
        let said = self.gate.fetch(question, &self.held.settings.bounds).await.ok()?;
        let headers = said.headers.get_all(hyper::header::WWW_AUTHENTICATE).iter();
        (said.status == 401).then(|| Challenge::read(headers.filter_map(|value| value.to_str().ok())))
    }
}

/// A message that any server answers with what it needs to let it in.
const PROBE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

fn plain(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

/// 256 bits that nobody can guess.
fn random() -> Result<Zeroizing<String>, NotSignedIn> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    SystemRandom::new().fill(bytes.as_mut_slice()).map_err(|_| NotSignedIn::NoSecret)?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
}

/// A name that an issuer has given: one line of plain text.
fn text_of(text: String) -> Option<String> {
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte);
    (!text.is_empty() && text.len() <= 2048 && text.bytes().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Bounds;

    #[test]
    fn a_token_is_for_one_path() {
        let settings = SignInSettings {
            server: "s".to_owned(),
            url: "https://a.test/mcp".to_owned(),
            client: ClientKind::Registered,
            by: SignInBy::People,
            scopes: None,
            issuer: None,
            bounds: Bounds::default(),
        };
        let held = Held::new(settings).unwrap();
        assert!(held.token_for("/mcp").is_none(), "nobody has signed in");
        let client =
            Client { issuer: "i".into(), id: "c".into(), proof: client::Proof::Nothing, redirect: None };
        held.lock().tokens = Some(Tokens {
            issuer: "i".into(),
            resource: "https://a.test/mcp".into(),
            token_endpoint: "https://i.test/token".into(),
            client,
            access: Secret::new("t0ken".into()),
            refresh: None,
            until: 0,
            asked: Vec::new(),
            scopes: Vec::new(),
        });
        assert!(held.token_for("/mcp").is_some());
        for path in ["/", "/mcp/", "/mcp2", "/other", ""] {
            assert!(held.token_for(path).is_none(), "{path}");
        }
        let kept = held.now();
        assert_eq!(Kept::read(&kept.write(), "https://a.test/mcp"), Some(kept.clone()));
        assert_eq!(Kept::read(&kept.write(), "https://b.test/mcp"), None, "it has moved");
        assert!(!format!("{kept:?}").contains("t0ken"));
    }
}
