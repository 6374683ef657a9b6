//! The world's web servers: at every address, plain at some ports and with TLS at others, for any name.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::Visit;
use crate::Try;

const PLAIN: [u16; 3] = [80, 8080, 3000];
const TLS: [u16; 2] = [443, 8443];
const DATAGRAMS: [u16; 4] = [443, 80, 123, 8443];
/// Where the server speaks first.
const GREETING: u16 = 2222;
/// Whoever says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(20);

type Visits = Arc<Mutex<Vec<Visit>>>;

/// Begins them all. The certificate of who vouches for them, in PEM.
pub(super) fn serve(visits: &Visits) -> Try<String> {
    let authority = Authority::new()?;
    let pem = authority.pem.clone();
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(authority));
    let config = Arc::new(config);
    for port in PLAIN {
        accept_at(port, visits, |visits, stream| answer(stream.try_clone()?, &stream, None, &visits))?;
    }
    for port in TLS {
        let config = Arc::clone(&config);
        accept_at(port, visits, move |visits, stream| answer_secretly(&config, stream, &visits))?;
    }
    accept_at(GREETING, visits, |visits, mut stream| {
        stream.write_all(b"220 hello\n")?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        note(&visits, &stream, None, line.clone())?;
        stream.write_all(b"250 good\n")?;
        let _ = stream.set_read_timeout(None);
        let _ = io::copy(&mut stream, &mut io::sink());
        note(&visits, &stream, None, format!("closed {line}"))
    })?;
    for port in DATAGRAMS {
        take_datagrams(port, Arc::clone(visits))?;
    }
    Ok(pem)
}

fn accept_at(
    port: u16,
    visits: &Visits,
    serve: impl Fn(Visits, TcpStream) -> io::Result<()> + Clone + Send + 'static,
) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a server of the suite's own, in its own namespace")]
    let listener = TcpListener::bind(SocketAddr::from(([0_u16; 8], port)))?;
    let visits = Arc::clone(visits);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (serve, visits) = (serve.clone(), Arc::clone(&visits));
            thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                serve(visits, stream)
            });
        }
    });
    Ok(())
}

fn take_datagrams(port: u16, visits: Visits) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a server of the suite's own, in its own namespace")]
    let socket = UdpSocket::bind(SocketAddr::from(([0_u16; 8], port)))?;
    thread::spawn(move || {
        let mut datagram = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let request = String::from_utf8_lossy(datagram.get(..length).unwrap_or_default()).into_owned();
            let visit = Visit { address: from.ip(), port, sni: None, request };
            visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
        }
    });
    Ok(())
}

fn answer_secretly(config: &Arc<ServerConfig>, stream: TcpStream, visits: &Visits) -> io::Result<()> {
    let plain = stream.try_clone()?;
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut secret = StreamOwned::new(connection, stream);
    if secret.conn.complete_io(&mut secret.sock).is_err() {
        return note(visits, &plain, None, "no handshake".to_owned());
    }
    let sni = secret.conn.server_name().map(str::to_owned);
    answer(secret, &plain, sni, visits)
}

/// Answers requests of one connection until it ends.
fn answer(
    stream: impl Read + Write,
    plain: &TcpStream,
    sni: Option<String>,
    visits: &Visits,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                // What was sent of it counts.
                return if head.is_empty() { Ok(()) } else { note(visits, plain, sni, head) };
            }
        }
        let length = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0_usize);
        let mut body = vec![0; length.min(1 << 20)];
        stream.read_exact(&mut body)?;
        let request = format!("{head}{}", String::from_utf8_lossy(&body));
        note(visits, plain, sni.clone(), request)?;
        let said = super::git::say(&head, &body)
            .or_else(|| super::forge::say(&head, &body))
            .unwrap_or_else(|| say(&head).into_bytes());
        stream.get_mut().write_all(&said)?;
        stream.get_mut().flush()?;
    }
}

/// What a path means.
fn say(head: &str) -> String {
    let target = head.split_whitespace().nth(1).unwrap_or("/");
    if let Some((_, to)) = target.split_once("/redirect?to=") {
        return format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    }
    if let Some(rest) = target.strip_prefix("/away/") {
        return format!(
            "HTTP/1.1 302 Found\r\nLocation: https://other.test/git/{rest}\r\nContent-Length: 0\r\n\r\n"
        );
    }
    let body = match target.strip_prefix("/bytes/").and_then(|count| count.parse::<usize>().ok()) {
        Some(count) => "x".repeat(count),
        // It says back what it was told.
        None if target.starts_with("/echo/") => head.to_owned(),
        None => "reached\n".to_owned(),
    };
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}")
}

pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn note(visits: &Visits, stream: &TcpStream, sni: Option<String>, request: String) -> io::Result<()> {
    let at = stream.local_addr()?;
    let address = match at.ip() {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    let visit = Visit { address, port: at.port(), sni, request };
    visits.lock().unwrap_or_else(PoisonError::into_inner).push(visit);
    Ok(())
}

/// Vouches for any name at once.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    made: Mutex<BTreeMap<String, Arc<CertifiedKey>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    fn new() -> Try<Authority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "the world of an attack");
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem, made: Mutex::default() })
    }

    fn certify(&self, name: &str) -> Try<Arc<CertifiedKey>> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &self.issuer)?;
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signing = ring::sign::any_supported_type(&der)?;
        Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate.der().to_vec())], signing)))
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().unwrap_or("nobody.test").to_owned();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = made.get(&name) {
            return Some(Arc::clone(key));
        }
        let key = self.certify(&name).ok()?;
        made.insert(name, Arc::clone(&key));
        Some(key)
    }
}
