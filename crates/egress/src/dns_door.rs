//! The DNS inside the sandbox: granted names have addresses there, other names do not exist.
//!
//! Nothing goes out for a question. A name is looked up outside only when a connection to it comes.

use std::sync::Arc;
use std::time::Duration;

use contract::Host;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use crate::dns::{self, Say, Wants};
use crate::events::{Denial, Outcome, Way};
use crate::grant::Grant;

/// No question is longer.
const MAX_QUESTION: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn answer_packets(grant: Arc<Grant>, socket: UdpSocket) {
    let mut buffer = [0; MAX_QUESTION];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let question = buffer.get(..length).unwrap_or_default();
        if let Some(answer) = dns::answer(question, |name, wants| say(&grant, name, wants)) {
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

pub(crate) async fn answer_stream(grant: Arc<Grant>, mut stream: TcpStream) {
    while let Ok(Some(question)) = tokio::time::timeout(PATIENCE, read_framed(&mut stream)).await {
        let Some(answer) = dns::answer(&question, |name, wants| say(&grant, name, wants)) else { return };
        let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        let sent = tokio::time::timeout(PATIENCE, stream.write_all(&framed)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

async fn read_framed(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let length = usize::from(stream.read_u16().await.ok()?);
    if length > MAX_QUESTION {
        return None;
    }
    let mut question = vec![0; length];
    stream.read_exact(&mut question).await.ok()?;
    Some(question)
}

fn say(grant: &Grant, name: &str, wants: Wants) -> Say {
    let host = match Host::parse(name) {
        Ok(host) if host.name().is_some() => host,
        _ => {
            grant.deny(name, 0, Way::Dns, Denial::BadName);
            return Say::NotThere;
        }
    };
    let said = match wants {
        Wants::Address => grant.names.address_of(&grant.permit, &host).map(Say::At),
        Wants::Other => grant.names.may_use(&grant.permit, &host).map(|_via| Say::Nothing),
    };
    let host = host.to_string();
    match said {
        Ok(said) => {
            grant.record.note(&host, 0, Way::Dns, Outcome::Allow);
            said
        }
        Err(denial) => {
            grant.deny(&host, 0, Way::Dns, denial);
            Say::NotThere
        }
    }
}
