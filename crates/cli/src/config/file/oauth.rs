//! The keys under `mcp.servers.NAME.auth.oauth`, by which the gate signs in, and under `mcp.oauth`, by which others do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::GrantWord;

/// How the gate signs in to a server. `oauth: {}` is enough where the server says the rest.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SignInFile {
    /// Whether somebody says yes on a page of the issuer's, once, with `toolgate tools login NAME`, or the gate signs in with a
    /// name and a secret of its own. Default: `authorization_code`.
    pub(crate) grant: Given<GrantWord>,
    /// The gate's name with the issuer. Default: it asks the issuer for one.
    #[serde(alias = "clientId")]
    pub(crate) client_id: Given<String>,
    /// Where the secret is to be had that goes with `client_id`, as in `bearer`. Needs `issuer`: it is shown to nobody else.
    /// Default: none.
    #[serde(alias = "clientSecret")]
    pub(crate) client_secret: Given<String>,
    /// The same for a private key, P-256 as PKCS #8 in PEM, with which the gate signs who it is. Default: none.
    #[serde(alias = "privateKey")]
    pub(crate) private_key: Given<String>,
    /// Where it says who the gate is, for issuers that take such an address as a name. Default: none.
    #[serde(alias = "clientMetadata")]
    pub(crate) client_metadata: Given<String>,
    /// The scopes to ask for. Default: those that the server asks for.
    pub(crate) scopes: Given<Vec<At<String>>>,
    /// Who vouches for the gate; a server that names only others is not signed in to. Default: whom the server names first.
    pub(crate) issuer: Given<String>,
    /// The port of this machine that people come back to when they have said yes. Default: any that is free.
    #[serde(alias = "redirectPort")]
    pub(crate) redirect_port: Given<u64>,
}

/// Which tokens of an issuer let agents in over HTTP at `/mcp`, besides the gate's own.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AccessFile {
    /// Who signs the tokens, as it stands in them. Default: none, and no such token counts.
    pub(crate) issuer: Given<String>,
    /// What the tokens have to be for. Default: the address of MCP here, such as `http://127.0.0.1:7433/mcp`.
    pub(crate) audience: Given<String>,
    /// Where the keys of the issuer are. Default: as its metadata says.
    #[serde(alias = "jwksUri")]
    pub(crate) jwks_uri: Given<String>,
    /// The scopes that a token has to have. Default: none.
    pub(crate) scopes: Given<Vec<At<String>>>,
    /// Whose a token is: for each agent the claims, and their values, that its tokens have. One that fits two agents is nobody's.
    /// Default: none.
    pub(crate) agents: Given<BTreeMap<At<String>, BTreeMap<String, String>>>,
}
