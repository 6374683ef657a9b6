//! Many grants at once: what each keeps, and whether the last is as quick as the first.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context, Result};
use egress::{Doors, Egress};
use tokio::runtime::Runtime;

use super::server::PING;
use super::{percentile, permit, settings};
use crate::report::{Cell, Table};

const AT_ONCE: [usize; 3] = [1, 100, 1000];
const CONNECTIONS: usize = 100;

pub(super) fn measure(port: u16) -> Result<Table> {
    let runtime = Runtime::new()?;
    let _entered = runtime.enter();
    let egress = Egress::new(settings())?;
    let mut open = Vec::new();
    let mut table = Table::new(["grants open", "KiB each", "new connection p50 µs", "p99 µs"]);
    let before = resident()?;
    for count in AT_ONCE {
        while open.len() < count {
            let (doors, address) = doors(port)?;
            open.push((egress.open(permit(port)?, doors)?, address));
        }
        let grown = resident()? - before;
        let mut times = Vec::new();
        for turn in 0..CONNECTIONS {
            let (_, address) = open.get(turn * 7919 % open.len()).context("no grant is open")?;
            let begun = Instant::now();
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&[PING])?;
            stream.read_exact(&mut [0])?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        table.rows.push(vec![
            Cell::Number(count as f64, 0),
            Cell::Number(grown / count as f64, 1),
            Cell::Number(percentile(&times, 50), 0),
            Cell::Number(percentile(&times, 99), 0),
        ]);
    }
    Ok(table)
}

/// Doors as a sandbox has them, in this process's own network: the port that is granted is another address's.
fn doors(port: u16) -> Result<(Doors, SocketAddr)> {
    let listen = || -> Result<TcpListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let dns_udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    dns_udp.set_nonblocking(true)?;
    let tcp = listen()?;
    let address = tcp.local_addr()?;
    let doors = Doors {
        dns_udp: dns_udp.into(),
        dns_tcp: listen()?.into(),
        http_proxy: listen()?.into(),
        socks: listen()?.into(),
        tcp: vec![(port, tcp.into())],
        signer: None,
    };
    Ok((doors, address))
}

/// What this process has resident, in KiB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
