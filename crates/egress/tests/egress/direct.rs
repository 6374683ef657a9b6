//! Connections of programs that know of no proxy.

use std::net::IpAddr;
use std::time::Duration;

use contract::{HostPattern, Private, Special};
use egress::{BadHello, Bytes, Denial, Outcome, PermitLimits, Way};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Test;
use crate::hosts::{OutsideHost, tls, tls_with};
use crate::world::{World, client_config, permit, public_address, question, run};

pub(crate) const TESTS: &[Test] = &[
    ("a granted host is reached and proves its name", granted_host),
    ("a name that is not granted does not exist and is asked of nobody", other_name),
    ("a granted name has an IPv4 address and nothing else", kinds_of_records),
    ("the DNS answers over TCP and survives nonsense", dns_over_tcp),
    ("names below a pattern are reached and are few", below_a_pattern),
    ("a ClientHello for another host is refused before anything is dialled", other_server_name),
    ("a ClientHello that names no host is refused", no_server_name),
    ("a ClientHello that hides another one is refused", hidden_hello),
    ("port 443 is for TLS", tls_only),
    ("a name that turns private after the check is not dialled", rebinding),
    ("one private address among public ones refuses the host", mixed_addresses),
    ("a blocked host is not reached, nor one that leads to a blocked address", blocked),
    ("a private range that was opted in to may be dialled", opted_in),
    ("addresses that were never given for a name are refused", other_address),
    ("a host that speaks first is heard", host_speaks_first),
    ("a client that ends no line is heard, and is not HTTP later on", text_without_end),
    ("an open connection ends with its grant", drop_ends_connections),
    ("a closed grant tells what it was used for", closing_tells),
    ("a client that dawdles is put out and stops nobody", slow_client),
    ("a host that does not answer stops nobody", silent_host),
    ("no more connections than the grant has", too_many_connections),
    ("no more bytes than the grant has", too_many_bytes),
    ("a grant ends with its time", total_time),
    ("an empty permit is none", empty_permit),
];

fn granted_host() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let mut stream = tls(inside.connect("A.test", 443).await, "a.test").await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        let usage = inside.usage();
        let seen: Vec<_> =
            usage.events.iter().map(|e| (e.host.as_str(), e.port, e.way, &e.outcome)).collect();
        assert_eq!(
            seen,
            [("a.test", 0, Way::Dns, &Outcome::Allow), ("a.test", 443, Way::Tls, &Outcome::Allow)]
        );
        assert!(usage.bytes_per_host["a.test"].sent > 200, "{usage:?}");
    });
}

fn other_name() {
    run(async {
        let world = World::new().await;
        world.names.say("b.test", &["45.1.1.1"]);
        let inside = world.open(&["a.test:443"]);
        let reply = inside.ask_dns("b.test", 1).await;
        assert_eq!(reply[3] & 15, 3);
        assert!(reply.ends_with(&[0, 15]), "no extended error: {reply:?}");
        inside.refused("b.test", Way::Dns, &Denial::HostNotGranted).await;
        assert_eq!(inside.resolve("data.a.test").await, None);
        assert_eq!(inside.resolve("a.test.evil.test").await, None);
        assert_eq!(world.names.asked(), Vec::<String>::new());
    });
}

fn kinds_of_records() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&["a.test:443"]);
        for kind in [28, 65, 64, 16, 15, 255] {
            let reply = inside.ask_dns("a.test", kind).await;
            assert_eq!((reply[3] & 15, reply[7]), (0, 0), "{kind}");
        }
        assert!(inside.resolve("a.test").await.unwrap().octets().starts_with(&[198, 18]));
        assert_eq!(world.names.asked(), Vec::<String>::new());
    });
}

fn dns_over_tcp() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&["a.test:443"]);
        let mut junk = inside.connect_to("127.0.0.1".parse().unwrap(), 53).unwrap();
        junk.write_all(&[0, 3, 1, 2, 3]).await.unwrap();
        assert_eq!(junk.read(&mut [0; 8]).await.unwrap_or(0), 0);
        let mut stream = inside.connect_to("127.0.0.1".parse().unwrap(), 53).unwrap();
        for _ in 0..2 {
            let asked = question("a.test", 1);
            stream.write_u16(u16::try_from(asked.len()).unwrap()).await.unwrap();
            stream.write_all(&asked).await.unwrap();
            let mut reply = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut reply).await.unwrap();
            assert_eq!((reply[3] & 15, reply[7]), (0, 1));
        }
    });
}

