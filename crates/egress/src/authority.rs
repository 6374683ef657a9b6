//! The gate's own certificate authority, which only sandboxes trust: made in memory, gone with the gate.
//!
//! # Invariants
//! - Its key is never written anywhere. A certificate is for one granted host and for a day.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::Host;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{CertifiedKey, SigningKey};

type Fault = Box<dyn std::error::Error + Send + Sync>;

const HOUR: i64 = 3_600_000;
const AUTHORITY_LIFE: i64 = 2 * 365 * 24 * HOUR;
const LEAF_LIFE: i64 = 24 * HOUR;
/// Clocks differ; a client's may be behind.
const EARLIER: i64 = 24 * HOUR;
const MAX_KEPT: usize = 256;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    leaf_key: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    leaves: Mutex<HashMap<Host, Leaf>>,
    clock: fn() -> i64,
}

struct Leaf {
    certified: Arc<CertifiedKey>,
    /// Another one is made from here on.
    until: i64,
}

impl Authority {
    pub(crate) fn new(provider: &CryptoProvider, clock: fn() -> i64) -> Result<Authority, Fault> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "Toolgate, for its sandboxes");
        lasting(&mut params, clock(), AUTHORITY_LIFE);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let leaf_key = KeyPair::generate()?;
        let der = PrivateKeyDer::try_from(leaf_key.serialize_der())?;
        let signing_key = provider.key_provider.load_private_key(der)?;
        Ok(Authority { issuer, leaf_key, signing_key, leaves: Mutex::default(), clock })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What proves, to a sandbox, that the gate is the host.
    pub(crate) fn certify(&self, host: &Host) -> Result<Arc<CertifiedKey>, Fault> {
        let now = (self.clock)();
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host).filter(|leaf| now < leaf.until) {
            return Ok(Arc::clone(&leaf.certified));
        }
        let mut params = CertificateParams::new(vec![host.to_string()])?;
        params.distinguished_name.push(DnType::CommonName, "a host, by way of Toolgate");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        lasting(&mut params, now, LEAF_LIFE);
        let leaf = params.signed_by(&self.leaf_key, &self.issuer)?;
        let certified = CertifiedKey::new(vec![leaf.der().clone()], Arc::clone(&self.signing_key));
        let certified = Arc::new(certified);
        if leaves.len() >= MAX_KEPT {
            leaves.clear();
        }
        leaves.insert(host.clone(), Leaf { certified: Arc::clone(&certified), until: now + LEAF_LIFE / 2 });
        Ok(certified)
    }
}

fn lasting(params: &mut CertificateParams, now: i64, life: i64) {
    let at = |milliseconds: i64| {
        let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
        date_time_ymd(1970, 1, 1) + since
    };
    params.not_before = at(now.saturating_sub(EARLIER));
    params.not_after = at(now.saturating_add(life));
}
