//! Whatever a sandbox sends to the doors of its network, the gate goes on serving, and reaches nobody but the granted host.
#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use contract::{Private, Reach};
use egress::{Doors, Egress, EgressSettings, Methods, OpenGrant, Patience, Permit, PermitLimits};
use libfuzzer_sys::fuzz_target;

/// What the doors understand; the first byte says which one is meant.
const BEGINNINGS: [&[u8]; 5] = [
    b"\x00CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x00GET http://127.0.0.1:9/x HTTP/1.1\r\nHost: 127.0.0.1:9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"\x01\x05\x01\x00\x05\x01\x00\x03\x06a.test\x00\x50",
    b"\x02POST / HTTP/1.1\r\nHost: 127.0.0.1:9\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
    b"\x03\x00\x1e\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01",
];

fn begin(corpus: &Path) {
    std::fs::create_dir_all(corpus).expect("a folder can be made");
    for (number, bytes) in BEGINNINGS.iter().enumerate() {
        std::fs::write(corpus.join(format!("beginning-{number}")), bytes).expect("a seed");
    }
}

fuzz_target!(init: begin(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/doors")), |bytes: &[u8]| check(bytes));

/// A gate with one grant, whose doors are on this machine's loopback.
struct Stand {
    doors: [SocketAddr; 4],
    dns: SocketAddr,
    _grant: OpenGrant,
    _runtime: tokio::runtime::Runtime,
}

fn stand() -> &'static Stand {
    static STAND: OnceLock<Stand> = OnceLock::new();
    STAND.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (http, socks, tcp, dns) = (listen(), listen(), listen(), listen());
        let packets = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = |listener: &TcpListener| listener.local_addr().expect("an address");
        let doors = [at(&http), at(&socks), at(&tcp), at(&dns)];
        let dns_at = packets.local_addr().expect("an address");
        let host = listen();
        let port = at(&host).port();
        std::thread::spawn(move || {
            for stream in host.incoming().flatten() {
                let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
                let mut stream = stream;
                let _ = stream.read(&mut [0; 65536]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let mut private = Private::none();
        private.add("127.0.0.0/8").expect("loopback is special");
        let permit = Permit {
            // The port of the host stands for that of the door.
            reach: vec![Reach::parse(&format!("127.0.0.1:{port}")).expect("a place")],
            blocked: Vec::new(),
            methods: Methods::Any,
            spends: vec![],
            by_pattern: Vec::new(),
            private,
            login: None,
            limits: PermitLimits { idle: Duration::from_millis(200), ..PermitLimits::default() },
        };
        let wait = Duration::from_millis(200);
        let settings = EgressSettings {
            nameservers: vec!["127.0.0.1:9".parse().expect("an address")],
            extra_roots: String::new(),
            credentials: Vec::new(),
            vault: None,
            known_hosts: Vec::new(),
            patience: Patience { lookup: wait, dial: wait, handshake: wait },
            clock: || 0,
        };
        let doors_of_grant = Doors {
            dns_udp: OwnedFd::from(packets),
            dns_tcp: OwnedFd::from(dns),
            http_proxy: OwnedFd::from(http),
            socks: OwnedFd::from(socks),
            tcp: vec![(port, OwnedFd::from(tcp))],
            signer: None,
        };
        let grant = {
            let _inside = runtime.enter();
            let egress = Egress::new(settings).expect("a way out");
            egress.open(permit, doors_of_grant).expect("a grant")
        };
        Stand { doors, dns: dns_at, _grant: grant, _runtime: runtime }
    })
}

fn check(bytes: &[u8]) {
    let stand = stand();
    let Some((which, sent)) = bytes.split_first() else { return };
    let door = stand.doors[usize::from(*which) % stand.doors.len()];
    // Ports that are still closing may run out for a moment; that the gate lives is asked below.
    let Ok(mut stream) = TcpStream::connect(door) else { return };
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let _ = stream.write_all(sent);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "a client that has ended is left waiting");
    // Whoever comes next is served.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let asked = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x04test\x00\x00\x01\x00\x01";
    socket.send_to(asked, stand.dns).expect("it is sent");
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).expect("the DNS answers");
    assert!(length >= 12 && answer[3] & 15 == 3, "a name that is not granted does not exist");
}
