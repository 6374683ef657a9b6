//! Secrets on their way out.

use std::sync::Arc;

use contract::{HostPattern, Reach, Target};
use egress::{
    Credential, Denial, Egress, EgressError, EgressSettings, Injection, Methods, Permit, Secret,
    SecretSource, Vault, VaultToken, Way,
};
use linux_keyutils::{KeyRing, KeyRingIdentifier};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::Test;
use crate::hosts::{Got, OutsideHost, WebHost, exchange, tls, tls_with};
use crate::world::{Inside, World, client_config_trusting, permit, run, server_config};

pub(crate) const TESTS: &[Test] = &[
    ("a secret arrives in its place and what the caller sent there does not", arrives),
    ("a secret goes to its own place only", own_place_only),
    ("a permit that spends for one place spends for no other", spends_for_one),
    ("a secret does not go out without TLS", not_without_tls),
    ("a placeholder in a body is replaced for its host and inert elsewhere", body_placeholder),
    ("a signature is made outside", signature),
    ("a secret in a file is read anew, and without it nothing is sent", file),
    ("a secret in a keyring is had from the kernel, and without it nothing is sent", keyring),
    ("a secret in a vault is asked for with the gate's token", vault),
    ("a secret is in no event, and no host is asked to show it", never_shown),
    ("a host that says a secret back is not heard saying it", said_back),
    ("credentials that cannot work are refused at once", bad_credentials),
];

const SECRET: &str = "s3cr3t-value";

fn credential(to: &str, injection: Injection) -> Credential {
    let source = SecretSource::Value(Secret::new(SECRET.to_owned()));
    Credential { to: Reach::parse(to).unwrap(), injection, source }
}

async fn world_with(credentials: Vec<Credential>) -> (World, WebHost) {
    let world = World::with(|settings| settings.credentials = credentials).await;
    let web = WebHost::tls("a.test", 443, &["h2", "http/1.1"]).await;
    world.names.say("a.test", &[&web.host.at()]);
    (world, web)
}

/// Asks `a.test` over TLS that ends at the gate.
async fn ask(world: &World, inside: &Inside, head: &str, body: &str) -> String {
    let trust = client_config_trusting(world.egress.certificate_authority(), &["http/1.1"]);
    let stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust).await.unwrap();
    let length = body.len();
    let sent = format!("{head}Host: a.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    exchange(stream, &sent).await
}

async fn sent_by(injection: Injection, head: &str) -> Got {
    let (world, web) = world_with(vec![credential("a.test:443", injection)]).await;
    let permit = permit(&["a.test:443"]);
    assert!(world.egress.terminates(&permit));
    let inside = world.open_with(permit);
    let answer = ask(&world, &inside, head, "").await;
    assert!(answer.contains("200 OK") && !answer.contains(SECRET), "{answer}");
    web.got().remove(0)
}

fn arrives() {
    run(async {
        let forged = "POST /x?key=forged&a=1 HTTP/1.1\r\nAuthorization: Bearer forged\r\nX-Key: forged\r\n";
        let got = sent_by(Injection::Bearer, forged).await;
        assert_eq!(got.header("authorization"), [format!("Bearer {SECRET}")]);
        let got = sent_by(Injection::Header { name: "x-key".into() }, forged).await;
        assert_eq!(got.header("x-key"), [SECRET]);
        let got = sent_by(Injection::Basic { user: "me".into() }, forged).await;
        assert_eq!(got.header("authorization"), ["Basic bWU6czNjcjN0LXZhbHVl"]);
        let got = sent_by(Injection::Query { name: "key".into() }, forged).await;
        assert_eq!(got.uri, format!("/x?a=1&key={SECRET}"));
    });
}

fn own_place_only() {
    run(async {
        let (world, web) = world_with(vec![credential("a.test:443", Injection::Bearer)]).await;
        let other = OutsideHost::tls_echo("b.test", 443).await;
        let port = OutsideHost::tls_echo("a.test", 8443).await;
        world.names.say("b.test", &[&other.at()]);
        let inside = world.open(&["a.test:443", "b.test:443", "a.test:8443"]);
        // Others are passed through to whoever proves their name: no secret could be put in.
        let mut stream = tls(inside.connect("b.test", 443).await, "b.test").await.unwrap();
        let sent = b"GET / HTTP/1.1\r\nHost: b.test\r\nAuthorization: {{SECRET}}\r\n\r\n";
        stream.write_all(sent).await.unwrap();
        let mut back = [0; 59];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, sent);
        assert_eq!(port.visits(), 0);
        // A host that is configured and not granted is not reached.
        let inside = world.open(&["b.test:443"]);
        assert_eq!(inside.resolve("a.test").await, None);
        assert!(!world.egress.terminates(&permit(&["b.test:443", "a.test:8443"])));
        assert_eq!(web.lines(), Vec::<String>::new());
    });
}

