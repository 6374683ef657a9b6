//! The outside's resolver: says what a test tells it to, and remembers what it was asked.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

#[derive(Clone, Default)]
pub(crate) struct Nameserver {
    /// For each name its answers in turn; the last one stays.
    answers: Arc<Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Nameserver {
    /// Serves in a task of its own.
    pub(crate) async fn start() -> (Nameserver, SocketAddr) {
        let nameserver = Nameserver::default();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let serving = nameserver.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
                let reply = serving.reply(&buffer[..length]);
                let _ = socket.send_to(&reply, client).await;
            }
        });
        (nameserver, address)
    }

    /// From now on a name is at these addresses; told again, after the next connection.
    pub(crate) fn say(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.answers.lock().unwrap().entry(name.to_owned()).or_default().push_back(addresses);
    }

    /// What was asked, each name once for every question.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn reply(&self, question: &[u8]) -> Vec<u8> {
        let mut name = Vec::new();
        let mut at = 12;
        while question[at] != 0 {
            let length = usize::from(question[at]);
            name.push(String::from_utf8_lossy(&question[at + 1..at + 1 + length]).to_lowercase());
            at += 1 + length;
        }
        let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
        let asked = &question[12..at + 5];
        let name = name.join(".");
        self.asked.lock().unwrap().push(name.clone());
        let addresses = self.answer(&name, kind);
        let code = if addresses.is_none() { 3 } else { 0 };
        let fits =
            |address: &IpAddr| if kind == 1 { address.is_ipv4() } else { address.is_ipv6() && kind == 28 };
        let addresses: Vec<IpAddr> = addresses.unwrap_or_default().into_iter().filter(fits).collect();
        let mut bytes =
            vec![question[0], question[1], 0x81, 0x80 | code, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0];
        bytes.extend(asked);
        for address in addresses {
            bytes.extend([0xc0, 0x0c]);
            bytes.extend(kind.to_be_bytes());
            // Good for no time at all: whoever comes next has to ask again.
            bytes.extend([0, 1, 0, 0, 0, 0]);
            match address {
                IpAddr::V4(address) => bytes.extend([&[0, 4][..], &address.octets()].concat()),
                IpAddr::V6(address) => bytes.extend([&[0, 16][..], &address.octets()].concat()),
            }
        }
        bytes
    }

    fn answer(&self, name: &str, kind: u16) -> Option<Vec<IpAddr>> {
        let mut answers = self.answers.lock().unwrap();
        let queue = answers.get_mut(name)?;
        let now = queue.front().cloned();
        // Both kinds are asked for at each lookup; the second of them turns the page.
        if queue.len() > 1 && kind == 1 {
            queue.pop_front();
        }
        now
    }
}
