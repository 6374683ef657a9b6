//! Tells by a client's first bytes which protocol it speaks.
//!
//! Pure. Whatever a server might still take for HTTP is HTTP here, so that its requests are looked at one by one.

use crate::events::Denial;
use crate::hello::{self, Heard, Hello};

/// What a client begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// TLS.
    Tls(Hello),
    /// HTTP without TLS.
    Http,
    /// Something else.
    Other,
    /// Text whose first line has no end yet; it may still be HTTP.
    Unclear,
}

const MAX_LINE: usize = 16 * 1024;

/// The protocol, or none as long as it cannot be told.
pub(crate) fn recognise(sent: &[u8]) -> Result<Option<Opening>, Denial> {
    let Some(&first) = sent.first() else { return Ok(None) };
    if hello::begins_tls(first) {
        return match hello::hear(sent) {
            Ok(Heard::More) => Ok(None),
            Ok(Heard::Whole(hello)) => Ok(Some(Opening::Tls(hello))),
            Err(bad) => Err(Denial::BadHello(bad)),
        };
    }
    Ok(recognise_line(sent))
}

/// Servers skip empty lines before a request, take tabs for blanks and do not always mind case: so is it read here.
fn recognise_line(sent: &[u8]) -> Option<Opening> {
    let begin = sent.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let text = begin.and_then(|begin| sent.get(begin..)).unwrap_or_default();
    let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let line = end.and_then(|end| text.get(..end)).unwrap_or(text);
    if line.iter().any(|byte| byte.is_ascii_control() && !is_blank(*byte)) {
        return Some(Opening::Other);
    }
    if end.is_some() {
        return Some(if names_http(line) { Opening::Http } else { Opening::Other });
    }
    (sent.len() > MAX_LINE).then_some(Opening::Unclear)
}

/// What some servers take for a blank between the words of a request.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | 0x1c..=0x1f)
}

/// Looks at text that is passed on although its first line has no end yet.
#[derive(Debug, Default)]
pub(crate) struct LineWatch {
    line: Vec<u8>,
}

/// What the watch has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing to tell it by.
    Unclear,
    /// It is not HTTP.
    Other,
    /// It is HTTP after all.
    Http,
}

impl LineWatch {
    pub(crate) fn look(&mut self, sent: &[u8]) -> Seen {
        self.line.extend_from_slice(sent);
        match recognise_line(&self.line) {
            Some(Opening::Other) => return Seen::Other,
            Some(Opening::Http) => return Seen::Http,
            _ => {}
        }
        if names_http(&self.line) {
            return Seen::Http;
        }
        // Of what was looked at, only a word that may be going on counts.
        let old = self.line.len().saturating_sub(LONGEST_WORD);
        self.line.drain(..old);
        Seen::Unclear
    }
}

const LONGEST_WORD: usize = 5;

fn names_http(line: &[u8]) -> bool {
    line.windows(LONGEST_WORD).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_server_may_take_for_http_is_http() {
        for sent in [
            "GET / HTTP/1.1\r\n",
            "\r\n\n\rGET / HTTP/1.1\n",
            "get\t/\thttp/1.0\r\n",
            "FROB http://x/ HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET /\u{e4} HTTP/1.1\r",
        ] {
            assert_eq!(recognise(sent.as_bytes()), Ok(Some(Opening::Http)), "{sent:?}");
            let half = &sent.as_bytes()[..sent.len() / 3];
            assert_eq!(recognise(half), Ok(None), "{sent:?}");
        }
    }

    #[test]
    fn other_protocols_are_known_by_their_first_line_or_byte() {
        for sent in ["SSH-2.0-x\r\n", "EHLO me\r\n", "*1\r\n$4\r\nPING\r\n", "AMQP\0", "\0\0\0\x08\x04\u{16}"]
        {
            assert_eq!(recognise(sent.as_bytes()), Ok(Some(Opening::Other)), "{sent:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for_without_end() {
        assert_eq!(recognise(&vec![b'A'; MAX_LINE]), Ok(None));
        assert_eq!(recognise(&vec![b'A'; MAX_LINE + 1]), Ok(Some(Opening::Unclear)));
    }

    #[test]
    fn a_request_that_comes_in_pieces_is_seen_before_its_line_ends() {
        for size in 1..9 {
            let mut watch = LineWatch::default();
            let pieces: Vec<Seen> =
                b"\r\nGET / hTTp/1.1".chunks(size).map(|piece| watch.look(piece)).collect();
            assert!(pieces.contains(&Seen::Http), "{size}: {pieces:?}");
            let mut watch = LineWatch::default();
            let pieces: Vec<Seen> = b"EHLO me\r\n".chunks(size).map(|piece| watch.look(piece)).collect();
            assert_eq!(pieces.iter().find(|seen| **seen != Seen::Unclear), Some(&Seen::Other));
        }
    }
}