fn spends_for_one() {
    run(async {
        let (world, web) = world_with(vec![credential("a.test:443", Injection::Bearer)]).await;
        let spends = |place| Permit {
            spends: vec![Target::parse(place).unwrap()],
            methods: Methods::ReadOnly,
            ..permit(&["a.test:443", "b.test:443"])
        };
        let head = "GET / HTTP/1.1\r\nAuthorization: own\r\n";
        for place in ["b.test:443", "a.test:443"] {
            let inside = world.open_with(spends(place));
            assert!(ask(&world, &inside, head, "").await.contains("200 OK"));
        }
        let sent: Vec<_> = web.got().iter().map(|got| got.header("authorization")[0].to_owned()).collect();
        assert_eq!(sent, ["own".to_owned(), format!("Bearer {SECRET}")]);
        let passed = Permit { methods: Methods::Any, ..spends("b.test:443") };
        assert!(!world.egress.terminates(&passed));
    });
}

fn not_without_tls() {
    run(async {
        let world =
            World::with(|settings| settings.credentials = vec![credential("a.test:80", Injection::Bearer)])
                .await;
        let web = WebHost::plain(80).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open(&["a.test:80"]);
        let sent = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        assert!(exchange(inside.connect("a.test", 80).await, sent).await.contains("200 OK"));
        assert_eq!(web.got()[0].header("authorization"), Vec::<&str>::new());
    });
}

