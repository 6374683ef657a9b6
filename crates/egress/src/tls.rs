//! Ends TLS at the gate where requests have to be seen, and begins it anew to the host.
//!
//! # Invariants
//! - The host proves the granted name to the gate before any request goes there; the sandbox's trust does not count.
//! - Both sides speak the same HTTP, so that nothing is translated.

use std::sync::Arc;

use contract::Host;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::OnceCell;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use crate::EgressError;
use crate::authority::Authority;
use crate::carry::Client;
use crate::events::{Denial, Way};
use crate::grant::Grant;
use crate::http::{Protocol, Talk, Upstream};
use crate::pipe::Activity;
use crate::request::Speaks;
use crate::resolve::Checked;
use crate::stream::{Metered, Rewound};

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// The gate's own authority, and whom it trusts itself.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    authority: Authority,
    pem: String,
    extra_roots: Vec<CertificateDer<'static>>,
    /// Read from the system when first needed.
    client: OnceCell<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(extra_roots: &str, clock: fn() -> i64) -> Result<Tls, EgressError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let extra_roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(extra_roots.as_bytes()).collect();
        let extra_roots = extra_roots.map_err(|source| EgressError::ExtraRoots { source: source.into() })?;
        let mut probe = RootCertStore::empty();
        for root in &extra_roots {
            probe.add(root.clone()).map_err(|source| EgressError::ExtraRoots { source: source.into() })?;
        }
        let authority =
            Authority::new(&provider, clock).map_err(|source| EgressError::Authority { source })?;
        let pem = authority.pem();
        Ok(Tls { provider, authority, pem, extra_roots, client: OnceCell::new() })
    }

    pub(crate) fn authority(&self) -> &str {
        &self.pem
    }

    /// How the gate speaks TLS to hosts.
    pub(crate) async fn client(&self, protocols: &[&[u8]]) -> Result<ClientConfig, Denial> {
        let made = self.client.get_or_try_init(|| async {
            let extra_roots = self.extra_roots.clone();
            let provider = Arc::clone(&self.provider);
            let made = tokio::task::spawn_blocking(move || client_config(provider, extra_roots)).await;
            made.map_err(|_ended| Denial::Untrusted)?.map_err(|_fault| Denial::Untrusted)
        });
        let mut config = made.await?.clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }

    /// How the gate speaks TLS to a sandbox, as the host.
    fn server(&self, host: &Host, protocol: Option<&[u8]>) -> Option<Arc<ServerConfig>> {
        let certified = self.authority.certify(host).ok()?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
        Some(Arc::new(config))
    }
}

fn client_config(
    provider: Arc<CryptoProvider>,
    extra_roots: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    // Certificates of the system that cannot be read are as good as none.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(extra_roots);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Serves a client that begins TLS, as the host that it asked for.
pub(crate) async fn terminate(grant: &Arc<Grant>, client: Client, checked: Checked) {
    let target = checked.target.clone();
    if end_and_begin(grant, client, checked).await.is_none() {
        grant.deny(&target.host.to_string(), target.port, Way::Tls, Denial::BrokenHandshake);
    }
}

/// None if the client did not come through its handshake.
async fn end_and_begin(grant: &Arc<Grant>, client: Client, checked: Checked) -> Option<()> {
    let patience = grant.gate.patience.handshake;
    let acceptor = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), Rewound::from(client));
    let start = tokio::time::timeout(patience, acceptor).await.ok()?.ok()?;
    let offered: Vec<Vec<u8>> =
        start.client_hello().alpn().map(|names| names.map(<[u8]>::to_vec).collect()).unwrap_or_default();
    let wanted: Vec<&[u8]> =
        [HTTP2, HTTP1].into_iter().filter(|name| offered.iter().any(|o| o == name)).collect();
    let target = checked.target.clone();
    let activity = Arc::new(Activity::begin());
    let (upstream, connection, protocol) = match reach(grant, &checked, &wanted, &activity).await {
        Ok((stream, protocol)) => match Upstream::begin(grant, stream, protocol).await {
            Ok((upstream, connection)) => (upstream, Some(connection), protocol),
            Err(denial) => (Upstream::Refused(denial), None, protocol),
        },
        // The client shall be able to read why.
        Err(denial) => {
            let speaks_two = wanted.first() == Some(&HTTP2);
            let protocol = if speaks_two { Protocol::Http2 } else { Protocol::Http1 };
            (Upstream::Refused(denial), None, protocol)
        }
    };
    let name = if protocol == Protocol::Http2 { HTTP2 } else { HTTP1 };
    let config = grant.gate.tls.server(&target.host, wanted.contains(&name).then_some(name))?;
    let stream = tokio::time::timeout(patience, start.into_stream(config)).await.ok()?.ok()?;
    if !matches!(upstream, Upstream::Refused(_)) {
        grant.allow(&target, Way::Tls);
    }
    let talk =
        Talk { grant: Arc::clone(grant), target, speaks: Speaks::Https, is_this_machine: false, activity };
    let connection = async move {
        match connection {
            Some(connection) => connection.await,
            None => std::future::pending().await,
        }
    };
    talk.serve(stream, upstream, connection, protocol).await;
    Some(())
}

/// Connects to the host, which has to prove its name.
async fn reach(
    grant: &Arc<Grant>,
    checked: &Checked,
    wanted: &[&[u8]],
    activity: &Arc<Activity>,
) -> Result<(TlsStream<Metered>, Protocol), Denial> {
    let limits = &grant.gate.patience;
    let target = &checked.target;
    let config = grant.gate.tls.client(wanted).await?;
    let name = server_name(&target.host)?;
    let stream = grant.metered(checked.dial(limits.dial).await?, target, activity);
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = match tokio::time::timeout(limits.handshake, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if is_about_certificates(&error) => return Err(Denial::Untrusted),
        _ => return Err(Denial::Unreachable),
    };
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(HTTP2) => Protocol::Http2,
        _ => Protocol::Http1,
    };
    Ok((stream, protocol))
}

/// What a host's certificate has to prove.
pub(crate) fn server_name(host: &Host) -> Result<ServerName<'static>, Denial> {
    match host.address() {
        Some(address) => Ok(ServerName::IpAddress(address.into())),
        None => ServerName::try_from(host.to_string()).map_err(|_odd| Denial::BadName),
    }
}

fn is_about_certificates(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
