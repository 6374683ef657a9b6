//! The doors for programs that want a proxy.

use std::net::{IpAddr, Ipv4Addr};

use contract::Special;
use egress::{Denial, Way};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Test;
use crate::hosts::{OutsideHost, WebHost, exchange, read_all, tls};
use crate::world::{Inside, World, run};

pub(crate) const TESTS: &[Test] = &[
    ("a tunnel leads to a granted host, which proves its name", tunnel),
    ("a tunnel to anything else is refused with a reason", other_tunnels),
    ("what is said in a tunnel is looked at as ever", inside_a_tunnel),
    ("a request with a whole URL goes to a granted host", whole_urls),
    ("socks leads to a granted host by name and by address", socks),
    ("socks leads nowhere else, whatever is written for a host", other_socks),
    ("socks neither listens nor sends datagrams", other_commands),
];

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Inside {
    fn http_door(&self) -> TcpStream {
        self.connect_to(LOCAL, 3128).unwrap()
    }

    fn socks_door(&self) -> TcpStream {
        self.connect_to(LOCAL, 1080).unwrap()
    }

    /// The first line of what the HTTP door says to CONNECT, and the stream after the head.
    async fn ask_tunnel(&self, to: &str) -> (String, TcpStream) {
        let mut stream = self.http_door();
        stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).await.unwrap() == 0 {
                break;
            }
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        (head.lines().next().unwrap_or_default().to_owned(), stream)
    }
}

fn tunnel() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let (said, stream) = inside.ask_tunnel("A.test.:443").await;
        assert_eq!(said, "HTTP/1.1 200 OK");
        let mut stream = tls(stream, "a.test").await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        let ways: Vec<Way> = inside.usage().events.iter().map(|event| event.way).collect();
        assert_eq!(ways, [Way::Connect, Way::Tls]);
    });
}

fn other_tunnels() {
    run(async {
        let world = World::new().await;
        world.names.say("turned.test", &["10.1.1.1"]);
        let inside = world.open(&["a.test:443", "turned.test:443"]);
        for (to, denial) in [
            ("b.test:443", Denial::HostNotGranted),
            ("a.test:22", Denial::PortNotGranted),
            ("1.1.1.1:443", Denial::AddressNotGranted),
            ("127.0.0.1:443", Denial::AddressNotGranted),
            ("[::1]:443", Denial::AddressNotGranted),
        ] {
            let (said, mut stream) = inside.ask_tunnel(to).await;
            assert_eq!(said, "HTTP/1.1 403 Forbidden", "{to}");
            let host = to.rsplit_once(':').unwrap().0.trim_matches(['[', ']']);
            inside.refused(host, Way::Connect, &denial).await;
            let mut body = [0; 10];
            stream.read_exact(&mut body).await.unwrap();
        }
        let (said, _) = inside.ask_tunnel("turned.test:443").await;
        assert_eq!(said, "HTTP/1.1 403 Forbidden");
        let denial = Denial::SpecialAddress { address: "10.1.1.1".parse().unwrap(), kind: Special::Private };
        inside.refused("turned.test", Way::Connect, &denial).await;
        for to in [
            "a.test",
            "a.test:",
            "a.test:443@b.test:443",
            "0x7f.1:443",
            "a.test\0.b.test:443",
            "a.test:99999",
        ] {
            let (said, _) = inside.ask_tunnel(to).await;
            assert!(said.starts_with("HTTP/1.1 4"), "{to:?}: {said}");
        }
    });
}

fn inside_a_tunnel() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("b.test", 443).await;
        let web = WebHost::plain(8080).await;
        world.names.say("a.test", &[&host.at()]);
        world.names.say("web.test", &[&web.host.at()]);
        let inside = world.open(&["a.test:443", "web.test:8080"]);
        let (_, stream) = inside.ask_tunnel("a.test:443").await;
        assert!(tls(stream, "b.test").await.is_err());
        inside.refused("a.test", Way::Tls, &Denial::OtherServerName).await;
        assert_eq!(host.visits(), 0);
        for (sent, denial) in [
            ("CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", Denial::ConnectNotHere),
            ("GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n", Denial::OtherHost),
        ] {
            let (_, mut stream) = inside.ask_tunnel("web.test:8080").await;
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 403");
            inside.refused("web.test", Way::Http, &denial).await;
        }
        let (_, stream) = inside.ask_tunnel("web.test:8080").await;
        let sent = "GET /in HTTP/1.1\r\nHost: web.test:8080\r\nConnection: close\r\n\r\n";
        assert!(exchange(stream, sent).await.contains("200 OK"));
        assert_eq!(web.lines(), ["GET /in"]);
        assert_eq!(web.got()[0].header("host"), ["web.test:8080"]);
    });
}

