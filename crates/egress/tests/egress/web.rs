//! HTTP, with and without TLS, request by request.

use std::sync::Arc;
use std::time::Duration;

use egress::{Denial, Methods, Permit, Way};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use crate::Test;
use crate::hosts::{OutsideHost, WebHost, exchange, read_all, tls, tls_with};
use crate::world::{Inside, World, client_config_trusting, permit, run};

pub(crate) const TESTS: &[Test] = &[
    ("requests without TLS go through with their bodies", plain_requests),
    ("a kept connection does not lead to a second host", second_host),
    ("a whole URL has to agree with the host", absolute_form),
    ("a request with two lengths becomes one request", smuggling),
    ("no other protocol comes out of HTTP", changes_of_protocol),
    ("a refused request names one reason as a problem document", problem_document),
    ("a head that dawdles is put out", slow_head),
    ("bodies are streamed, not gathered", streaming),
    ("a grant that reads lets GET through and nothing that writes", read_only),
    ("a grant that reads speaks HTTP/2 to whom that is spoken", read_only_http2),
    ("an authority of another host is refused in HTTP/2", other_authority),
    ("a grant that reads lets no other protocol through", read_only_other_protocols),
    ("a host that cannot prove its name gets no request", untrusted_host),
    ("a connection whose TLS ends at the gate ends with its grant", drop_ends_terminated),
    ("bytes of requests are counted and bounded", bytes_of_requests),
];

fn reading(reach: &[&str]) -> Permit {
    Permit { methods: Methods::ReadOnly, ..permit(reach) }
}

async fn plain_world() -> (World, WebHost, Inside) {
    let world = World::new().await;
    let web = WebHost::plain(80).await;
    world.names.say("a.test", &[&web.host.at()]);
    let inside = world.open(&["a.test:80"]);
    (world, web, inside)
}

fn plain_requests() {
    run(async {
        let (_world, web, inside) = plain_world().await;
        let sent = "POST /x?y=1 HTTP/1.1\r\nHost: A.TEST:80\r\nContent-Length: 5\r\nX-Own: 1\r\nTE: trailers\r\n\
            Proxy-Authorization: Basic x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\r\nhello";
        let answer = exchange(inside.connect("a.test", 80).await, sent).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok"), "{answer}");
        let got = &web.got()[0];
        assert_eq!((got.method.as_str(), got.uri.as_str(), got.body.as_str()), ("POST", "/x?y=1", "hello"));
        assert_eq!(got.header("host"), ["a.test"]);
        assert_eq!(got.header("x-own"), ["1"]);
        for gone in ["te", "proxy-authorization", "x-hop", "connection"] {
            assert_eq!(got.header(gone), Vec::<&str>::new(), "{gone}");
        }
    });
}

fn second_host() {
    run(async {
        let (_world, web, inside) = plain_world().await;
        let first = "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n";
        for second in ["b.test", "a.test.b.test", "a.test:81", "a.test@b.test"] {
            let mut stream = inside.connect("a.test", 80).await;
            stream.write_all(first.as_bytes()).await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"ok") {
                stream.read_buf(&mut seen).await.unwrap();
            }
            let second = format!("GET /2 HTTP/1.1\r\nHost: {second}\r\nConnection: close\r\n\r\n");
            let answer = exchange(stream, &second).await;
            assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("other_host"), "{answer}");
        }
        // Both at once, one behind the other.
        let both = format!("{first}GET /2 HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n");
        let answer = exchange(inside.connect("a.test", 80).await, &both).await;
        assert!(answer.contains("200 OK") && answer.contains("403 Forbidden"), "{answer}");
        inside.refused("a.test", Way::Http, &Denial::OtherHost).await;
        assert_eq!(web.lines(), ["GET /1"; 5]);
    });
}

fn absolute_form() {
    run(async {
        let (_world, web, inside) = plain_world().await;
        let asked = |url: &str, host: &str| {
            format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        };
        let answer = exchange(inside.connect("a.test", 80).await, &asked("http://a.test/x", "a.test")).await;
        assert!(answer.contains("200 OK"), "{answer}");
        for (url, host) in
            [("http://b.test/x", "a.test"), ("http://a.test/x", "b.test"), ("http://u:p@a.test/", "a.test")]
        {
            let answer = exchange(inside.connect("a.test", 80).await, &asked(url, host)).await;
            assert!(answer.contains("403 Forbidden"), "{url} {host}: {answer}");
        }
        assert_eq!(web.lines(), ["GET /x"]);
    });
}