fn below_a_pattern() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("x.a.test", 443).await;
        world.names.say("x.a.test", &[&host.at()]);
        let inside = world.open(&["*.a.test:443"]);
        tls(inside.connect("x.a.test", 443).await, "x.a.test").await.unwrap();
        assert_eq!(inside.resolve("a.test").await, None);
        for number in 1..egress::MAX_NAMES {
            assert!(inside.resolve(&format!("n{number}.a.test")).await.is_some());
        }
        assert_eq!(inside.resolve("secret.a.test").await, None);
        inside.refused("secret.a.test", Way::Dns, &Denial::TooManyNames).await;
        assert_eq!(world.names.asked(), ["x.a.test", "x.a.test"], "only what was connected to");
    });
}

fn other_server_name() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("b.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let error = tls(inside.connect("a.test", 443).await, "b.test").await.unwrap_err();
        assert!(error.to_string().contains("AccessDenied"), "{error}");
        inside.refused("a.test", Way::Tls, &Denial::OtherServerName).await;
        assert_eq!(host.visits(), 0);
        // Without the other name it works, but for the certificate.
        let error = tls(inside.connect("a.test", 443).await, "a.test").await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
        assert_eq!(host.visits(), 1);
    });
}

fn no_server_name() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let mut config = client_config(&[]);
        config.enable_sni = false;
        let error = tls_with(inside.connect("a.test", 443).await, "a.test", config).await.unwrap_err();
        assert!(error.to_string().contains("AccessDenied"), "{error}");
        inside.refused("a.test", Way::Tls, &Denial::NoServerName).await;
        assert_eq!(host.visits(), 0);
    });
}

/// A ClientHello for `a.test` with one more extension.
fn client_hello(extension: u16) -> Vec<u8> {
    let name = b"a.test";
    let mut extensions = vec![0, 0, 0, 11, 0, 9, 0, 0, 6];
    extensions.extend(name);
    extensions.extend(extension.to_be_bytes());
    extensions.extend([0, 1, 0]);
    let mut body = vec![3, 3];
    body.extend([1; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    record.extend(message);
    record
}

fn hidden_hello() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let mut stream = inside.connect("a.test", 443).await;
        stream.write_all(&client_hello(0xfe0d)).await.unwrap();
        let mut alert = Vec::new();
        stream.read_to_end(&mut alert).await.unwrap();
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, 49]);
        inside.refused("a.test", Way::Tls, &Denial::HiddenServerName).await;
        assert_eq!(host.visits(), 0);
        // The same with another extension goes through, also byte by byte.
        let mut stream = inside.connect("a.test", 443).await;
        for byte in client_hello(0x1234) {
            stream.write_all(&[byte]).await.unwrap();
        }
        let mut back = vec![0; client_hello(0x1234).len()];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, client_hello(0x1234));
        let mut stream = inside.connect("a.test", 443).await;
        stream.write_all(&[22, 3, 1, 0, 0]).await.unwrap();
        inside.refused("a.test", Way::Tcp, &Denial::BadHello(BadHello::Record)).await;
    });
}

fn tls_only() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let mut stream = inside.connect("a.test", 443).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("not_tls"), "{answer}");
        let mut stream = inside.connect("a.test", 443).await;
        stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        inside.refused("a.test", Way::Tcp, &Denial::NotTls).await;
        assert_eq!(host.visits(), 0);
    });
}

fn rebinding() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        let victim = OutsideHost::serve_at("10.9.8.7".parse().unwrap(), 443, |_stream| async {}).await;
        world.names.say("a.test", &[&host.at()]);
        world.names.say("a.test", &["10.9.8.7"]);
        let inside = world.open(&["a.test:443"]);
        tls(inside.connect("a.test", 443).await, "a.test").await.unwrap();
        assert!(tls(inside.connect("a.test", 443).await, "a.test").await.is_err());
        let denial = Denial::SpecialAddress { address: "10.9.8.7".parse().unwrap(), kind: Special::Private };
        inside.refused("a.test", Way::Tcp, &denial).await;
        assert_eq!((host.visits(), victim.visits()), (1, 0));
    });
}

fn mixed_addresses() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        for (name, bad, kind) in [
            ("a.test", "169.254.169.254", Special::Metadata),
            ("b.test", "127.0.0.1", Special::Loopback),
            ("c.test", "::ffff:10.0.0.1", Special::Private),
            ("d.test", "fd00::1", Special::Private),
            ("e.test", "100.64.0.1", Special::Shared),
        ] {
            world.names.say(name, &[&host.at(), bad]);
            let inside = world.open(&[&format!("{name}:443")]);
            assert!(tls(inside.connect(name, 443).await, name).await.is_err());
            let address: IpAddr = bad.parse().unwrap();
            inside.refused(name, Way::Tcp, &Denial::SpecialAddress { address, kind }).await;
        }
        assert_eq!(host.visits(), 0);
    });
}