fn whole_urls() {
    run(async {
        let world = World::new().await;
        let web = WebHost::plain(80).await;
        world.names.say("a.test", &[&web.host.at()]);
        let inside = world.open(&["a.test:80"]);
        let sent = |url: &str, host: &str| {
            format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        };
        assert!(exchange(inside.http_door(), &sent("http://a.test/x", "a.test")).await.contains("200 OK"));
        for (url, host) in [
            ("http://b.test/x", "b.test"),
            ("http://a.test/x", "b.test"),
            ("http://b.test/x", "a.test"),
            ("http://a.test:81/x", "a.test:81"),
            ("http://169.254.169.254/latest", "169.254.169.254"),
            ("https://a.test/x", "a.test"),
            ("ftp://a.test/x", "a.test"),
            ("/x", "a.test"),
        ] {
            let answer = exchange(inside.http_door(), &sent(url, host)).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{url} {host}: {answer}");
        }
        inside.refused("b.test", Way::Http, &Denial::HostNotGranted).await;
        assert_eq!(web.lines(), ["GET /x"]);
    });
}

/// Greets and asks; the reply's code, and the stream.
async fn ask_socks(inside: &Inside, command: u8, host: &[u8], port: u16) -> (Option<u8>, TcpStream) {
    let mut stream = inside.socks_door();
    stream.write_all(&[5, 2, 2, 0]).await.unwrap();
    let mut method = [0; 2];
    stream.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    stream.write_all(&[&[5, command, 0][..], host, &port.to_be_bytes()].concat()).await.unwrap();
    let mut reply = [0; 10];
    let code = stream.read_exact(&mut reply).await.ok().map(|_| reply[1]);
    (code, stream)
}

fn named(name: &[u8]) -> Vec<u8> {
    [&[3, u8::try_from(name.len()).unwrap()][..], name].concat()
}

fn socks() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let address = inside.resolve("a.test").await.unwrap();
        for asked in [named(b"a.test"), [&[1][..], &address.octets()].concat()] {
            let (code, stream) = ask_socks(&inside, 1, &asked, 443).await;
            assert_eq!(code, Some(0));
            tls(stream, "a.test").await.unwrap();
        }
    });
}

fn other_socks() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&["a.test:443"]);
        let mapped: Vec<u8> = [&[4][..], &Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets()].concat();
        for (asked, port, host, denial) in [
            (named(b"b.test"), 443, "b.test", Denial::HostNotGranted),
            (named(b"a.test"), 80, "a.test", Denial::PortNotGranted),
            (named(b"a.test\0.b.test"), 443, "a.test\u{fffd}.b.test", Denial::BadName),
            (named(b"b.test\0a.test"), 443, "b.test\u{fffd}a.test", Denial::BadName),
            (named(b""), 443, "", Denial::BadName),
            (named(b"0177.0.0.1"), 443, "0177.0.0.1", Denial::BadName),
            (named(b"10.0.0.1"), 443, "10.0.0.1", Denial::AddressNotGranted),
            (vec![1, 169, 254, 169, 254], 443, "169.254.169.254", Denial::AddressNotGranted),
            (mapped, 443, "10.0.0.1", Denial::AddressNotGranted),
        ] {
            let (code, mut stream) = ask_socks(&inside, 1, &asked, port).await;
            assert_eq!(code, Some(2), "{asked:?}");
            inside.refused(host, Way::Socks, &denial).await;
            assert_eq!(read_all(&mut stream).await, "");
        }
        assert_eq!(world.names.asked(), Vec::<String>::new());
    });
}

fn other_commands() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&["a.test:443"]);
        for command in [2, 3] {
            let (code, _) = ask_socks(&inside, command, &named(b"a.test"), 443).await;
            assert_eq!(code, Some(7));
        }
        let (code, _) = ask_socks(&inside, 1, &[9, 1, 2], 443).await;
        assert_eq!(code, Some(8));
        // Version 4, and one that insists on a password.
        let mut stream = inside.socks_door();
        stream.write_all(&[4, 1, 1, 187, 1, 1, 1, 1, 0]).await.unwrap();
        assert_eq!(read_all(&mut stream).await, "");
        let mut stream = inside.socks_door();
        stream.write_all(&[5, 1, 2]).await.unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 0xff]);
        inside.refused("", Way::Socks, &Denial::NotOffered).await;
    });
}