fn smuggling() {
    run(async {
        let (_world, web, inside) = plain_world().await;
        let hidden = "GET /hidden HTTP/1.1\r\nHost: b.test\r\n\r\n";
        let length = hidden.len() + 5;
        for head in [
            format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
            format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            format!("Content-Length: {length}\r\nContent-Length: 5\r\n"),
            "Transfer-Encoding: chunked, identity\r\n".to_owned(),
            "Transfer-Encoding: xchunked\r\n".to_owned(),
            format!("Content-Length : {length}\r\n"),
            "Content-Length: +5\r\n".to_owned(),
            format!("X: y\r\n Content-Length: {length}\r\n"),
        ] {
            let sent = format!("POST /open HTTP/1.1\r\nHost: a.test\r\n{head}\r\n0\r\n\r\n{hidden}");
            let answer = exchange(inside.connect("a.test", 80).await, &sent).await;
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head}: {answer}");
        }
        let got = web.got();
        assert!(got.iter().all(|got| got.uri == "/open" && got.body.is_empty()), "{got:?}");
        assert!(
            got.iter()
                .all(|got| got.header("content-length").len() + got.header("transfer-encoding").len() <= 1)
        );
    });
}

fn changes_of_protocol() {
    run(async {
        let (_world, web, inside) = plain_world().await;
        for sent in [
            "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n",
            "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        ] {
            let sent = sent.replacen("\r\n\r\n", "\r\nX: y\r\n\r\n", 1);
            let mut stream = inside.connect("a.test", 80).await;
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 403", "{sent}");
        }
        inside.refused("a.test", Way::Http, &Denial::Upgrade).await;
        inside.refused("a.test", Way::Http, &Denial::ConnectNotHere).await;
        exchange(inside.connect("a.test", 80).await, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        inside.refused("a.test", Way::Http, &Denial::BadRequest).await;
        let answer = exchange(inside.connect("a.test", 80).await, "SSH-2.0-x\r\n").await;
        assert!(answer.contains("not_http"), "{answer}");
        assert_eq!(web.lines(), Vec::<String>::new());
    });
}

fn problem_document() {
    run(async {
        let (_world, _web, inside) = plain_world().await;
        let answer = exchange(
            inside.connect("a.test", 80).await,
            "GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n",
        )
        .await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 403);
        assert_eq!(problem["code"], "other_host");
        assert_eq!(problem["detail"], Denial::OtherHost.to_string());
    });
}

fn slow_head() {
    run(async {
        let world = World::with(|settings| settings.patience.handshake = Duration::from_secs(2)).await;
        let web = WebHost::plain(80).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open(&["a.test:80"]);
        let mut slow = inside.connect("a.test", 80).await;
        slow.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n").await.unwrap();
        let other = exchange(
            inside.connect("a.test", 80).await,
            "GET /other HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert!(other.contains("200 OK"));
        read_all(&mut slow).await;
        inside.refused("a.test", Way::Http, &Denial::TooSlow).await;
        assert_eq!(web.lines(), ["GET /other"]);
    });
}

fn streaming() {
    run(async {
        let world = World::new().await;
        let go_on = Arc::new(Notify::new());
        let told = Arc::clone(&go_on);
        let host = OutsideHost::serve(80, move |mut stream| {
            let told = Arc::clone(&told);
            async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut head).await.unwrap();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst").await.unwrap();
                told.notified().await;
                stream.write_all(b"later").await.unwrap();
            }
        })
        .await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:80"]);
        let mut stream = inside.connect("a.test", 80).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"first") {
            stream.read_buf(&mut seen).await.unwrap();
        }
        go_on.notify_one();
        assert_eq!(read_all(&mut stream).await, "later");
    });
}