fn blocked() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        world.names.say("x.b.test", &[&host.at()]);
        let mut by_name = permit(&["*.b.test:7000"]);
        by_name.blocked = vec![HostPattern::parse("x.b.test").unwrap()];
        let inside = world.open_with(by_name);
        assert_eq!(inside.resolve("x.b.test").await, None);
        let mut by_range = permit(&["a.test:7000"]);
        by_range.blocked = vec![HostPattern::parse("45.76.0.0/16").unwrap()];
        let inside = world.open_with(by_range);
        drop(inside.connect("a.test", 7000).await);
        inside.refused("a.test", Way::Tcp, &Denial::Blocked).await;
        assert_eq!(host.visits(), 0);
    });
}

fn opted_in() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::serve_at("10.7.7.7".parse().unwrap(), 7000, |mut stream| async move {
            stream.write_all(b"private").await.unwrap();
        })
        .await;
        world.names.say("a.test", &["10.7.7.7"]);
        let mut permit = permit(&["a.test:7000"]);
        let mut private = Private::none();
        private.add("10.7.0.0/16").unwrap();
        permit.private = private;
        let inside = world.open_with(permit);
        let mut heard = String::new();
        inside.connect("a.test", 7000).await.read_to_string(&mut heard).await.unwrap();
        assert_eq!((heard.as_str(), host.visits()), ("private", 1));
    });
}

fn other_address() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&["a.test:443", "45.99.0.1:443"]);
        let first = inside.resolve("a.test").await.unwrap();
        let next = std::net::Ipv4Addr::from(u32::from(first) + 1);
        for address in ["1.1.1.1", "169.254.169.254", "127.0.0.1", "2606:4700::1111"] {
            let mut stream = inside.connect_to(address.parse().unwrap(), 443).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("problem+json"), "{answer}");
            inside.refused(address, Way::Tcp, &Denial::AddressNotGranted).await;
        }
        drop(inside.connect_to(next.into(), 443).unwrap());
        inside.refused(&next.to_string(), Way::Tcp, &Denial::AddressNotGranted).await;
        // A port that is in no grant has no door: refused at once, by the kernel.
        assert!(inside.connect_to("1.1.1.1".parse().unwrap(), 8443).unwrap_err().contains("refused"));
        // The granted address itself is dialled.
        let mut stream = inside.connect_to("45.99.0.1".parse().unwrap(), 443).unwrap();
        stream.write_all(&client_hello(1)).await.unwrap();
        inside.refused("45.99.0.1", Way::Tls, &Denial::OtherServerName).await;
    });
}

fn host_speaks_first() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::serve(22, |mut stream| async move {
            stream.write_all(b"SSH-2.0-host\r\n").await.unwrap();
            let mut line = [0; 11];
            stream.read_exact(&mut line).await.unwrap();
            stream.write_all(&line).await.unwrap();
        })
        .await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:22"]);
        let mut stream = inside.connect("a.test", 22).await;
        let mut banner = [0; 14];
        stream.read_exact(&mut banner).await.unwrap();
        stream.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "SSH-2.0-x\r\n");
        drop(stream);
        let bytes = inside.grant.close().await.bytes_per_host["a.test"];
        assert_eq!(bytes, Bytes { sent: 11, received: 25 });
    });
}

fn text_without_end() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:7000"]);
        let mut stream = inside.connect("a.test", 7000).await;
        for _ in 0..2 {
            stream.write_all(b"ping").await.unwrap();
            let mut back = [0; 4];
            stream.read_exact(&mut back).await.unwrap();
            assert_eq!(&back, b"ping");
        }
        // What is passed on for want of an end shall not become a request.
        let mut stream = inside.connect("a.test", 7000).await;
        stream.write_all(b"GET / H").await.unwrap();
        stream.read_exact(&mut [0; 7]).await.unwrap();
        stream.write_all(b"TTP/1.1\r\nHost: b.test\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        inside.refused("a.test", Way::Tcp, &Denial::TooSlow).await;
    });
}

fn drop_ends_connections() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:7000"]);
        let mut stream = inside.connect("a.test", 7000).await;
        stream.write_all(b"x\n").await.unwrap();
        stream.read_exact(&mut [0; 2]).await.unwrap();
        let crate::world::Inside { sandbox, grant, .. } = inside;
        drop(grant);
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        // The doors are gone as well; the tasks that held them need a moment to be dropped.
        let to = std::net::SocketAddr::new("45.0.0.1".parse().unwrap(), 7000);
        while sandbox.connect(to).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

