//! A server may ask for a second ClientHello, and a client may name another host in it: it is read like the first.
//!
//! Where TLS is passed on unread, this is the last that can be seen of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use crate::carry::Client;
use crate::events::{Denial, Direction, Meter};
use crate::hello::{self, Heard, Hello};

const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
/// What a client may send before its second hello: a change of ciphers that changes nothing, and data that was too early.
const SKIPPED: [u8; 2] = [20, 23];
/// The random of a server that asks for another hello (RFC 8446, 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// More than a host has to say before its random.
const MOST_SAID: usize = 16 * 1024;
/// More than a client has to say before its second hello, and that as well.
const MOST: usize = 256 * 1024;

/// What a server begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Too little to tell.
    More,
    /// It wants another hello.
    Retry,
    /// Anything else: the handshake goes on, or is over.
    Other,
}

/// Passes the first hello on, and hears what the host says to it. If that is a wish for another, `check` hears the other one
/// before it is passed on; it is in `client.early` afterwards.
pub(crate) async fn pass_hello(
    client: &mut Client,
    host: &mut TcpStream,
    meter: &Meter,
    (idle, handshake): (Duration, Duration),
    check: impl Fn(&Hello) -> Result<(), Denial>,
) -> Result<(), Denial> {
    let early = std::mem::take(&mut client.early);
    if meter.left() < early.len() as u64 {
        return Err(Denial::TooManyBytes);
    }
    let sent = tokio::time::timeout(idle, host.write_all(&early)).await;
    sent.map_err(|_elapsed| Denial::Idle)?.map_err(|_gone| Denial::Unreachable)?;
    meter.count(Direction::Out, early.len());
    let mut said = Vec::new();
    let asked = loop {
        match answer_of(&said) {
            // Empty records without end are no answer; what becomes of them is between the two.
            Answer::More if said.len() > MOST_SAID => break Answer::Other,
            Answer::More => {}
            asked => break asked,
        }
        match tokio::time::timeout(idle, host.read_buf(&mut said)).await {
            Ok(Ok(0) | Err(_)) => break Answer::Other,
            Ok(Ok(_)) => {}
            Err(_elapsed) => return Err(Denial::Idle),
        }
    };
    meter.count(Direction::In, said.len());
    // A client that is gone is noticed by whoever moves bytes next.
    let _ = client.stream.write_all(&said).await;
    if asked != Answer::Retry {
        return Ok(());
    }
    let Client { stream, early } = client;
    let (mut from, mut to) = stream.split();
    let second = async {
        let mut heard = std::pin::pin!(hear_again(&mut from, early));
        loop {
            said.clear();
            // The rest of the host's wish goes on to the client meanwhile.
            tokio::select! {
                heard = &mut heard => return heard,
                read = host.read_buf(&mut said) => match read {
                    Ok(0) | Err(_) => return heard.await,
                    Ok(count) => {
                        if meter.left() == 0 {
                            return Err(Denial::TooManyBytes);
                        }
                        meter.count(Direction::In, count);
                        let _ = to.write_all(&said).await;
                    }
                },
            }
        }
    };
    match tokio::time::timeout(handshake, second).await.unwrap_or(Err(Denial::TooSlow))? {
        Some(hello) => check(&hello),
        None => Ok(()),
    }
}

/// The second hello, as soon as it is whole; nothing if the client does not go on.
async fn hear_again(from: &mut ReadHalf<'_>, early: &mut Vec<u8>) -> Result<Option<Hello>, Denial> {
    loop {
        if let Some(hello) = second_hello(early)? {
            match hello::hear(hello).map_err(Denial::BadHello)? {
                Heard::Whole(hello) => return Ok(Some(hello)),
                Heard::More => {}
            }
        }
        if early.len() > MOST {
            return Err(Denial::TooSlow);
        }
        match from.read_buf(early).await {
            // Whatever there is of it is no hello that a host could read.
            Ok(0) | Err(_) => {
                early.clear();
                return Ok(None);
            }
            Ok(_) => {}
        }
    }
}

/// Where the second hello begins; nothing if it is not there yet.
fn second_hello(sent: &[u8]) -> Result<Option<&[u8]>, Denial> {
    let mut rest = sent;
    loop {
        match rest {
            [HANDSHAKE, ..] => return Ok(Some(rest)),
            [kind, _, _, high, low, after @ ..] if SKIPPED.contains(kind) => {
                match after.get(usize::from(u16::from_be_bytes([*high, *low]))..) {
                    Some(next) => rest = next,
                    None => return Ok(None),
                }
            }
            [] => return Ok(None),
            [kind, ..] if SKIPPED.contains(kind) => return Ok(None),
            // An alert, or no TLS at all: not passed on, because what follows it is not looked at.
            _ => return Err(Denial::BadHello(hello::BadHello::Record)),
        }
    }
}

/// What a server's first bytes are.
fn answer_of(said: &[u8]) -> Answer {
    let mut message = Vec::new();
    let mut rest = said;
    loop {
        match rest {
            [HANDSHAKE, _, _, high, low, after @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                message.extend_from_slice(after.get(..length.min(after.len())).unwrap_or_default());
                rest = after.get(length..).unwrap_or_default();
            }
            [] | [HANDSHAKE, ..] => {}
            _ => return Answer::Other,
        }
        if message.first().is_some_and(|kind| *kind != SERVER_HELLO) {
            return Answer::Other;
        }
        // Kind, length and version come before the random.
        if let Some(random) = message.get(6..38) {
            return if random == RETRY { Answer::Retry } else { Answer::Other };
        }
        if rest.len() < 5 {
            return Answer::More;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(random: &[u8]) -> Vec<u8> {
        let hello = [&[SERVER_HELLO, 0, 0, 84, 3, 3], random, &[0; 50]].concat();
        record(HANDSHAKE, &hello)
    }

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[kind, 3, 3], length.as_slice(), content].concat()
    }

    #[test]
    fn a_wish_for_another_hello_is_known_by_its_random_however_it_is_cut() {
        let retry = server(&RETRY);
        assert_eq!(answer_of(&retry), Answer::Retry);
        assert_eq!(answer_of(&server(&[7; 32])), Answer::Other);
        for cut in 0..43 {
            assert_eq!(answer_of(&retry[..cut]), Answer::More, "{cut}");
        }
        let content = &retry[5..];
        let pieces = [record(HANDSHAKE, &content[..3]), record(HANDSHAKE, &content[3..])].concat();
        assert_eq!(answer_of(&pieces), Answer::Retry);
        assert_eq!(answer_of(&record(21, &[2, 40])), Answer::Other);
        assert_eq!(answer_of(&record(HANDSHAKE, &[]).repeat(1000)), Answer::More, "and is not waited for");
    }

    #[test]
    fn the_second_hello_is_found_behind_what_changes_nothing() {
        let hello = record(HANDSHAKE, &[1, 0, 0, 0]);
        for before in [Vec::new(), record(20, &[1]), [record(23, &[9; 300]), record(20, &[1])].concat()] {
            let sent = [before.as_slice(), &hello].concat();
            assert_eq!(second_hello(&sent).unwrap(), Some(hello.as_slice()));
            assert_eq!(second_hello(&before).unwrap(), None);
        }
        assert!(second_hello(&record(21, &[1, 0])).is_err());
    }
}
