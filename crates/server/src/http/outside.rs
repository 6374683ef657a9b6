//! How the gate is reached from outside of this machine: under which names, and by which certificate.
//!
//! # Invariants
//! - Nothing goes over a network in the clear unless whoever starts the gate says so in so many words.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_TAKES: Duration = Duration::from_secs(15);

/// How the gate is reached from outside. The default is: not at all.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    /// The certificate by which it is known; without one it speaks in the clear.
    pub tls: Option<TlsFiles>,
    /// Names under which it answers, besides the loopback's.
    pub names: Vec<String>,
    /// Whether it listens elsewhere than on loopback without a certificate.
    pub dangerously_without_tls: bool,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the gate's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why the gate cannot be reached so.
#[derive(Debug, Error)]
pub enum OutsideError {
    /// It would be open to others in the clear.
    #[error("`{address}` can be reached from outside, and there is no certificate")]
    NoTls {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// Nobody could tell its pages from others'.
    #[error("`{address}` can be reached from outside, and no name says under which")]
    NoName {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// They do not belong together.
    #[error("the certificate and the key do not belong together")]
    Unfit(#[source] rustls::Error),
}

impl Outside {
    /// Whether the gate may listen there; and by what it speaks TLS, if it does.
    pub(super) fn check(&self, address: SocketAddr) -> Result<Option<TlsAcceptor>, OutsideError> {
        if !address.ip().is_loopback() {
            // ATTACK(open-in-the-clear)
            if self.tls.is_none() && !self.dangerously_without_tls {
                return Err(OutsideError::NoTls { address });
            }
            if self.names.is_empty() {
                return Err(OutsideError::NoName { address });
            }
        }
        self.tls.as_ref().map(TlsFiles::load).transpose()
    }
}

impl TlsFiles {
    fn load(&self) -> Result<TlsAcceptor, OutsideError> {
        let of = |path: &PathBuf| {
            let path = path.clone();
            move |source| OutsideError::Unreadable { path, source }
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(of(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(of(&self.key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(OutsideError::Unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(OutsideError::Unfit)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Shakes hands, in its time.
pub(super) async fn shake(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let slow = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(HANDSHAKE_TAKES, acceptor.accept(stream)).await.map_err(slow)?
}