fn closing_tells() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:7000"]);
        let mut stream = inside.connect("a.test", 7000).await;
        let sent = [b'x'; 50_000];
        let (mut read, mut write) = stream.split();
        let mut back = vec![0; 50_000];
        let (wrote, got) = tokio::join!(write.write_all(&sent), read.read_exact(&mut back));
        wrote.unwrap();
        got.unwrap();
        let usage = inside.grant.close().await;
        assert_eq!(usage.bytes_per_host["a.test"], Bytes { sent: 50_000, received: 50_000 });
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    });
}

fn slow_client() {
    run(async {
        let world = World::with(|settings| settings.patience.handshake = Duration::from_secs(2)).await;
        let host = OutsideHost::tls_echo("a.test", 443).await;
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["a.test:443"]);
        let mut slow = inside.connect("a.test", 443).await;
        let dawdle = tokio::spawn(async move {
            for byte in client_hello(1) {
                if slow.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        tls(inside.connect("a.test", 443).await, "a.test").await.unwrap();
        inside.refused("a.test", Way::Tcp, &Denial::TooSlow).await;
        dawdle.await.unwrap();
        assert_eq!(host.visits(), 1);
    });
}

fn silent_host() {
    run(async {
        let world = World::with(|settings| settings.patience.lookup = Duration::from_secs(3)).await;
        let silent = OutsideHost::serve(7000, |stream| async move {
            tokio::time::sleep(Duration::from_secs(600)).await;
            drop(stream);
        })
        .await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("silent.test", &[&silent.at()]);
        world.names.say("a.test", &[&host.at()]);
        let inside = world.open(&["silent.test:7000", "a.test:7000", "nowhere.test:7000"]);
        let mut hanging = inside.connect("silent.test", 7000).await;
        hanging.write_all(b"x\n").await.unwrap();
        let mut nowhere = inside.connect("nowhere.test", 7000).await;
        let mut stream = inside.connect("a.test", 7000).await;
        stream.write_all(b"x\n").await.unwrap();
        stream.read_exact(&mut [0; 2]).await.unwrap();
        assert_eq!(nowhere.read(&mut [0; 1]).await.unwrap_or(0), 0);
        inside.refused("nowhere.test", Way::Tcp, &Denial::NotFound).await;
        // A host where nothing listens.
        world.names.say("closed.test", &[&public_address().to_string()]);
        let inside = world.open(&["closed.test:7000"]);
        drop(inside.connect("closed.test", 7000).await);
        inside.refused("closed.test", Way::Tcp, &Denial::Unreachable).await;
    });
}

fn too_many_connections() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        let mut permit = permit(&["a.test:7000"]);
        permit.limits = PermitLimits { connections: 2, ..permit.limits };
        let inside = world.open_with(permit);
        let address = inside.resolve("a.test").await.unwrap();
        let (mut one, two) = (inside.connect("a.test", 7000).await, inside.connect("a.test", 7000).await);
        one.write_all(b"x\n").await.unwrap();
        one.read_exact(&mut [0; 2]).await.unwrap();
        let mut three = inside.connect("a.test", 7000).await;
        assert_eq!(three.read(&mut [0; 1]).await.unwrap_or(0), 0);
        inside.refused(&address.to_string(), Way::Tcp, &Denial::TooManyConnections).await;
        one.write_all(b"y\n").await.unwrap();
        one.read_exact(&mut [0; 2]).await.unwrap();
        drop(two);
    });
}

fn too_many_bytes() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::serve(7000, |mut stream| async move {
            let _ = stream.write_all(&vec![b'x'; 1_000_000]).await;
        })
        .await;
        world.names.say("a.test", &[&host.at()]);
        let mut permit = permit(&["a.test:7000"]);
        permit.limits = PermitLimits { bytes: 10_000, ..permit.limits };
        let inside = world.open_with(permit);
        let mut got = Vec::new();
        let _ = inside.connect("a.test", 7000).await.read_to_end(&mut got).await;
        assert!(got.len() <= 10_000, "{}", got.len());
        inside.refused("a.test", Way::Tcp, &Denial::TooManyBytes).await;
    });
}

fn total_time() {
    run(async {
        let world = World::new().await;
        let host = OutsideHost::echo(7000).await;
        world.names.say("a.test", &[&host.at()]);
        let mut permit = permit(&["a.test:7000"]);
        permit.limits = PermitLimits { total: Duration::from_secs(3), ..permit.limits };
        let inside = world.open_with(permit);
        let mut stream = inside.connect("a.test", 7000).await;
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    });
}

fn empty_permit() {
    run(async {
        let world = World::new().await;
        let inside = world.open(&[]);
        assert_eq!(inside.resolve("a.test").await, None);
        assert!(inside.connect_to("1.1.1.1".parse().unwrap(), 443).is_err());
        assert_eq!(world.names.asked(), Vec::<String>::new());
    });
}