fn body_placeholder() {
    run(async {
        let placeholder = "{{THE_TOKEN}}".to_owned();
        let (world, web) =
            world_with(vec![credential("a.test:443", Injection::BodyPlaceholder { placeholder })]).await;
        let other = WebHost::plain(80).await;
        world.names.say("b.test", &[&other.host.at()]);
        let inside = world.open(&["a.test:443", "b.test:80"]);
        let body = r#"{"token": "{{THE_TOKEN}}"}"#;
        let head = "POST / HTTP/1.1\r\nContent-Type: application/json\r\n";
        assert!(ask(&world, &inside, head, body).await.contains("200 OK"));
        assert_eq!(web.got()[0].body, r#"{"token": "s3cr3t-value"}"#);
        let sent = format!(
            "{head}Host: b.test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        assert!(exchange(inside.connect("b.test", 80).await, &sent).await.contains("200 OK"));
        assert_eq!(other.got()[0].body, body);
    });
}

fn signature() {
    run(async {
        let injection = Injection::AwsSigV4 {
            access_key: "AKIDEXAMPLE".into(),
            region: "eu-central-1".into(),
            service: "s3".into(),
        };
        let got =
            sent_by(injection, "GET /bucket HTTP/1.1\r\nAuthorization: forged\r\nX-Amz-Date: forged\r\n")
                .await;
        let signed = got.header("authorization");
        assert!(
            signed.len() == 1 && signed[0].starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
            "{signed:?}"
        );
        assert_ne!(got.header("x-amz-date"), ["forged"]);
        assert!(!format!("{got:?}").contains(SECRET));
    });
}

fn file() {
    run(async {
        let path = std::env::temp_dir().join(format!("toolgate-egress-{}-secret", std::process::id()));
        std::fs::write(&path, "first\n").unwrap();
        let to = Reach::parse("a.test:443").unwrap();
        let source = SecretSource::File(path.clone());
        let (world, web) = world_with(vec![Credential { to, injection: Injection::Bearer, source }]).await;
        let inside = world.open(&["a.test:443"]);
        let head = "GET / HTTP/1.1\r\n";
        assert!(ask(&world, &inside, head, "").await.contains("200 OK"));
        std::fs::write(&path, "second").unwrap();
        assert!(ask(&world, &inside, head, "").await.contains("200 OK"));
        std::fs::remove_file(&path).unwrap();
        let answer = ask(&world, &inside, head, "").await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("no_credential"), "{answer}");
        inside.refused("a.test", Way::Http, &Denial::NoCredential).await;
        let sent: Vec<_> = web.got().iter().map(|got| got.header("authorization")[0].to_owned()).collect();
        assert_eq!(sent, ["Bearer first", "Bearer second"]);
    });
}

fn keyring() {
    run(async {
        let name = format!("toolgate-egress-{}", std::process::id());
        let ring = KeyRing::from_special_id(KeyRingIdentifier::User, true).unwrap();
        let key = ring.add_key(&name, "kept\n").unwrap();
        let to = Reach::parse("a.test:443").unwrap();
        let source = SecretSource::Keyring(name);
        let (world, web) = world_with(vec![Credential { to, injection: Injection::Bearer, source }]).await;
        let inside = world.open(&["a.test:443"]);
        let head = "GET / HTTP/1.1\r\n";
        assert!(ask(&world, &inside, head, "").await.contains("200 OK"));
        key.invalidate().unwrap();
        assert!(ask(&world, &inside, head, "").await.contains("no_credential"));
        let sent: Vec<_> = web.got().iter().map(|got| got.header("authorization")[0].to_owned()).collect();
        assert_eq!(sent, ["Bearer kept"]);
    });
}

fn vault() {
    run(async {
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        // The operator's own network is private, and no sandbox may reach it.
        let acceptor = TlsAcceptor::from(server_config("vault.test", &[]));
        let store = OutsideHost::serve_at("10.20.30.40".parse().unwrap(), 8200, move |stream| {
            let (heard, acceptor) = (Arc::clone(&heard), acceptor.clone());
            async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut head).await.unwrap();
                }
                heard.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                let body = format!(r#"{{"data": {{"data": {{"token": "{SECRET}"}}}}}}"#);
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        })
        .await;
        let source = SecretSource::Vault { path: "secret/data/api".into(), field: "token".into() };
        let to = Reach::parse("a.test:443").unwrap();
        let world = World::with(|settings| {
            settings.credentials = vec![Credential { to, injection: Injection::Bearer, source }];
            let token = VaultToken::Value(Secret::new("hvs.own".into()));
            settings.vault = Some(Vault { address: Target::parse("vault.test:8200").unwrap(), token });
        })
        .await;
        world.names.say("vault.test", &["10.20.30.40"]);
        let web = WebHost::tls("a.test", 443, &["http/1.1"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open(&["a.test:443"]);
        for _ in 0..2 {
            assert!(ask(&world, &inside, "GET / HTTP/1.1\r\n", "").await.contains("200 OK"));
        }
        assert_eq!(web.got()[1].header("authorization"), [format!("Bearer {SECRET}")]);
        let asked = asked.lock().unwrap().clone();
        assert_eq!((asked.len(), store.visits()), (1, 1), "it is asked once, and kept for a while");
        assert!(
            asked[0].starts_with("GET /v1/secret/data/api HTTP/1.1")
                && asked[0].contains("x-vault-token: hvs.own")
        );
    });
}

fn never_shown() {
    run(async {
        let credential = credential("a.test:443", Injection::Bearer);
        assert!(!format!("{credential:?}").contains(SECRET));
        let (world, web) = world_with(vec![credential]).await;
        let inside = world.open(&["a.test:443"]);
        let answer = ask(&world, &inside, "TRACE / HTTP/1.1\r\n", "").await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains(SECRET), "{answer}");
        inside.refused("a.test", Way::Http, &Denial::ShowsCredential).await;
        assert!(ask(&world, &inside, "GET / HTTP/1.1\r\n", "").await.contains("200 OK"));
        let usage = inside.grant.close().await;
        let told = format!("{usage:?} {}", serde_json::to_string(&usage).unwrap());
        assert!(!told.contains(SECRET), "{told}");
        assert_eq!(web.lines(), ["GET /"]);
    });
}

fn said_back() {
    run(async {
        let (world, web) = world_with(vec![credential("a.test:443", Injection::Bearer)]).await;
        web.says_back();
        let inside = world.open(&["a.test:443"]);
        let answer =
            ask(&world, &inside, "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\nX-Own: visible\r\n", "").await;
        assert!(answer.contains("200 OK") && answer.contains("visible"), "{answer}");
        assert!(answer.contains("Bearer ************") && !answer.contains(SECRET), "{answer}");
        assert_eq!(web.got()[0].header("accept-encoding"), ["identity"]);
    });
}

fn bad_credentials() {
    let refused = |credentials: Vec<Credential>| {
        Egress::new(EgressSettings {
            nameservers: vec!["127.0.0.1:53".parse().unwrap()],
            extra_roots: String::new(),
            credentials,
            vault: None,
            known_hosts: Vec::new(),
            sign_ins: Vec::new(),
            patience: egress::Patience::default(),
            clock: crate::world::now,
        })
        .unwrap_err()
    };
    for name in ["host", "Content-Length", "transfer-encoding", "a b", ""] {
        let error = refused(vec![credential("a.test:443", Injection::Header { name: name.into() })]);
        assert!(matches!(error, EgressError::Header { .. }), "{name}: {error}");
    }
    let short = Injection::BodyPlaceholder { placeholder: "x".into() };
    assert!(matches!(refused(vec![credential("a.test:443", short)]), EgressError::Placeholder { .. }));
    let twice = vec![
        credential("a.test:443", Injection::Bearer),
        credential("a.test:443", Injection::Header { name: "Authorization".into() }),
    ];
    assert!(matches!(refused(twice), EgressError::SamePlace { .. }));
    let everybody = Reach { host: HostPattern::Public, port: 443 };
    let for_all = Credential { to: everybody, ..credential("a.test:443", Injection::Bearer) };
    assert!(matches!(refused(vec![for_all]), EgressError::ForEverybody));
    let source = SecretSource::Vault { path: "x".into(), field: "y".into() };
    let kept = Credential { source, ..credential("a.test:443", Injection::Bearer) };
    assert!(matches!(refused(vec![kept]), EgressError::NoVault));
}
