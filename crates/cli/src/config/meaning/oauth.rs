//! How the gate signs in to servers, and who may come in with a token of somebody else's.

use std::collections::BTreeMap;

use contract::{AgentName, Reach, Target};
use egress::WebUrl;
use policy::{Agent, Credential, CredentialForm, EgressSettings, SecretSource, SignInGrant, SignInSettings};
use server::AccessTokenSettings;

use super::Reader;
use crate::config::at::{At, Given};
use crate::config::file::{AccessFile, SignInFile};
use crate::config::problem::Problem;

impl Reader {
    /// How the gate signs in to a server: a credential of that server's, and no other's.
    pub(super) fn sign_in(
        &mut self,
        server: &str,
        url: &At<String>,
        target: Target,
        file: &At<SignInFile>,
        egress: &mut EgressSettings,
    ) {
        if WebUrl::parse(&url.value).is_none_or(|url| url.is_open_to_others()) {
            let why =
                "a token is sent over TLS alone, or to this machine: the `url` has to be https, and plain";
            self.refuse(file.place, why);
            return;
        }
        let SignInFile { client_id, client_secret, private_key, client_metadata, issuer, .. } = &file.value;
        let grant = file.value.grant.get().map_or(SignInGrant::AuthorizationCode, |word| word.0);
        let has_proof = client_secret.at().is_some() || private_key.at().is_some();
        if has_proof && (client_id.at().is_none() || issuer.at().is_none()) {
            // Else a server could have it shown to whomever it names.
            let why = "a secret or a key is for one issuer: name `client_id` and `issuer` with it";
            self.refuse(file.place, why);
        }
        if client_secret.at().is_some() && private_key.at().is_some() {
            self.refuse(file.place, "the gate proves who it is in one way: `client_secret` or `private_key`");
        }
        if grant == SignInGrant::ClientCredentials && !has_proof {
            let why = "`client_credentials` needs a `client_id`, an `issuer`, and a `client_secret` or `private_key`";
            self.refuse(file.place, why);
        }
        let settings = SignInSettings {
            server: server.to_owned(),
            url: url.value.clone(),
            grant,
            client_id: self.plain("client_id", client_id),
            client_secret: client_secret.at().and_then(|at| self.source(at)),
            private_key: private_key.at().and_then(|at| self.source(at)),
            client_metadata: self.address("client_metadata", client_metadata),
            scopes: self.scopes(&file.value.scopes),
            issuer: self.address("issuer", issuer),
            redirect_port: self
                .amount("redirect_port", &file.value.redirect_port, u64::from(u16::MAX))
                .and_then(|port| u16::try_from(port).ok()),
        };
        let to = Reach::from(target);
        let mut known = egress.credentials.iter().chain(&egress.server_credentials);
        if known.any(|known| known.to == to) {
            self.refuse(file.place, format!("there is a credential for `{to}` already"));
            return;
        }
        let from = SecretSource::SignIn(Box::new(settings));
        egress.server_credentials.push(Credential { to, form: CredentialForm::Bearer, from });
    }

    /// Which tokens of others count.
    pub(super) fn access_tokens(
        &mut self,
        file: &At<AccessFile>,
        agents: &BTreeMap<AgentName, Agent>,
    ) -> Option<AccessTokenSettings> {
        let AccessFile { issuer, audience, jwks_uri, scopes, agents: named } = &file.value;
        if issuer.at().is_none() || named.at().is_none() {
            self.refuse(file.place, "`mcp.oauth` needs an `issuer`, and `agents` whose its tokens are");
        }
        let mut whose = BTreeMap::new();
        for (name, claims) in named.get().into_iter().flatten() {
            let Some(agent) = AgentName::parse(&name.value).ok().filter(|name| agents.contains_key(name))
            else {
                let known = agents.keys().map(AgentName::as_str);
                self.problems.push(Problem::unknown(name.place, "there is no agent", &name.value, known));
                continue;
            };
            if claims.is_empty() {
                self.refuse(name.place, format!("`{agent}` has no claims, so no token would be its own"));
            }
            whose.insert(agent, claims.clone());
        }
        Some(AccessTokenSettings {
            issuer: self.address("issuer", issuer)?,
            audience: self.address("audience", audience),
            keys: self.address("jwks_uri", jwks_uri),
            scopes: self.scopes(scopes).unwrap_or_default(),
            agents: whose,
        })
    }

    fn plain(&mut self, key: &str, given: &Given<String>) -> Option<String> {
        let at = given.at()?;
        let is_plain =
            (1..=2048).contains(&at.value.len()) && at.value.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            self.refuse(at.place, format!("`{key}` is one word of plain characters"));
        }
        is_plain.then(|| at.value.clone())
    }

    /// An address of the web that nobody on the way can read.
    fn address(&mut self, key: &str, given: &Given<String>) -> Option<String> {
        let at = given.at()?;
        let is_fine = WebUrl::parse(&at.value).is_some_and(|url| !url.is_open_to_others());
        if !is_fine {
            let why =
                format!("`{key}` is an address that begins with `https://`, without a user and without `#`");
            self.refuse(at.place, why);
        }
        is_fine.then(|| at.value.clone())
    }

    fn scopes(&mut self, given: &Given<Vec<At<String>>>) -> Option<Vec<String>> {
        let list = given.get()?;
        let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
        for scope in list {
            if !(1..=256).contains(&scope.value.len()) || !scope.value.bytes().all(is_token) {
                self.refuse(scope.place, "a scope is one word of plain characters");
            }
        }
        Some(list.iter().map(|scope| scope.value.clone()).collect())
    }
}
