//! The world's name server: a few names, each with what an attacker's zone would say.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Names and their addresses. One whose entry has several lines gives them in turn, and stays at the last.
const ZONE: &[(&str, &[&[&str]])] = &[
    ("example.test", &[&["93.184.216.34"]]),
    ("other.test", &[&["93.184.216.35"]]),
    ("git.test", &[&["93.184.216.37"]]),
    ("api.github.com", &[&["93.184.216.38"]]),
    ("private.test", &[&["10.0.0.5"]]),
    ("loopback.test", &[&["127.0.0.1"]]),
    ("metadata.test", &[&["169.254.169.254"]]),
    ("cgnat.test", &[&["100.64.0.1"]]),
    ("unspecified.test", &[&["0.0.0.0"]]),
    ("mapped.test", &[&["::ffff:10.0.0.5"]]),
    ("nat64.test", &[&["64:ff9b::a00:5"]]),
    ("sixtofour.test", &[&["2002:a00:5::1"]]),
    ("teredo.test", &[&["2001:0:4136:e378:8000:63bf:f5ff:fffa"]]),
    ("local6.test", &[&["fd00::5"]]),
    ("mixed.test", &[&["93.184.216.34", "10.0.0.5"]]),
    ("flip.test", &[&["93.184.216.34"], &["127.0.0.1"]]),
    ("leads.inside.test", &[&["10.0.0.5"]]),
    ("wild.test", &[&["93.184.216.40"]]),
];

const A: u16 = 1;
const AAAA: u16 = 28;

/// What was answered how often.
type Turns = Arc<Mutex<BTreeMap<String, usize>>>;

pub(super) fn serve(asked: Arc<Mutex<Vec<String>>>) -> io::Result<()> {
    let turns = Turns::default();
    let answer = move |query: &[u8]| answer_to(query, &asked, &turns);
    let by_datagram = answer.clone();
    #[expect(clippy::disallowed_methods, reason = "a server of the suite's own, in its own namespace")]
    let (udp, tcp) = (UdpSocket::bind("[::]:53")?, TcpListener::bind("[::]:53")?);
    thread::spawn(move || {
        let mut packet = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut packet) {
            if let Some(answer) = packet.get(..length).and_then(&by_datagram) {
                let _ = udp.send_to(&answer, from);
            }
        }
    });
    thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer_stream(stream, answer));
        }
    });
    Ok(())
}

fn answer_stream(mut stream: TcpStream, answer: impl Fn(&[u8]) -> Option<Vec<u8>>) -> io::Result<()> {
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query)?;
        let Some(said) = answer(&query) else { return Ok(()) };
        let length = u16::try_from(said.len()).unwrap_or_default().to_be_bytes();
        stream.write_all(&[length.as_slice(), &said].concat())?;
    }
}

fn answer_to(query: &[u8], asked: &Mutex<Vec<String>>, turns: &Turns) -> Option<Vec<u8>> {
    let (name, kind, question) = question_of(query)?;
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
    let known = ZONE.iter().find(|(known, _)| *known == name || is_wild(known, &name));
    let addresses: Vec<IpAddr> = match known {
        Some((_, lines)) => {
            let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = turns.entry(format!("{name} {kind}")).or_default();
            let line = lines.get(*turn).or(lines.last())?;
            *turn += 1;
            line.iter().filter_map(|text| text.parse().ok()).collect()
        }
        None => Vec::new(),
    };
    let fitting: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match (address, kind) {
            (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
            (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
            _ => None,
        })
        .collect();
    let code: u16 = if known.is_some() { 0 } else { 3 };
    let mut answer = query.get(..2)?.to_vec();
    answer.extend((0x8180 | code).to_be_bytes());
    answer.extend([0, 1]);
    answer.extend(u16::try_from(fitting.len()).ok()?.to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(question);
    for address in fitting {
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        // Of the internet; good for no time at all.
        answer.extend([0, 1, 0, 0, 0, 0]);
        answer.extend(u16::try_from(address.len()).ok()?.to_be_bytes());
        answer.extend(address);
    }
    Some(answer)
}

/// Everything beneath `wild.test` is there, and everybody has a `flip` of their own.
fn is_wild(known: &str, name: &str) -> bool {
    match known {
        "wild.test" => name.ends_with(".wild.test"),
        "flip.test" => name.starts_with("flip-") && name.ends_with(".test"),
        _ => false,
    }
}

/// The name and kind that are asked for, and the question as it was put.
fn question_of(query: &[u8]) -> Option<(String, u16, &[u8])> {
    let after_header = query.get(12..)?;
    let mut labels = Vec::new();
    let mut at = 0;
    loop {
        let length = usize::from(*after_header.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(after_header.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(*after_header.get(at..)?.first_chunk()?);
    Some((labels.join("."), kind, after_header.get(..at + 4)?))
}