fn read_only() {
    run(async {
        let world = World::new().await;
        let web = WebHost::tls("a.test", 443, &["http/1.1"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let permit = reading(&["a.test:443"]);
        assert!(world.egress.terminates(&permit));
        let inside = world.open_with(permit);
        let trust = || client_config_trusting(world.egress.certificate_authority(), &["http/1.1"]);
        for (method, wanted) in [("GET", "200 OK"), ("POST", "403 Forbidden"), ("DELETE", "403 Forbidden")] {
            let stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust()).await.unwrap();
            let sent = format!("{method} /{method} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
            let answer = exchange(stream, &sent).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{answer}");
        }
        inside.refused("a.test", Way::Http, &Denial::Method).await;
        assert_eq!(web.lines(), ["GET /GET"]);
        // The host's own certificate is not what the sandbox sees, and another name is refused as ever.
        assert!(tls(inside.connect("a.test", 443).await, "a.test").await.is_err());
        inside.refused("a.test", Way::Tls, &Denial::BrokenHandshake).await;
        assert!(tls_with(inside.connect("a.test", 443).await, "b.test", trust()).await.is_err());
        inside.refused("a.test", Way::Tls, &Denial::OtherServerName).await;
    });
}

async fn http2(inside: &Inside, world: &World, uri: &str) -> hyper::Result<(StatusCode, String)> {
    let trust = client_config_trusting(world.egress.certificate_authority(), &["h2", "http/1.1"]);
    let stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder().uri(uri).body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn read_only_http2() {
    run(async {
        let world = World::new().await;
        let web = WebHost::tls("a.test", 443, &["h2", "http/1.1"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open_with(reading(&["a.test:443"]));
        let answer = http2(&inside, &world, "https://a.test/x?y").await.unwrap();
        assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
        assert_eq!(web.lines(), ["GET https://a.test/x?y"]);
    });
}

fn other_authority() {
    run(async {
        let world = World::new().await;
        let web = WebHost::tls("a.test", 443, &["h2"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open_with(reading(&["a.test:443"]));
        let (status, body) = http2(&inside, &world, "https://b.test/x").await.unwrap();
        assert!(status == StatusCode::FORBIDDEN && body.contains("other_host"), "{body}");
        assert_eq!(web.lines(), Vec::<String>::new());
    });
}

fn read_only_other_protocols() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::serve(22, |mut stream| async move {
            let _ = stream.write_all(b"SSH-2.0-host\r\n").await;
        })
        .await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open_with(reading(&["a.test:22"]));
        let answer = exchange(inside.connect("a.test", 22).await, "SSH-2.0-x\r\n").await;
        assert!(!answer.contains("SSH-2.0-host"), "{answer}");
        inside.refused("a.test", Way::Tcp, &Denial::NotHttp).await;
        assert_eq!(host.visits(), 0);
    });
}

fn untrusted_host() {
    run(async {
        let world = World::new().await;
        // It proves another name; that the sandbox trusts the gate does not help it.
        let web = WebHost::tls("b.test", 443, &["http/1.1"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open_with(reading(&["a.test:443"]));
        let trust = client_config_trusting(world.egress.certificate_authority(), &[]);
        let stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust).await.unwrap();
        let answer = exchange(stream, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("untrusted"), "{answer}");
        inside.refused("a.test", Way::Http, &Denial::Untrusted).await;
        assert_eq!(web.lines(), Vec::<String>::new());
    });
}

fn drop_ends_terminated() {
    run(async {
        let world = World::new().await;
        let web = WebHost::tls("a.test", 443, &["h2", "http/1.1"]).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open_with(reading(&["a.test:443"]));
        for protocols in [&["http/1.1"][..], &["h2"]] {
            let trust = client_config_trusting(world.egress.certificate_authority(), protocols);
            let stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust).await.unwrap();
            drop(stream);
        }
        let trust = client_config_trusting(world.egress.certificate_authority(), &["http/1.1"]);
        let mut stream = tls_with(inside.connect("a.test", 443).await, "a.test", trust).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"ok") {
            stream.read_buf(&mut seen).await.unwrap();
        }
        let usage = inside.grant.close().await;
        assert_eq!(read_all(&mut stream).await, "");
        assert!(usage.bytes_per_host["a.test"].received > 0);
    });
}

fn bytes_of_requests() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::serve(80, |mut stream| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut head).await.unwrap();
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
            let _ = stream.write_all(&vec![b'x'; 1_000_000]).await;
        })
        .await;
        world.names.say("a.test", &[&host.at()]);
        let mut permit = permit(&["a.test:80"]);
        permit.limits.bytes = 10_000;
        let inside = world.open_with(permit);
        let answer = exchange(
            inside.connect("a.test", 80).await,
            "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert!(answer.len() < 200_000, "{}", answer.len());
        inside.refused("a.test", Way::Http, &Denial::TooManyBytes).await;
    });
}
