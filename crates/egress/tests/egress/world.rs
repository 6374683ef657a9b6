//! An outside with its resolver, a gate's way out, and sandboxes with a grant.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use contract::{Private, Reach, Target};
use egress::{
    Denial, Doors, Egress, EgressSettings, Methods, OpenGrant, Outcome, Patience, Permit, PermitLimits,
    Usage, Way,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpStream, UdpSocket};

use crate::nameserver::Nameserver;
use crate::namespaces::Sandbox;

/// Runs a test that awaits.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    runtime.block_on(limited).expect("the test hangs");
}

pub(crate) struct World {
    pub(crate) names: Nameserver,
    pub(crate) egress: Egress,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(|_settings| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut EgressSettings)) -> World {
        let (names, at) = Nameserver::start().await;
        let mut settings = EgressSettings {
            nameservers: vec![at],
            extra_roots: authority().pem(),
            credentials: Vec::new(),
            vault: None,
            known_hosts: Vec::new(),
            sign_ins: Vec::new(),
            patience: Patience { handshake: Duration::from_secs(5), ..Patience::default() },
            clock: now,
        };
        change(&mut settings);
        World { names, egress: Egress::new(settings).unwrap() }
    }

    /// A sandbox with a grant to these places, and doors for their ports.
    pub(crate) fn open(&self, reach: &[&str]) -> Inside {
        self.open_with(permit(reach))
    }

    pub(crate) fn open_with(&self, permit: Permit) -> Inside {
        let sandbox = Sandbox::new();
        let mut ports: Vec<u16> = permit.reach.iter().map(|reach| reach.port).collect();
        ports.sort_unstable();
        ports.dedup();
        let signer = signer_address();
        let door = UnixListener::bind_addr(&signer).unwrap();
        let doors = Doors {
            dns_udp: sandbox.bind_udp("127.0.0.1:53"),
            dns_tcp: sandbox.listen("127.0.0.1:53"),
            http_proxy: sandbox.listen("127.0.0.1:3128"),
            socks: sandbox.listen("127.0.0.1:1080"),
            tcp: ports.into_iter().map(|port| (port, sandbox.listen(&format!("[::]:{port}")))).collect(),
            signer: Some(door.into()),
        };
        let grant = self.egress.open(permit, doors).unwrap();
        Inside { sandbox, grant, signer }
    }
}

pub(crate) fn permit(reach: &[&str]) -> Permit {
    Permit {
        reach: reach.iter().map(|text| Reach::parse(text).unwrap()).collect(),
        blocked: Vec::new(),
        methods: Methods::Any,
        spends: reach.iter().filter_map(|text| Target::parse(text).ok()).collect(),
        by_pattern: Vec::new(),
        private: Private::none(),
        login: None,
        limits: PermitLimits::default(),
    }
}

/// What a tool can do with its network.
pub(crate) struct Inside {
    pub(crate) sandbox: Sandbox,
    pub(crate) grant: OpenGrant,
    /// Where the signer is asked.
    pub(crate) signer: LocalAddr,
}

impl Inside {
    /// Asks the sandbox's DNS for an IPv4 address.
    pub(crate) async fn resolve(&self, name: &str) -> Option<Ipv4Addr> {
        let reply = self.ask_dns(name, 1).await;
        // The address is the last of the answer, before eleven bytes that say what the server understands.
        let octets: [u8; 4] = reply[..reply.len() - 11].last_chunk().copied()?;
        (reply[7] == 1).then(|| octets.into())
    }

    /// The whole answer to a question for a kind of record.
    pub(crate) async fn ask_dns(&self, name: &str, kind: u16) -> Vec<u8> {
        let socket = std::net::UdpSocket::from(self.sandbox.bind_udp("127.0.0.1:0"));
        socket.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from_std(socket).unwrap();
        socket.send_to(&question(name, kind), "127.0.0.1:53").await.unwrap();
        let mut reply = vec![0; 600];
        let length = socket.recv(&mut reply).await.unwrap();
        reply.truncate(length);
        reply
    }

    /// Connects as a program does: by the name's address.
    pub(crate) async fn connect(&self, name: &str, port: u16) -> TcpStream {
        let address = self.resolve(name).await.expect("the name has an address inside");
        self.connect_to(IpAddr::V4(address), port).unwrap()
    }

    pub(crate) fn connect_to(&self, address: IpAddr, port: u16) -> Result<TcpStream, String> {
        self.sandbox.connect(SocketAddr::new(address, port))
    }

    /// Waits until an attempt has been refused for this reason; the events so far, if it is not.
    pub(crate) async fn refused(&self, host: &str, way: Way, denial: &Denial) {
        for _ in 0..2000 {
            let usage = self.grant.usage_so_far();
            let wanted = Outcome::Deny(denial.clone());
            if usage
                .events
                .iter()
                .any(|event| event.host == host && event.way == way && event.outcome == wanted)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not refused: {:?}", self.grant.usage_so_far().events);
    }

    pub(crate) fn usage(&self) -> Usage {
        self.grant.usage_so_far()
    }
}

pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// A socket of its own for each signer, without a file.
fn signer_address() -> LocalAddr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let name = format!("toolgate-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    LocalAddr::from_abstract_name(name).unwrap()
}

/// An address of the outside that no other test has.
pub(crate) fn public_address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    Ipv4Addr::from(u32::from_be_bytes([45, 76, 0, 0]) + NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Who signs the certificates of the outside's hosts.
fn authority() -> &'static CertifiedIssuer<'static, KeyPair> {
    static AUTHORITY: OnceLock<CertifiedIssuer<'static, KeyPair>> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    })
}

/// How a host of the outside proves its name.
pub(crate) fn server_config(name: &str, protocols: &[&str]) -> Arc<rustls::ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, authority()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// What a client trusts that knows the outside's authority.
pub(crate) fn client_config(protocols: &[&str]) -> rustls::ClientConfig {
    client_config_trusting(&authority().pem(), protocols)
}

pub(crate) fn client_config_trusting(pem: &str, protocols: &[&str]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}
