//! The keys under `egress`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::at::{At, Given};
use crate::config::word::ByCategory;

/// What calls may reach, and how.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Egress {
    /// Places that calls may reach without a question: `example.com:443`, everything below a name (`*.example.com:443`), a
    /// range of addresses (`192.0.2.0/24:443`), or a preset: `preset:python`, `preset:node`, `preset:rust`,
    /// `preset:git-hosting`. An empty list is nobody. Default: no list, and people are asked for each host.
    pub(crate) allow: Given<Vec<At<String>>>,
    /// The list of single categories, in the place of `allow`.
    pub(crate) overrides: Given<ByCategory<Vec<At<String>>>>,
    /// Hosts that no call may reach, whatever else is said: a name, everything below one (`*.example.com`), an address or a
    /// range. Default: none.
    pub(crate) block: Given<Vec<At<String>>>,
    /// The ports of `any public host`, which `network: open` and `*` in a list of domains mean. Default: 80 and 443.
    pub(crate) ports: Given<Vec<At<u64>>>,
    /// Private addresses, ranges and names that may be reached where they are listed as well. A metadata service has to be
    /// named by its own address or name. Default: none.
    pub(crate) private: Given<Vec<At<String>>>,
    /// Who is asked for the addresses of names, as `192.0.2.53` or `192.0.2.53:53`. Default: the resolvers of this machine.
    pub(crate) nameservers: Given<Vec<At<String>>>,
    /// A file of certificates (PEM) that are trusted besides the system's. Default: none.
    #[serde(alias = "extraRoots")]
    pub(crate) extra_roots: Given<String>,
    /// Secrets that are added to requests on their way out; no sandbox ever has them. Default: none.
    pub(crate) credentials: Given<Vec<At<CredentialFile>>>,
    /// The keys of hosts that git reaches by ssh, a line each as in `known_hosts(5)`: `example.com ssh-ed25519 AAAA…`, or
    /// `[example.com]:2222 …` for another port than 22. No other host is spoken to by ssh, and no key is learnt. Default: none.
    #[serde(alias = "knownHosts")]
    pub(crate) known_hosts: Given<Vec<At<String>>>,
    /// A file of more such lines. Default: none.
    #[serde(alias = "knownHostsFile")]
    pub(crate) known_hosts_file: Given<String>,
    /// Where secrets named `vault:` are to be had. Default: nowhere.
    pub(crate) vault: Given<VaultFile>,
    /// How much one call may send and receive.
    pub(crate) limits: Given<EgressLimitsFile>,
}

/// A secret that is added to requests to one host. Of the ways to add it, one must be given.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CredentialFile {
    /// To which host: `api.example.com`, or with a port other than 443 (22 for `ssh_key`). Must be given.
    pub(crate) host: Given<String>,
    /// Where the secret is to be had: `env:NAME` (the environment of the gate), `file:PATH`, `vault:PATH#FIELD` or
    /// `keyring:NAME` (a `user` key of the kernel's keyring, as `keyctl` shows them). Must be given.
    pub(crate) from: Given<String>,
    /// As the value of this header.
    pub(crate) header: Given<String>,
    /// As `Authorization: Bearer`.
    pub(crate) bearer: Given<bool>,
    /// As `Authorization: Basic`, for this user.
    pub(crate) basic: Given<String>,
    /// As this parameter of the query.
    pub(crate) query: Given<String>,
    /// In the place of this text in the body: at least 8 characters, so that it is not met by chance.
    pub(crate) body: Given<String>,
    /// As the key of a signature, in the way of AWS (version 4).
    pub(crate) sigv4: Given<Sigv4File>,
    /// In no request: the secret is a private key in the form of OpenSSH, without a passphrase, that the gate signs with when
    /// git logs in to the host by ssh.
    #[serde(alias = "sshKey")]
    pub(crate) ssh_key: Given<bool>,
}

/// What a signature names besides its key. Each must be given.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sigv4File {
    /// The name of the key, which is no secret.
    #[serde(alias = "accessKey")]
    pub(crate) access_key: Given<String>,
    /// The region, such as `eu-central-1`.
    pub(crate) region: Given<String>,
    /// The service, such as `s3`.
    pub(crate) service: Given<String>,
}

/// A store of secrets that speaks as HashiCorp's Vault does.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VaultFile {
    /// Where it is: `https://vault.example.com:8200`. Must be given.
    pub(crate) address: Given<String>,
    /// Where the token for it is to be had: `env:NAME` or `file:PATH`. Must be given.
    pub(crate) token: Given<String>,
}

/// How much one call may send and receive.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EgressLimitsFile {
    /// Connections at once. Default: 64.
    pub(crate) connections: Given<u64>,
    /// Bytes in both directions together, such as `100m`. Default: 1073741824.
    pub(crate) bytes: Given<String>,
    /// How long a connection may be silent, in milliseconds. Default: 60000.
    #[serde(alias = "idleMs")]
    pub(crate) idle_ms: Given<u64>,
}
