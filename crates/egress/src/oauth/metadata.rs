//! What a server says of who vouches for whom, and what those say of themselves (RFC 9728, RFC 8414, OpenID Connect Discovery).
//!
//! # Invariants
//! - Metadata counts for whom it was asked about: a resource that is the server's own, an issuer that is the one looked for,
//!   character by character.
//! - Whoever does not promise S256 is not signed in with.

use serde::Deserialize;

use super::challenge::{Challenge, is_fit};
use super::{Held, NotSignedIn};
use crate::Gate;
use crate::fetch::{NoAnswer, Question, Said, WebUrl};

/// As much of it as is read.
const MOST: usize = 256 * 1024;
const MOST_ISSUERS: usize = 16;

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Resource {
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// What somebody who vouches says of themselves.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
}

/// Both.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) resource: Resource,
    pub(super) issuer: Issuer,
}

impl Issuer {
    /// An address of theirs that something is sent to. ATTACK(authorization-endpoint-scheme)
    pub(super) fn endpoint(text: Option<&String>, what: &'static str) -> Result<WebUrl, NotSignedIn> {
        let text = text.ok_or(NotSignedIn::Lacks(what))?;
        let url = WebUrl::parse(text).filter(|url| !url.is_open_to_others());
        url.ok_or(NotSignedIn::OddAddress { what })
    }

    pub(super) fn token_endpoint(&self) -> Result<WebUrl, NotSignedIn> {
        Issuer::endpoint(self.token_endpoint.as_ref(), "token_endpoint")
    }

    /// Whether the way that we prove ourselves in is known to them.
    pub(super) fn takes(&self, method: &str) -> bool {
        match &self.token_endpoint_auth_methods_supported {
            Some(methods) => methods.iter().any(|known| known == method),
            // As RFC 8414 has it.
            None => method == "client_secret_basic",
        }
    }
}

/// Asks the server and whoever vouches for it.
pub(super) async fn discover(
    gate: &Gate,
    held: &Held,
    challenge: Option<&Challenge>,
) -> Result<Found, NotSignedIn> {
    let resource = resource(gate, held, challenge).await?;
    let named = match (&held.settings.issuer, resource.authorization_servers.as_slice()) {
        (Some(issuer), []) => issuer.clone(),
        // ATTACK(issuer-mix-up): a server does not choose anew who its operator signs in with.
        (Some(issuer), listed) if listed.iter().take(MOST_ISSUERS).any(|one| one == issuer) => issuer.clone(),
        (Some(_), _) => return Err(NotSignedIn::OtherIssuer),
        (None, [first, ..]) => first.clone(),
        (None, []) => return Err(NotSignedIn::Lacks("authorization_servers")),
    };
    let issuer = issuer(gate, held, &named).await?;
    Ok(Found { resource, issuer })
}

async fn resource(gate: &Gate, held: &Held, challenge: Option<&Challenge>) -> Result<Resource, NotSignedIn> {
    let server = &held.url;
    let candidates: Vec<WebUrl> = match challenge.and_then(|challenge| challenge.metadata.as_deref()) {
        Some(text) => {
            let url = WebUrl::parse(text).ok_or(NotSignedIn::OddAddress { what: "resource_metadata" })?;
            // ATTACK(resource-of-another): a server speaks for itself.
            if !url.is_same_origin(server) {
                return Err(NotSignedIn::OddAddress { what: "resource_metadata" });
            }
            vec![url]
        }
        None => {
            let path = server.path().trim_end_matches('/');
            let places = [
                "/.well-known/oauth-protected-resource".to_owned() + path,
                "/.well-known/oauth-protected-resource".to_owned(),
            ];
            let count = if path.is_empty() { 1 } else { 2 };
            places.iter().take(count).filter_map(|place| server.at(place)).collect()
        }
    };
    match first::<Resource>(gate, held, &candidates).await {
        Ok(resource) => {
            check_resource(server, &resource)?;
            Ok(resource)
        }
        // Without a word of the server's own, the operator's counts.
        Err(NotSignedIn::NoAnswer { source: NoAnswer::Status(_), .. }) if held.settings.issuer.is_some() => {
            let resource = server.as_str().to_owned();
            Ok(Resource { resource, authorization_servers: Vec::new(), scopes_supported: None })
        }
        Err(why) => Err(why),
    }
}

