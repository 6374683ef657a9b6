//! Beyond loopback: by TLS and under a name, or not at all.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use engine::Credential;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use server::{HttpError, HttpOptions, Outside, OutsideError, TlsFiles, serve_gate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::client::{Response, Wish};
use crate::stub::{OPERATOR, Server, Stub};

/// Why a gate does not start.
async fn refusal(listen: &str, outside: Outside) -> OutsideError {
    let options = HttpOptions {
        listen: listen.parse::<SocketAddr>().unwrap(),
        outside,
        operator_credential: Credential::presented(OPERATOR),
        agent_tokens: Arc::new(std::collections::HashMap::new()),
        access_tokens: None,
        elsewhere: Arc::new(server::NobodyElsewhere),
        home: None,
        limits: server::Limits::default(),
        shutdown: CancellationToken::new(),
    };
    let gate = Arc::new(Stub::default());
    match serve_gate(gate, options, |_| panic!("it must not start")).await {
        Err(HttpError::Outside(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_certificate_it_listens_on_loopback_only() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7433"] {
        assert!(
            matches!(refusal(address, Outside::default()).await, OutsideError::NoTls { .. }),
            "{address}"
        );
        let named = Outside { names: vec!["gate.test".to_owned()], ..Outside::default() };
        assert!(matches!(refusal(address, named).await, OutsideError::NoTls { .. }), "{address}");
        let nameless = Outside { dangerously_without_tls: true, ..Outside::default() };
        assert!(matches!(refusal(address, nameless).await, OutsideError::NoName { .. }), "{address}");
    }
}

fn files(folder: &Path) -> (TlsFiles, RootCertStore) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["gate.test".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&files.certificate, cert.pem()).unwrap();
    std::fs::write(&files.key, signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    (files, roots)
}

async fn ask(server: &Server, roots: &RootCertStore, wish: Wish) -> Response {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots.clone()).with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("gate.test").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let host = format!("gate.test:{}", server.address.port());
    stream.write_all(wish.written(&host).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    Response::read(&String::from_utf8_lossy(&answer))
}

#[tokio::test]
async fn by_tls_it_answers_under_its_name_with_cookies_that_stay_there() {
    let folder = tempfile::tempdir().unwrap();
    let (files, roots) = files(folder.path());
    let names = vec!["gate.test".to_owned()];
    let server = Server::start_with(Outside { tls: Some(files), names, ..Outside::default() }).await;
    let port = server.address.port();
    let healthy = ask(&server, &roots, Wish::get("/healthz")).await;
    assert_eq!(healthy.status, 200);
    assert_eq!(healthy.header("strict-transport-security"), Some("max-age=31536000"));
    let link = server.sign_in_url.strip_prefix(&format!("https://gate.test:{port}")).unwrap().to_owned();
    let opened = ask(&server, &roots, Wish::get(&link)).await;
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-toolgate="), "{cookie}");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure; Path=/; Max-Age=43200"), "{cookie}");
    // Another name, another scheme, and no TLS at all.
    let elsewhere = ask(&server, &roots, Wish::get("/healthz").host("evil.example")).await;
    assert_eq!((elsewhere.status, elsewhere.problem().as_str()), (421, "wrong_host"));
    let body = r#"{"operator":"me","password":"x"}"#;
    let asked = Wish::post("/v1/sign-in/password", body);
    let clear = asked.clone().with("Origin", &format!("http://gate.test:{port}"));
    assert_eq!(ask(&server, &roots, clear).await.problem(), "wrong_origin");
    let ours = asked.with("Origin", &format!("https://gate.test:{port}"));
    assert_eq!(ask(&server, &roots, ours).await.status, 200);
    let plain = server.ask(Wish::get("/healthz")).await;
    assert_eq!(plain.status, 0, "{plain:?}");
}

#[tokio::test]
async fn files_that_are_not_there_or_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = files(folder.path());
    let missing = TlsFiles { certificate: folder.path().join("none.pem"), ..good.clone() };
    let outside = |tls| Outside { tls: Some(tls), ..Outside::default() };
    assert!(matches!(refusal("127.0.0.1:0", outside(missing)).await, OutsideError::Unreadable { .. }));
    let other = tempfile::tempdir().unwrap();
    let (other, _) = files(other.path());
    let mixed = TlsFiles { key: other.key, ..good };
    let why = refusal("127.0.0.1:0", outside(mixed)).await;
    assert!(matches!(why, OutsideError::Unfit(_) | OutsideError::Unreadable { .. }), "{why}");
}
