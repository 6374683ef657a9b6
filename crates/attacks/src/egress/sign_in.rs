//! A server that wants somebody to sign in, and issuers, hostile in each way that one can be. What they get is seen where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::{Category, Level, Private, Reach, Target};
use egress::Guard;
use policy::{
    Agent, Credential, CredentialForm, Overrides, SecretSource, Settings, SignInGrant, SignInSettings,
    UpstreamSettings, UpstreamWay, categories_of,
};
use serde_json::json;
use tools::mcp::{NotSignedIn, Pending, Refresh, SignIn, Upstream};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, settings_of};
use crate::place::token;
use crate::world::World;

use super::trip::granting;

const NAME: &str = "s";
const BACK: &str = "http://127.0.0.1:1/callback";
/// What the issuer gives, and nobody but the server may see.
const TOKEN: &str = "t0ken-of-the-issuer";
const CODE: &str = "c0de-of-the-issuer";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "metadata-at-a-private-address",
            "an issuer that a server names at an address nobody has opted in to is not asked",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let token = token();
                let begun = begin_at(stand, &format!("https://private.test/{token}"))?;
                if stand.without.is_none() {
                    refused(&begun)?;
                }
                Ok(Effect::through_if(!World::get()?.visits_with(&token).is_empty(), "it was asked"))
            },
        )
        .held_by(Guard::Addresses)
        .before_any_call(),
        Case::new(
            "authorization-endpoint-scheme",
            "nobody is sent to a page that is none of the web, or that others can read",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let mut through = Vec::new();
                for page in [
                    "javascript:alert(1)//",
                    "file:///etc/passwd",
                    "http://evil.test/authorize",
                    "data:text/html,x",
                ] {
                    let town = Town::begin(Malice::Page(page))?;
                    let (_gate, sign_in) = town.gate(stand)?;
                    if let Ok(pending) = runtime()?.block_on(sign_in.begin(BACK)) {
                        through.push(pending.page);
                    }
                }
                Ok(Effect::through_if(!through.is_empty(), format!("{through:?}")))
            },
        )
        .before_any_call(),
        Case::new(
            "state-mismatch",
            "an answer to another sign-in, or to none, gets no token",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let town = Town::begin(Malice::Honest)?;
                let (gate, sign_in) = town.gate(stand)?;
                let forged: [fn(&str) -> String; 5] = [
                    |_| format!("code={CODE}"),
                    |_| format!("code={CODE}&state="),
                    |_| format!("code={CODE}&state=guessed"),
                    |state| format!("code={CODE}&state={state}&state={state}"),
                    |state| format!("code={CODE}&state={}", state.get(1..).unwrap_or_default()),
                ];
                for forge in forged {
                    let pending = runtime()?.block_on(sign_in.begin(BACK))?;
                    let query = forge(&state_of(&pending));
                    refused(&runtime()?.block_on(sign_in.finish(pending, &query)))?;
                }
                town.judged(&gate)
            },
        )
        .before_any_call(),
        Case::new(
            "issuer-mix-up",
            "the code of one issuer is shown to no other, and nobody speaks for another",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let town = Town::begin(Malice::Honest)?;
                let (gate, sign_in) = town.gate(stand)?;
                for issuer in ["https://evil.test", "", "http://127.0.0.1:1"] {
                    let pending = runtime()?.block_on(sign_in.begin(BACK))?;
                    let query = format!("code={CODE}&state={}&iss={issuer}", state_of(&pending));
                    refused(&runtime()?.block_on(sign_in.finish(pending, &query)))?;
                }
                // One that promises to say its name, and does not; nearly the same; and metadata in another's name.
                let pending = runtime()?.block_on(sign_in.begin(BACK))?;
                let query = format!("code={CODE}&state={}", state_of(&pending));
                refused(&runtime()?.block_on(sign_in.finish(pending, &query)))?;
                let pending = runtime()?.block_on(sign_in.begin(BACK))?;
                let query = format!("code={CODE}&state={}&iss={}/", state_of(&pending), town.issuer);
                refused(&runtime()?.block_on(sign_in.finish(pending, &query)))?;
                let other = Town::begin(Malice::OtherName)?;
                let (_other_gate, sign_in) = other.gate(stand)?;
                refused(&runtime()?.block_on(sign_in.begin(BACK)).map(drop))?;
                town.judged(&gate)
            },
        )
        .before_any_call(),
        Case::new(
            "pkce-downgrade",
            "an issuer that does not promise S256 gets no question",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let mut through = false;
                for methods in [json!(null), json!([]), json!(["plain"])] {
                    let town = Town::begin(Malice::Methods(methods))?;
                    let (_gate, sign_in) = town.gate(stand)?;
                    through |= runtime()?.block_on(sign_in.begin(BACK)).is_ok() || town.came_to(Who::Token);
                }
                Ok(Effect::through_if(through, "a page was made"))
            },
        )
        .before_any_call(),
        Case::new(
            "resource-of-another",
            "metadata about another server, or at another's, is not believed",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let mut through = false;
                for malice in [Malice::Resource("https://evil.test/mcp"), Malice::MetadataElsewhere] {
                    let town = Town::begin(malice)?;
                    let (_gate, sign_in) = town.gate(stand)?;
                    through |=
                        runtime()?.block_on(sign_in.begin(BACK)).is_ok() || town.came_to(Who::Elsewhere);
                }
                Ok(Effect::through_if(through, "it was believed"))
            },
        )
        .before_any_call(),
        Case::new(
            "endless-metadata",
            "of what a stranger says of itself no more is read than is of use",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let town = Town::begin(Malice::Endless)?;
                let (_gate, sign_in) = town.gate(stand)?;
                let begun = runtime()?.block_on(sign_in.begin(BACK));
                Ok(Effect::through_if(begun.is_ok(), "it was all read"))
            },
        )
        .before_any_call(),
        Case::new(
            "token-redirected",
            "what is meant for the issuer does not go where the issuer leads",
            |stand| {
                let town = Town::begin(Malice::TokenLeadsAway)?;
                let url = format!("{}/token", town.issuer);
                stand.bare("curl", &["-sSL", "--max-time", "8", "--data", CODE, &url], &stand.workspace)?;
                Ok(Effect::through_if(town.seen_by(Who::Elsewhere, CODE), "it has the code"))
            },
            |stand| {
                let town = Town::begin(Malice::TokenLeadsAway)?;
                let (_gate, sign_in) = town.gate(stand)?;
                refused(&town.sign_in(&sign_in))?;
                Ok(Effect::through_if(town.came_to(Who::Elsewhere), "it was followed"))
            },
        )
        .before_any_call(),
        Case::new(
            "token-for-a-neighbour",
            "a token goes to the address of its server: not to another path, nor where the server leads, nor into an answer",
            |stand| {
                let town = Town::begin(Malice::ServerLeadsAway)?;
                let url = format!("{}/mcp", town.server);
                let bearer = format!("Authorization: Bearer {TOKEN}");
                let words =
                    ["-sSL", "--location-trusted", "--max-time", "8", "-H", &bearer, "--data", "{}", &url];
                stand.bare("curl", &words, &stand.workspace)?;
                Ok(Effect::through_if(town.seen_by(Who::Elsewhere, TOKEN), "it has the token"))
            },
            |stand| {
                let town = Town::begin(Malice::ServerLeadsAway)?;
                let (gate, sign_in) = town.gate(stand)?;
                town.sign_in(&sign_in)?;
                let result =
                    gate.call("mcp.refresh", json!({ "server": NAME }), Ending::Failed("tool_failed"))?;
                let told = serde_json::to_string(&result)?;
                // The one that says back what it was shown; and a neighbour at the same place.
                let echo = Town::begin(Malice::Echo)?;
                let (echo_gate, sign_in) = echo.gate(stand)?;
                echo.sign_in(&sign_in)?;
                let said = echo_gate.call(
                    "mcp.refresh",
                    json!({ "server": NAME }),
                    Ending::Failed("tool_failed"),
                )?;
                let neighbour =
                    echo_gate.call("mcp.refresh", json!({ "server": "n" }), Ending::Failed("tool_failed"))?;
                let texts = [told, serde_json::to_string(&said)?, serde_json::to_string(&neighbour)?];
                if !echo.seen_by(Who::Server, TOKEN) {
                    return Err("the server itself has not got it".into());
                }
                let through = town.seen_by(Who::Elsewhere, TOKEN)
                    || echo.seen_by(Who::Neighbour, TOKEN)
                    || texts.iter().any(|text| text.contains(TOKEN));
                Ok(Effect::through_if(through, format!("it went further: {texts:?}")))
            },
        ),
        Case::new(
            "endless-step-up",
            "a server that wants more and more is asked so often and no more",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let town = Town::begin(Malice::WantsMore)?;
                let (gate, sign_in) = town.gate(stand)?;
                town.sign_in(&sign_in)?;
                let mut rounds = 0;
                for _ in 0..6 {
                    let said =
                        gate.call("mcp.refresh", json!({ "server": NAME }), Ending::Failed("tool_failed"))?;
                    let hint = serde_json::to_string(&said)?;
                    if !hint.contains("tools login") {
                        break;
                    }
                    rounds += 1;
                    town.sign_in(&sign_in)?;
                }
                Ok(Effect::through_if(rounds > 2, format!("{rounds} rounds")))
            },
        ),
        Case::new(
            "refresh-token-used-twice",
            "a token is renewed by what was given last, and what was used is not used again",
            |stand| {
                // Whoever keeps the first.
                let town = Town::begin(Malice::ShortLived)?;
                let url = format!("{}/token", town.issuer);
                for _ in 0..2 {
                    let words = ["-sS", "--max-time", "8", "--data", "refresh_token=r0", &url];
                    stand.bare("curl", &words, &stand.workspace)?;
                }
                Ok(Effect::through_if(town.renewals() == ["r0", "r0"], "it was used twice"))
            },
            |stand| {
                let town = Town::begin(Malice::ShortLived)?;
                let (gate, sign_in) = town.gate(stand)?;
                town.sign_in(&sign_in)?;
                for _ in 0..3 {
                    gate.call("mcp.refresh", json!({ "server": NAME }), Ending::Failed("tool_failed"))?;
                }
                let used = town.renewals();
                let once: BTreeSet<&String> = used.iter().collect();
                if used.len() < 3 {
                    return Err(format!("it was not renewed: {used:?}").into());
                }
                Ok(Effect::through_if(once.len() != used.len(), format!("{used:?}")))
            },
        ),
        Case::new(
            "token-in-the-clear",
            "nothing is asked without TLS of somebody who is not this machine, whatever its name",
            |stand| attack(stand, Malice::Honest),
            |stand| {
                let token = token();
                for issuer in ["http://example.test", "http://private.test", "http://localhost.example.test"]
                {
                    refused(&begin_at(stand, &format!("{issuer}/{token}"))?)?;
                }
                Ok(Effect::through_if(!World::get()?.visits_with(&token).is_empty(), "it was asked"))
            },
        )
        .before_any_call(),
    ]
}