/// ATTACK(resource-of-another): a token for somebody else is not asked for in their name.
fn check_resource(server: &WebUrl, resource: &Resource) -> Result<(), NotSignedIn> {
    let other = || NotSignedIn::OtherResource;
    let named = WebUrl::parse(&resource.resource).ok_or_else(other)?;
    let above = named.path().trim_end_matches('/');
    let is_below =
        server.path().strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if !named.is_same_origin(server) || !is_below || named.query().is_some() {
        return Err(other());
    }
    if !resource.scopes_supported.as_deref().is_none_or(is_fit) {
        return Err(NotSignedIn::Odd("scopes_supported"));
    }
    Ok(())
}

async fn issuer(gate: &Gate, held: &Held, named: &str) -> Result<Issuer, NotSignedIn> {
    let odd = || NotSignedIn::OddAddress { what: "issuer" };
    let url = WebUrl::parse(named).filter(|url| !url.is_open_to_others()).ok_or_else(odd)?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    let candidates: Vec<WebUrl> = places.iter().filter_map(|place| url.at(place)).collect();
    let found = first::<Issuer>(gate, held, &candidates).await?;
    // ATTACK(issuer-mix-up): nobody speaks for another, and no two spellings are one.
    if found.issuer != named {
        return Err(NotSignedIn::OtherIssuer);
    }
    let promises = |methods: &Vec<String>| methods.iter().any(|method| method == "S256");
    // ATTACK(pkce-downgrade): whoever does not say so may let a stolen code pass.
    if held.settings.is_for_people() && !found.code_challenge_methods_supported.as_ref().is_some_and(promises)
    {
        return Err(NotSignedIn::NoPkce);
    }
    if !found.scopes_supported.as_deref().is_none_or(is_fit) {
        return Err(NotSignedIn::Odd("scopes_supported"));
    }
    Ok(found)
}

/// The first of these that is there.
async fn first<T: for<'de> Deserialize<'de>>(
    gate: &Gate,
    held: &Held,
    candidates: &[WebUrl],
) -> Result<T, NotSignedIn> {
    let mut last = NotSignedIn::Lacks("metadata");
    for url in candidates {
        let question = Question { url, body: None, headers: Vec::new(), most: MOST };
        let source = match gate.fetch(question, &held.settings.bounds).await {
            Ok(Said { status: 200, body, .. }) => {
                return serde_json::from_slice(&body).map_err(|_odd| NotSignedIn::Odd("metadata"));
            }
            Ok(Said { status, .. }) => NoAnswer::Status(status),
            Err(source) => source,
        };
        let is_absent = matches!(source, NoAnswer::Status(_));
        last = NotSignedIn::NoAnswer { place: url.as_str().to_owned(), source };
        if !is_absent {
            break;
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(resource: &str) -> Resource {
        Resource { resource: resource.to_owned(), authorization_servers: Vec::new(), scopes_supported: None }
    }

    #[test]
    fn metadata_is_for_the_server_that_was_asked() {
        let server = WebUrl::parse("https://a.test/one/mcp").unwrap();
        for resource in ["https://a.test/one/mcp", "https://a.test/one", "https://a.test", "https://a.test/"]
        {
            assert!(check_resource(&server, &of(resource)).is_ok(), "{resource}");
        }
        for resource in [
            "https://evil.test/one/mcp",
            "https://a.test/one/mcp/deeper",
            "https://a.test/on",
            "https://a.test/one/mc",
            "http://a.test/one/mcp",
            "https://a.test:444/one/mcp",
            "https://a.test/one/mcp?x=1",
            "a.test",
        ] {
            assert!(check_resource(&server, &of(resource)).is_err(), "{resource}");
        }
    }
}
