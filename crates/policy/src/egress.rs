//! What calls may reach and how, as it is configured. It opens nothing: another crate obeys.
//!
//! # Invariants
//! - A list that is empty is nobody; a list that nobody has written is nobody without asking.
//! - No secret is in here, only where each is to be had.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use contract::{Category, HostPattern, Private, Reach, Target, ToolName};
use serde::Serialize;

use crate::level::Network;
use crate::settings::ToolGlob;

/// Everything about the network that is configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EgressSettings {
    /// The places that calls may reach without asking; none where nobody has listed any.
    pub allow: Option<Vec<Reach>>,
    /// The same for single categories, in the place of the general list.
    pub by_category: BTreeMap<Category, Vec<Reach>>,
    /// The same for single tools, in the place of both.
    pub by_tool: Vec<ToolPlaces>,
    /// Hosts that no call may reach, whatever else is said.
    pub block: Vec<HostPattern>,
    /// The ports that `any public host` means.
    pub ports: BTreeSet<u16>,
    /// Special addresses and names that may be reached if they are listed.
    pub private: Private,
    /// Who is asked for addresses; the machine's own resolvers where nobody is named.
    pub nameservers: Vec<SocketAddr>,
    /// A file of certificates that are trusted besides the system's.
    pub extra_roots: Option<PathBuf>,
    /// What is added to requests on their way out.
    pub credentials: Vec<Credential>,
    /// The same for servers whose tools are offered as ours: no other call gets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_credentials: Vec<Credential>,
    /// Where secrets of a vault are to be had.
    pub vault: Option<VaultSettings>,
    /// The keys of hosts that are reached by ssh, a line each as `known_hosts(5)` has them.
    pub known_hosts: Vec<String>,
    /// A file of more of them.
    pub known_hosts_file: Option<PathBuf>,
    /// How much one call may send and receive.
    pub limits: EgressLimits,
    /// What `http.*` may ask for.
    pub http: HttpSettings,
}

/// What a tool may reach, in the place of what its category may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolPlaces {
    /// Which tools.
    pub tool: ToolGlob,
    /// Places that need no question; as for others, where there is no list.
    pub allow: Option<Vec<Reach>>,
    /// Hosts that it may not reach, besides those that nobody may.
    pub block: Vec<HostPattern>,
}

/// A secret that is added to requests to one host, on their way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Credential {
    /// To which hosts and port.
    pub to: Reach,
    /// As what.
    pub form: CredentialForm,
    /// Where it is to be had.
    pub from: SecretSource,
}

/// How a secret is put into a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialForm {
    /// As the value of this header.
    Header(String),
    /// As `Authorization: Bearer`.
    Bearer,
    /// As `Authorization: Basic`, with this name of a user.
    Basic {
        /// Which name.
        user: String,
    },
    /// As this parameter of the query.
    Query(String),
    /// In the place of this text in the body.
    Body {
        /// Which text.
        placeholder: String,
    },
    /// As the key of a signature, in the way of AWS (version 4).
    Sigv4 {
        /// The name of the key.
        key: String,
        /// Which region.
        region: String,
        /// Which service.
        service: String,
    },
    /// In no request: as the key that the gate signs with for whoever logs in over ssh.
    SshKey,
}

/// Where a secret is to be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// A variable of the gate's environment.
    Variable(String),
    /// A file.
    File(PathBuf),
    /// A field of an entry in a store that speaks as HashiCorp's Vault does.
    Vault {
        /// Which entry.
        path: String,
        /// Which field of it.
        field: String,
    },
    /// A key of type `user` in the kernel's keyring, by its description.
    Keyring(String),
    /// What the gate gets when it signs in to a server of tools.
    SignIn(Box<SignInSettings>),
}

/// How the gate signs in to a server of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignInSettings {
    /// What the server is called.
    pub server: String,
    /// Where it is.
    pub url: String,
    /// By which way.
    pub grant: SignInGrant,
    /// Who the gate is to the issuer; without it, it asks for a name.
    pub client_id: Option<String>,
    /// Where the secret is to be had that goes with the name.
    pub client_secret: Option<SecretSource>,
    /// The same for a key.
    pub private_key: Option<SecretSource>,
    /// Where it says who the gate is, for issuers that take that for a name.
    pub client_metadata: Option<String>,
    /// What is asked for, in the place of what the server asks for.
    pub scopes: Option<Vec<String>>,
    /// Who vouches, in the place of whom the server names first.
    pub issuer: Option<String>,
    /// The port of this machine that people are sent back to; any, where none is named.
    pub redirect_port: Option<u16>,
}