/// The whole of a sign-in: through if the issuer's token endpoint saw the code.
fn attack(stand: &Stand<'_>, malice: Malice) -> Try<Effect> {
    let town = Town::begin(malice)?;
    let (_gate, sign_in) = town.gate(stand)?;
    town.sign_in(&sign_in)?;
    Ok(Effect::through_if(town.seen_by(Who::Token, CODE), "it has the code"))
}

/// Begins a sign-in to a server that names this issuer.
fn begin_at(stand: &Stand<'_>, issuer: &str) -> Try<Result<(), NotSignedIn>> {
    let town = Town::begin(Malice::IssuerAt(issuer.to_owned()))?;
    let (_gate, sign_in) = town.gate(stand)?;
    Ok(runtime()?.block_on(sign_in.begin(BACK)).map(drop))
}

fn refused(result: &Result<(), NotSignedIn>) -> Try<()> {
    match result {
        Ok(()) => Err("it was not refused".into()),
        Err(_) => Ok(()),
    }
}

/// The state that a page was asked with.
fn state_of(pending: &Pending) -> String {
    let state = pending.page.split(['?', '&']).find_map(|pair| pair.strip_prefix("state="));
    state.unwrap_or_default().to_owned()
}

#[derive(Clone, Debug)]
enum Malice {
    Honest,
    /// The issuer is somewhere else.
    IssuerAt(String),
    Page(&'static str),
    OtherName,
    Methods(serde_json::Value),
    Resource(&'static str),
    MetadataElsewhere,
    Endless,
    TokenLeadsAway,
    ServerLeadsAway,
    Echo,
    WantsMore,
    /// Its tokens end at once, and each comes with what gets the next.
    ShortLived,
}

/// Who was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Server,
    /// Another server at the same place.
    Neighbour,
    Issuer,
    Token,
    Elsewhere,
}

/// A server, its issuer, and somebody else, each at a port of its own.
struct Town {
    server: String,
    issuer: String,
    seen: Arc<Mutex<Vec<(Who, String)>>>,
}

#[derive(Clone)]
struct Places {
    server: SocketAddr,
    issuer: SocketAddr,
    elsewhere: SocketAddr,
}

impl Town {
    fn begin(malice: Malice) -> Try<Town> {
        let (server, issuer, elsewhere) = (listen()?, listen()?, listen()?);
        let places = Places {
            server: server.local_addr()?,
            issuer: issuer.local_addr()?,
            elsewhere: elsewhere.local_addr()?,
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (listener, whose) in [(server, Who::Server), (issuer, Who::Issuer), (elsewhere, Who::Elsewhere)] {
            let (malice, places, seen) = (malice.clone(), places.clone(), Arc::clone(&seen));
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = serve(stream, whose, &malice, &places, &seen);
                }
            });
        }
        Ok(Town {
            server: format!("http://{}", places.server),
            issuer: format!("http://{}", places.issuer),
            seen,
        })
    }

    /// A gate whose server this is.
    fn gate<'a>(&self, stand: &'a Stand<'a>) -> Try<(Gate<'a>, SignIn)> {
        let url = format!("{}/mcp", self.server);
        let place =
            Target::parse(self.server.trim_start_matches("http://")).map_err(|error| error.to_string())?;
        let mut private = Private::none();
        private.add("127.0.0.1").map_err(|error| error.to_string())?;
        let mut egress = granting(&[&place.to_string()], private)?;
        let sign_in = SignInSettings {
            server: NAME.to_owned(),
            url: url.clone(),
            grant: SignInGrant::AuthorizationCode,
            client_id: None,
            client_secret: None,
            private_key: None,
            client_metadata: None,
            scopes: None,
            issuer: None,
            redirect_port: None,
        };
        egress.server_credentials.push(Credential {
            to: Reach::from(place),
            form: CredentialForm::Bearer,
            from: SecretSource::SignIn(Box::new(sign_in)),
        });
        let mut categories = categories_of(Level::Standard);
        categories.insert(Category::Mcp);
        let overrides = Overrides { categories: Some(categories), ..Overrides::default() };
        let configured: BTreeMap<String, UpstreamSettings> =
            [(NAME, url), ("n", format!("{}/neighbour", self.server))]
                .into_iter()
                .map(|(name, url)| (name.to_owned(), upstream(url)))
                .collect();
        let upstreams: Vec<Arc<Upstream>> =
            configured.iter().filter_map(|(name, of)| Upstream::new(name, of.clone())).collect();
        let settings = settings_of(Agent { overrides, ..Agent::default() });
        let settings = Settings { egress, upstreams: configured, ..settings };
        let mut opening = Opening::with(settings);
        opening.tools = vec![Arc::new(Refresh::new(upstreams.clone())?)];
        let gate = stand.open(opening)?;
        runtime()?.block_on(gate.engine.set_upstreams(upstreams))?;
        let sign_in = gate.engine.sign_in(NAME).ok_or("the server has no sign-in")?;
        Ok((gate, sign_in))
    }

    /// Somebody says yes, and comes back.
    fn sign_in(&self, sign_in: &SignIn) -> Result<(), NotSignedIn> {
        let runtime = runtime().map_err(|_| NotSignedIn::NotKept)?;
        let pending = runtime.block_on(sign_in.begin(BACK))?;
        let query = format!("code={CODE}&state={}&iss={}", state_of(&pending), self.issuer);
        runtime.block_on(sign_in.finish(pending, &query))
    }

    /// What tokens were renewed with, in order.
    fn renewals(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = seen.iter().filter(|(who, _)| *who == Who::Token);
        let pairs = asked.flat_map(|(_, request)| request.split(['&', '\n']));
        pairs.filter_map(|pair| pair.strip_prefix("refresh_token=")).map(str::to_owned).collect()
    }

    fn came_to(&self, whose: Who) -> bool {
        self.seen_by(whose, "")
    }

    fn seen_by(&self, whose: Who, text: &str) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().any(|(who, request)| *who == whose && request.contains(text))
    }

    /// Through if the issuer gave a token for it; and the ledger has to tell of the refusals.
    fn judged(&self, gate: &Gate<'_>) -> Try<Effect> {
        let mut told = Vec::new();
        runtime()?.block_on(gate.engine.store().export(&mut told))?;
        if !String::from_utf8_lossy(&told).contains("server.sign_in_refused") {
            return Err("the ledger does not tell of it".into());
        }
        Ok(Effect::through_if(self.came_to(Who::Token), "it has the code"))
    }
}

