//! The SOCKS door (version 5, RFC 1928), for programs that want one: CONNECT, without a password.
//!
//! It leads nowhere that the granted ports do not lead. Names are read by the one parser of hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use contract::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::carry::{self, Client};
use crate::events::{Denial, Way};
use crate::grant::Grant;
use crate::resolve::Checked;

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// What a request is answered with.
#[derive(Clone, Copy)]
enum Reply {
    Done = 0,
    NotAllowed = 2,
    Unreachable = 4,
    NotACommand = 7,
    NotAnAddress = 8,
}

/// What was asked for, and why it is refused.
struct Refused {
    host: String,
    port: u16,
    denial: Denial,
    reply: Option<Reply>,
}

pub(crate) async fn serve(grant: Arc<Grant>, mut stream: TcpStream) {
    let patience = grant.gate.patience.handshake;
    let greeted = match tokio::time::timeout(patience, greet(&grant, &mut stream)).await {
        Ok(greeted) => greeted,
        Err(_elapsed) => Err(Refused::nowhere(Denial::TooSlow, None)),
    };
    match greeted {
        Ok(checked) => {
            grant.allow(&checked.target, Way::Socks);
            if answer(&mut stream, Reply::Done).await.is_ok() {
                carry::carry(&grant, Client { stream, early: Vec::new() }, checked).await;
            }
        }
        Err(Refused { host, port, denial, reply }) => {
            grant.deny(&host, port, Way::Socks, denial);
            if let Some(reply) = reply {
                let _ = answer(&mut stream, reply).await;
            }
        }
    }
}

async fn greet(grant: &Grant, stream: &mut TcpStream) -> Result<Checked, Refused> {
    let broken = || Refused::nowhere(Denial::BadRequest, None);
    let [version, count] = read(stream).await.ok_or_else(broken)?;
    if version != VERSION {
        return Err(Refused::nowhere(Denial::NotOffered, None));
    }
    let mut methods = vec![0; usize::from(count)];
    stream.read_exact(&mut methods).await.map_err(|_gone| broken())?;
    let has_method = methods.contains(&NO_PASSWORD);
    let method = if has_method { NO_PASSWORD } else { NO_METHOD };
    stream.write_all(&[VERSION, method]).await.map_err(|_gone| broken())?;
    if !has_method {
        return Err(Refused::nowhere(Denial::NotOffered, None));
    }
    let [version, command, _, kind] = read(stream).await.ok_or_else(broken)?;
    if version != VERSION {
        return Err(broken());
    }
    let named = read_host(stream, kind).await?;
    let port = u16::from_be_bytes(read(stream).await.ok_or_else(broken)?);
    let refused =
        |host: &str, denial, reply| Refused { host: host.to_owned(), port, denial, reply: Some(reply) };
    let text = String::from_utf8_lossy(&named.text).into_owned();
    // BIND would listen for the outside, and UDP has no way out.
    if command != CONNECT {
        return Err(refused(&text, Denial::NotOffered, Reply::NotACommand));
    }
    // A NUL, a blank or a second spelling makes no host.
    let host = named.host.ok_or_else(|| refused(&text, Denial::BadName, Reply::NotAllowed))?;
    grant.check(host, port).await.map_err(|(host, denial)| {
        let reply = match denial {
            Denial::NotFound => Reply::Unreachable,
            _ => Reply::NotAllowed,
        };
        refused(&host.to_string(), denial, reply)
    })
}

/// What was sent for a host, and the host if it is one.
struct Named {
    text: Vec<u8>,
    host: Option<Host>,
}

async fn read_host(stream: &mut TcpStream, kind: u8) -> Result<Named, Refused> {
    let broken = || Refused::nowhere(Denial::BadRequest, None);
    let of =
        |address: IpAddr| Named { text: address.to_string().into_bytes(), host: Some(Host::from(address)) };
    match kind {
        1 => {
            let octets: [u8; 4] = read(stream).await.ok_or_else(broken)?;
            Ok(of(Ipv4Addr::from(octets).into()))
        }
        3 => {
            let [length] = read(stream).await.ok_or_else(broken)?;
            let mut text = vec![0; usize::from(length)];
            stream.read_exact(&mut text).await.map_err(|_gone| broken())?;
            let host = std::str::from_utf8(&text).ok().and_then(|text| Host::parse(text).ok());
            Ok(Named { text, host })
        }
        4 => {
            let octets: [u8; 16] = read(stream).await.ok_or_else(broken)?;
            Ok(of(Ipv6Addr::from(octets).to_canonical()))
        }
        _ => Err(Refused::nowhere(Denial::NotOffered, Some(Reply::NotAnAddress))),
    }
}

impl Refused {
    fn nowhere(denial: Denial, reply: Option<Reply>) -> Refused {
        Refused { host: String::new(), port: 0, denial, reply }
    }
}

async fn read<const N: usize>(stream: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn answer(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    // The address that the gate dialled from is nobody's business.
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