/// By which way the gate signs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInGrant {
    /// Somebody says yes on a page of the issuer's.
    #[default]
    AuthorizationCode,
    /// With its own name and secret.
    ClientCredentials,
}

impl SecretSource {
    /// Whether it takes another machine to have it.
    pub fn is_in_a_vault(&self) -> bool {
        matches!(self, SecretSource::Vault { .. })
    }

    /// Whether the token of a vault may come from it.
    pub fn is_at_hand(&self) -> bool {
        matches!(self, SecretSource::Variable(_) | SecretSource::File(_))
    }
}

/// A store of secrets that speaks as HashiCorp's Vault does, by TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VaultSettings {
    /// Where it is.
    pub address: Target,
    /// Where the token for it is to be had.
    pub token: SecretSource,
}

/// How much one call may send and receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EgressLimits {
    /// Connections at once.
    pub connections: u32,
    /// Bytes in both directions together.
    pub bytes: u64,
    /// How long a connection may be silent, in milliseconds.
    pub idle_ms: u64,
}

impl Default for EgressLimits {
    fn default() -> EgressLimits {
        EgressLimits { connections: 64, bytes: 1024 * 1024 * 1024, idle_ms: 60_000 }
    }
}

/// What `http.*` may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpSettings {
    /// Methods that there are.
    pub methods: BTreeSet<String>,
    /// What happens to the headers of a request.
    pub headers: HeaderSettings,
    /// How much of an answer is read, in bytes.
    pub max_response: u64,
}

/// What happens to the headers of a request. Names are in small letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeaderSettings {
    /// Those that a caller may set; any that is harmless, where there is no list.
    pub allow: Option<BTreeSet<String>>,
    /// Those that are taken out.
    pub strip: BTreeSet<String>,
    /// Those that are added, whatever the caller has set.
    pub add: BTreeMap<String, String>,
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        HttpSettings {
            methods: methods.map(str::to_owned).into(),
            headers: HeaderSettings::default(),
            max_response: 10 * 1024 * 1024,
        }
    }
}

impl Default for EgressSettings {
    fn default() -> EgressSettings {
        EgressSettings {
            allow: None,
            by_category: BTreeMap::new(),
            by_tool: Vec::new(),
            block: Vec::new(),
            ports: [80, 443].into(),
            private: Private::none(),
            nameservers: Vec::new(),
            extra_roots: None,
            credentials: Vec::new(),
            server_credentials: Vec::new(),
            vault: None,
            known_hosts: Vec::new(),
            known_hosts_file: None,
            limits: EgressLimits::default(),
            http: HttpSettings::default(),
        }
    }
}

/// What is free for one tool: the places, and whether somebody has said that these are all.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) places: Vec<Reach>,
    /// Somebody has written an empty list.
    pub(crate) is_nobody: bool,
}

impl EgressSettings {
    /// Whether nothing is configured. Then it is no part of what names the settings.
    pub(crate) fn is_default(&self) -> bool {
        *self == EgressSettings::default()
    }

    /// The places that a tool may reach without asking.
    pub(crate) fn listed(&self, tool: &ToolName, category: Category, network: Network) -> Listed {
        let own = self.by_tool.iter().find(|places| places.tool.matches(tool));
        let narrower =
            own.and_then(|places| places.allow.as_ref()).or_else(|| self.by_category.get(&category));
        let mut places = narrower.or(self.allow.as_ref()).cloned().unwrap_or_default();
        let is_nobody = narrower.or(self.allow.as_ref()).is_some_and(Vec::is_empty);
        // A list for this very tool or category says more than the level does.
        let is_open = network == Network::Open && narrower.is_none();
        if is_open {
            places.extend(self.any_public_host());
        }
        places.sort_unstable();
        places.dedup();
        Listed { places, is_nobody: is_nobody && !is_open }
    }

    /// Any public host, on the configured ports.
    pub fn any_public_host(&self) -> impl Iterator<Item = Reach> {
        self.ports.iter().map(|port| Reach { host: HostPattern::Public, port: *port })
    }

    /// The hosts that a tool may not reach.
    pub(crate) fn blocked(&self, tool: &ToolName) -> Vec<HostPattern> {
        let own = self.by_tool.iter().filter(|places| places.tool.matches(tool));
        let mut blocked: Vec<HostPattern> =
            self.block.iter().chain(own.flat_map(|places| &places.block)).cloned().collect();
        blocked.sort_unstable();
        blocked.dedup();
        blocked
    }
}
