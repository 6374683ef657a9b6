//! The gate's way out of this machine, made from what is configured.

use std::pin::Pin;

use anyhow::{Context, Result, bail};
use egress::{
    Bounds, ClientKind, Credential, Egress, Injection, KnownHost, Patience, Secret, SecretSource, SignInBy,
    Vault, VaultToken, WebUrl,
};
use engine::Clock;
use policy::CredentialForm;
use server::KeyReader;

use crate::config::secret_in;

/// What the way out is made from. Reads what the configuration names.
pub(crate) fn settings_of(configured: &policy::EgressSettings) -> Result<egress::EgressSettings> {
    let extra_roots = match &configured.extra_roots {
        Some(file) => std::fs::read_to_string(file).with_context(|| {
            format!("cannot read the certificates of `egress.extra_roots` in `{}`", file.display())
        })?,
        None => String::new(),
    };
    Ok(egress::EgressSettings {
        nameservers: configured.nameservers.clone(),
        extra_roots,
        credentials: configured
            .credentials
            .iter()
            .chain(&configured.server_credentials)
            .filter(|credential| !matches!(credential.from, policy::SecretSource::SignIn(_)))
            .map(credential)
            .collect::<Result<_>>()?,
        sign_ins: configured
            .server_credentials
            .iter()
            .filter_map(|credential| match &credential.from {
                policy::SecretSource::SignIn(settings) => Some(sign_in(settings, configured)),
                _ => None,
            })
            .collect::<Result<_>>()?,
        vault: configured.vault.as_ref().map(vault).transpose()?,
        known_hosts: known_hosts(configured)?,
        patience: Patience::default(),
        clock: Clock::system().as_function(),
    })
}

/// The way out itself. Needs a runtime around it.
pub(crate) fn open(configured: &policy::EgressSettings) -> Result<Egress> {
    Ok(Egress::new(settings_of(configured)?)?)
}

/// The keys of hosts, of the configuration and of its file. A line that is not understood is no line to pass over.
fn known_hosts(configured: &policy::EgressSettings) -> Result<Vec<KnownHost>> {
    let mut known = Vec::new();
    for line in &configured.known_hosts {
        known.extend(KnownHost::parse(line).context("a line of `egress.known_hosts` cannot be read")?);
    }
    let Some(file) = &configured.known_hosts_file else { return Ok(known) };
    let text = std::fs::read_to_string(file).with_context(|| {
        format!("cannot read the keys of `egress.known_hosts_file` in `{}`", file.display())
    })?;
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let at = || format!("`{}`, line {}", file.display(), number + 1);
        known.extend(KnownHost::parse(line).with_context(at)?);
    }
    Ok(known)
}

fn credential(configured: &policy::Credential) -> Result<Credential> {
    let source = source_of(&configured.from)?;
    Ok(Credential { to: configured.to.clone(), injection: injection_of(&configured.form), source })
}

/// Where a secret is to be had. What is in the environment is had now.
pub(crate) fn source_of(configured: &policy::SecretSource) -> Result<SecretSource> {
    Ok(match configured {
        policy::SecretSource::Variable(name) => SecretSource::Value(variable(name)?),
        policy::SecretSource::File(path) => SecretSource::File(path.clone()),
        policy::SecretSource::Vault { path, field } => {
            SecretSource::Vault { path: path.clone(), field: field.clone() }
        }
        policy::SecretSource::Keyring(name) => SecretSource::Keyring(name.clone()),
        policy::SecretSource::SignIn(_) => bail!("a sign-in is the secret of a server alone"),
    })
}

/// How the gate signs in to a server.
fn sign_in(
    configured: &policy::SignInSettings,
    egress: &policy::EgressSettings,
) -> Result<egress::SignInSettings> {
    let id = || configured.client_id.clone().unwrap_or_default();
    let client = match (&configured.client_id, &configured.client_secret, &configured.private_key) {
        (Some(_), Some(secret), _) => ClientKind::Secret { id: id(), secret: source_of(secret)? },
        (Some(_), None, Some(key)) => ClientKind::Key { id: id(), key: source_of(key)? },
        (Some(_), None, None) => ClientKind::Public { id: id() },
        (None, _, _) => match &configured.client_metadata {
            Some(url) => ClientKind::Document { url: url.clone() },
            None => ClientKind::Registered,
        },
    };
    Ok(egress::SignInSettings {
        server: configured.server.clone(),
        url: configured.url.clone(),
        client,
        by: match configured.grant {
            policy::SignInGrant::AuthorizationCode => SignInBy::People,
            policy::SignInGrant::ClientCredentials => SignInBy::ClientCredentials,
        },
        scopes: configured.scopes.clone(),
        issuer: configured.issuer.clone(),
        bounds: bounds(egress),
    })
}

/// As much of an issuer's metadata and keys as is read.
const MOST_OF_KEYS: usize = 256 * 1024;

/// Reads the keys of issuers, by the gate's way out.
pub(crate) struct Keys {
    pub(crate) egress: Egress,
    pub(crate) bounds: Bounds,
}

impl KeyReader for Keys {
    fn read<'a>(&'a self, url: &'a str) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>> {
        Box::pin(async move {
            let url = WebUrl::parse(url)?;
            let read = self.egress.read(&url, &self.bounds, MOST_OF_KEYS).await;
            read.inspect_err(
                |error| tracing::warn!(url = url.as_str(), %error, "keys of an issuer are not read"),
            )
            .ok()
        })
    }
}

/// Whom the gate may ask for itself.
pub(crate) fn bounds(egress: &policy::EgressSettings) -> Bounds {
    Bounds { private: egress.private.clone(), blocked: egress.block.clone() }
}

/// Where in a request a secret goes.
pub(crate) fn injection_of(form: &CredentialForm) -> Injection {
    match form.clone() {
        CredentialForm::Header(name) => Injection::Header { name },
        CredentialForm::Bearer => Injection::Bearer,
        CredentialForm::Basic { user } => Injection::Basic { user },
        CredentialForm::Query(name) => Injection::Query { name },
        CredentialForm::Body { placeholder } => Injection::BodyPlaceholder { placeholder },
        CredentialForm::Sigv4 { key, region, service } => {
            Injection::AwsSigV4 { access_key: key, region, service }
        }
        CredentialForm::SshKey => Injection::SshKey,
    }
}

fn vault(configured: &policy::VaultSettings) -> Result<Vault> {
    let token = match &configured.token {
        policy::SecretSource::Variable(name) => VaultToken::Value(variable(name)?),
        policy::SecretSource::File(path) => VaultToken::File(path.clone()),
        policy::SecretSource::Vault { .. }
        | policy::SecretSource::Keyring(_)
        | policy::SecretSource::SignIn(_) => {
            bail!("the token of `egress.vault` has to be in the environment or in a file")
        }
    };
    Ok(Vault { address: configured.address.clone(), token })
}

fn variable(name: &str) -> Result<Secret> {
    let value = secret_in(name);
    value
        .map(Secret::new)
        .with_context(|| format!("`{name}` is not set in the environment, and the configuration takes a credential from it: set it where the gate is started, or take out what says `env:{name}`"))
}
