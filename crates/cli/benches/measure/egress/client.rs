//! The one who connects, in whichever network it is started. It takes the times.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::server::{GIVE, PING};

/// The argument that makes this program a client.
pub(super) const CLIENT: &str = "__client";

/// What a client is to do.
#[derive(Clone, Copy)]
pub(super) enum Errand {
    /// So many connections, one after the other.
    Connect(usize),
    /// Connections for a while, from so many threads.
    ConnectFor { threads: usize, millis: u64 },
    /// So many bytes at once.
    Download(u64),
}

/// What it saw.
#[derive(Serialize, Deserialize)]
pub(super) struct Seen {
    /// How long each connection took, or the whole download.
    pub(super) micros: Vec<f64>,
    /// How long it took in all.
    took: f64,
}

impl Seen {
    pub(super) fn read(said: &[u8]) -> Result<Seen> {
        let seen: Seen = serde_json::from_slice(said)
            .with_context(|| format!("a client said `{}`", String::from_utf8_lossy(said)))?;
        ensure!(!seen.micros.is_empty(), "a client has seen nothing");
        Ok(seen)
    }

    pub(super) fn per_second(&self) -> f64 {
        self.micros.len() as f64 / self.took * 1e6
    }

    pub(super) fn seconds(&self) -> f64 {
        self.took / 1e6
    }
}

impl Errand {
    /// As arguments. `proxy` is the port of a proxy to ask, if there is one.
    pub(super) fn words(self, port: u16, proxy: Option<u16>) -> Vec<String> {
        let what = match self {
            Errand::Connect(times) => ["connect".to_owned(), times.to_string(), "0".to_owned()],
            Errand::ConnectFor { threads, millis } => {
                ["for".to_owned(), threads.to_string(), millis.to_string()]
            }
            Errand::Download(bytes) => ["download".to_owned(), bytes.to_string(), "0".to_owned()],
        };
        what.into_iter().chain([port.to_string(), proxy.unwrap_or_default().to_string()]).collect()
    }
}

/// Becomes a client if the arguments say so, and does not return then.
pub(crate) fn serve_client_if_asked() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [first, what, first_number, second_number, port, proxy] = words.as_slice() else { return };
    if first != CLIENT {
        return;
    }
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    let place = Place {
        port: u16::try_from(number(port)).unwrap_or_default(),
        proxy: u16::try_from(number(proxy)).ok().filter(|port| *port != 0),
    };
    let seen = match what.as_str() {
        "connect" => connect(place, number(first_number)),
        "for" => connect_for(place, number(first_number), Duration::from_millis(number(second_number))),
        _ => download(place, number(first_number)),
    };
    match seen.map_err(anyhow::Error::from).and_then(|seen| Ok(serde_json::to_string(&seen)?)) {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("{error:#}");
            std::process::exit(1);
        }
    }
    std::process::exit(0);
}

#[derive(Clone, Copy)]
struct Place {
    port: u16,
    proxy: Option<u16>,
}

impl Place {
    fn reach(self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.proxy.unwrap_or(self.port)))?;
        stream.set_nodelay(true)?;
        if self.proxy.is_some() {
            let host = format!("127.0.0.1:{}", self.port);
            stream.write_all(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                head.extend(byte);
            }
        }
        Ok(stream)
    }

    fn ping(self) -> io::Result<f64> {
        let begun = Instant::now();
        let mut stream = self.reach()?;
        stream.write_all(&[PING])?;
        stream.read_exact(&mut [0])?;
        Ok(micros(begun.elapsed()))
    }
}

fn connect(place: Place, times: u64) -> io::Result<Seen> {
    let begun = Instant::now();
    let times = (0..times).map(|_| place.ping()).collect::<io::Result<_>>()?;
    Ok(Seen { micros: times, took: micros(begun.elapsed()) })
}

fn connect_for(place: Place, threads: u64, length: Duration) -> io::Result<Seen> {
    let begun = Instant::now();
    let one = || -> io::Result<Vec<f64>> {
        let mut times = Vec::new();
        while begun.elapsed() < length {
            times.push(place.ping()?);
        }
        Ok(times)
    };
    let all = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Ok(Vec::new())))
            .collect::<io::Result<Vec<_>>>()
    })?;
    Ok(Seen { micros: all.concat(), took: micros(begun.elapsed()) })
}

fn download(place: Place, bytes: u64) -> io::Result<Seen> {
    let mut stream = place.reach()?;
    let begun = Instant::now();
    stream.write_all(&[&[GIVE], bytes.to_le_bytes().as_slice()].concat())?;
    let mut block = vec![0; 1 << 17];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut block)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => left -= got as u64,
        }
    }
    let took = micros(begun.elapsed());
    Ok(Seen { micros: vec![took], took })
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