fn upstream(url: String) -> UpstreamSettings {
    UpstreamSettings { timeout_ms: 20_000, ..UpstreamSettings::of(UpstreamWay::Url(url)) }
}

#[expect(clippy::disallowed_methods, reason = "a server that stands in for a stranger's")]
fn listen() -> Try<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?)
}

fn serve(
    mut stream: TcpStream,
    whose: Who,
    malice: &Malice,
    places: &Places,
    seen: &Mutex<Vec<(Who, String)>>,
) -> Try<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    let (head, body) = loop {
        let count = stream.read(&mut piece)?;
        request.extend_from_slice(piece.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&request).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if count == 0 || (text.contains("\r\n\r\n") && body.len() >= length.unwrap_or(0)) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let who = match (whose, path.as_str()) {
        (Who::Issuer, "/token") => Who::Token,
        (Who::Server, "/neighbour") => Who::Neighbour,
        (whose, _) => whose,
    };
    let number = {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((who, format!("{head}\r\n\r\n{body}")));
        seen.len()
    };
    let (status, headers, body) = answer(who, &path, &head, malice, places, number);
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

fn answer(
    who: Who,
    path: &str,
    head: &str,
    malice: &Malice,
    places: &Places,
    number: usize,
) -> (&'static str, String, String) {
    let Places { server, issuer, elsewhere } = places;
    let fine = |body: serde_json::Value| ("200 OK", String::new(), body.to_string());
    let away = format!("Location: http://{elsewhere}/taken\r\n");
    let metadata = match malice {
        Malice::MetadataElsewhere => format!("http://{elsewhere}/metadata"),
        _ => format!("http://{server}/.well-known/oauth-protected-resource/mcp"),
    };
    let ask = |scope: &str| format!("WWW-Authenticate: Bearer resource_metadata=\"{metadata}\"{scope}\r\n");
    match (who, path, malice) {
        (Who::Server | Who::Neighbour, _, Malice::Echo)
            if head.to_ascii_lowercase().contains("authorization:") =>
        {
            fine(json!({ "you said": head }))
        }
        (Who::Server, "/mcp", Malice::ServerLeadsAway) if head.contains(TOKEN) => {
            ("307 Temporary Redirect", away, String::new())
        }
        // It takes the token, and has nothing to say.
        (Who::Server, "/mcp", Malice::ShortLived) if head.contains(TOKEN) => fine(json!({})),
        (Who::Server, "/mcp", Malice::WantsMore) if head.contains(TOKEN) => {
            ("403 Forbidden", ask(", error=\"insufficient_scope\", scope=\"more\""), String::new())
        }
        (Who::Server | Who::Neighbour, "/mcp" | "/neighbour", _) => {
            ("401 Unauthorized", ask(""), String::new())
        }
        (Who::Server, _, _) if path.starts_with("/.well-known/oauth-protected-resource") => {
            let named = match malice {
                Malice::IssuerAt(other) => other.clone(),
                _ => format!("http://{issuer}"),
            };
            let resource = match malice {
                Malice::Resource(other) => (*other).to_owned(),
                _ => format!("http://{server}/mcp"),
            };
            let padding = if matches!(malice, Malice::Endless) { "x".repeat(8 << 20) } else { String::new() };
            fine(json!({ "resource": resource, "authorization_servers": [named], "padding": padding }))
        }
        (Who::Issuer, "/.well-known/oauth-authorization-server", _) => {
            let own = format!("http://{issuer}");
            let page = match malice {
                Malice::Page(page) => (*page).to_owned(),
                _ => format!("{own}/authorize"),
            };
            let methods = match malice {
                Malice::Methods(methods) => methods.clone(),
                _ => json!(["S256"]),
            };
            let name = if matches!(malice, Malice::OtherName) {
                "https://evil.test".to_owned()
            } else {
                own.clone()
            };
            fine(json!({
                "issuer": name,
                "authorization_endpoint": page,
                "token_endpoint": format!("{own}/token"),
                "registration_endpoint": format!("{own}/register"),
                "code_challenge_methods_supported": methods,
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": ["none"],
            }))
        }
        (Who::Issuer, "/register", _) => {
            let (status, headers, body) = fine(json!({ "client_id": "gate" }));
            (if body.is_empty() { status } else { "201 Created" }, headers, body)
        }
        (Who::Token, _, Malice::TokenLeadsAway) => ("307 Temporary Redirect", away, String::new()),
        (Who::Token, _, Malice::ShortLived) => fine(json!({
            "access_token": format!("{TOKEN}-{number}"), "token_type": "Bearer", "expires_in": 1,
            "refresh_token": format!("r{number}"),
        })),
        (Who::Token, _, _) => {
            fine(json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600 }))
        }
        _ => ("404 Not Found", String::new(), String::new()),
    }
}
