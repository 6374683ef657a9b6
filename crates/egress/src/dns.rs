//! Reads a DNS question and writes the answer to it; nothing of it ever leaves the machine.
//!
//! Pure: what a name stands for is asked of the caller. Knows one question a message, and no compression, because no
//! client needs more.
//!
//! # Invariants
//! - Bytes that are no question are not answered, or answered with a fault; they never panic.
//! - An answer is never longer than 512 bytes, so that it fits every client.

use std::net::Ipv4Addr;

/// What is to be said about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// It is at this address.
    At(Ipv4Addr),
    /// It exists, and has nothing of this kind.
    Nothing,
    /// It is blocked: to the client there is no such name.
    NotThere,
}

/// What a client wants to know of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// An IPv4 address.
    Address,
    /// Anything else.
    Other,
}

const HEADER: usize = 12;
const MAX_NAME: usize = 253;
const KIND_A: u16 = 1;
const KIND_OPT: u16 = 41;
const CLASS_IN: u16 = 1;
/// Seconds. The address is good for as long as the grant; programs seldom live longer.
const LIFETIME: u32 = 60;
/// The Extended DNS Error `Blocked`.
const BLOCKED: u16 = 15;
/// What we say we could take.
const PAYLOAD: u16 = 1232;

#[derive(Clone, Copy)]
enum Code {
    Fine = 0,
    BadForm = 1,
    NoSuchName = 3,
    NotDone = 4,
    Refused = 5,
}

/// The answer to `question`, or none if silence is right. `say` is asked at most once, with the name as it was sent.
///
/// A name with bytes that no host name has is handed over escaped, so that it can be recorded.
pub(crate) fn answer(question: &[u8], say: impl FnOnce(&str, Wants) -> Say) -> Option<Vec<u8>> {
    let mut rest = Reader(question);
    let header = rest.take(HEADER)?;
    let &[id_high, id_low, flags, _, asked_high, asked_low, ..] = header else { return None };
    let is_answer = flags & 0x80 != 0;
    if is_answer {
        return None;
    }
    let reply = Reply { id: [id_high, id_low], flags };
    if flags & 0x78 != 0 {
        return Some(reply.empty(Code::NotDone));
    }
    if [asked_high, asked_low] != [0, 1] {
        return Some(reply.empty(Code::BadForm));
    }
    let Some((name, kind, class, asked)) = read_question(&mut rest) else {
        return Some(reply.empty(Code::BadForm));
    };
    if class != CLASS_IN {
        return Some(reply.empty(Code::Refused));
    }
    let extended = has_extension(header, rest);
    let wants = if kind == KIND_A { Wants::Address } else { Wants::Other };
    let said = say(&name, wants);
    Some(reply.full(asked, said, extended))
}

/// Name, kind, class, and the bytes that said so.
fn read_question<'a>(rest: &mut Reader<'a>) -> Option<(String, u16, u16, &'a [u8])> {
    let from = rest.0;
    let mut name = String::new();
    loop {
        let length = usize::from(rest.byte()?);
        if length == 0 {
            break;
        }
        // A pointer would have its top bits set: a question has nothing to point at.
        if length > 63 {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        for byte in rest.take(length)? {
            // A dot or a NUL inside a label shall not make another name of it.
            if byte.is_ascii_graphic() && !matches!(byte, b'.' | b'\\') {
                name.push(char::from(*byte));
            } else {
                name.push_str(&format!("\\{byte:03}"));
            }
        }
        if rest.0.len() + MAX_NAME + 2 < from.len() {
            return None;
        }
    }
    let kind = rest.number()?;
    let class = rest.number()?;
    let asked = from.get(..from.len() - rest.0.len())?;
    Some((name, kind, class, asked))
}

/// Whether the client understands extended errors.
fn has_extension(header: &[u8], mut rest: Reader<'_>) -> bool {
    let starts = matches!(header.get(6..HEADER), Some(&[0, 0, 0, 0, 0, more]) if more > 0);
    starts && rest.byte() == Some(0) && rest.number() == Some(KIND_OPT)
}

struct Reply {
    id: [u8; 2],
    flags: u8,
}

impl Reply {
    fn empty(&self, code: Code) -> Vec<u8> {
        self.header(code, [0, 0, 0])
    }

    fn full(&self, asked: &[u8], said: Say, extended: bool) -> Vec<u8> {
        let code = if said == Say::NotThere { Code::NoSuchName } else { Code::Fine };
        let answers = u8::from(matches!(said, Say::At(_)));
        let mut bytes = self.header(code, [1, answers, u8::from(extended)]);
        bytes.extend_from_slice(asked);
        if let Say::At(address) = said {
            // The name is the one at the start of the question.
            bytes.extend_from_slice(&[0xc0, 0x0c]);
            bytes.extend_from_slice(&KIND_A.to_be_bytes());
            bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
            bytes.extend_from_slice(&LIFETIME.to_be_bytes());
            bytes.extend_from_slice(&[0, 4]);
            bytes.extend_from_slice(&address.octets());
        }
        if extended {
            bytes.push(0);
            bytes.extend_from_slice(&KIND_OPT.to_be_bytes());
            bytes.extend_from_slice(&PAYLOAD.to_be_bytes());
            bytes.extend_from_slice(&[0; 4]);
            if said == Say::NotThere {
                bytes.extend_from_slice(&[0, 6, 0, 15, 0, 2]);
                bytes.extend_from_slice(&BLOCKED.to_be_bytes());
            } else {
                bytes.extend_from_slice(&[0, 0]);
            }
        }
        bytes
    }

    /// `[questions, answers, additions]`.
    fn header(&self, code: Code, [questions, answers, additions]: [u8; 3]) -> Vec<u8> {
        let [id_high, id_low] = self.id;
        // An answer, with authority, to the same operation; recursion wished is recursion available.
        let first = 0x84 | (self.flags & 0x79);
        let second = 0x80 | code as u8;
        vec![id_high, id_low, first, second, 0, questions, 0, answers, 0, 0, 0, additions]
    }
}

/// Takes bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u16> {
        match self.take(2)? {
            &[high, low] => Some(u16::from_be_bytes([high, low])),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(labels: &[&[u8]], kind: u16, class: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label);
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend(class.to_be_bytes());
        bytes
    }

    fn extended(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[11] = 1;
        bytes.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn an_address_is_told_with_the_question_repeated_as_it_was_spelt() {
        let asked = question(&[b"ExAmple", b"test"], 1, 1);
        let given = answer(&asked, |name, wants| {
            assert_eq!((name, wants), ("ExAmple.test", Wants::Address));
            Say::At(Ipv4Addr::new(198, 18, 0, 7))
        })
        .unwrap();
        let mut wanted = vec![0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        wanted.extend(&asked[12..]);
        wanted.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 7]);
        assert_eq!(given, wanted);
    }

    #[test]
    fn a_blocked_name_does_not_exist_and_whoever_understands_is_told_why() {
        let plain = answer(&question(&[b"no", b"test"], 1, 1), |_, _| Say::NotThere).unwrap();
        assert_eq!((plain[3] & 15, plain[7], plain[11]), (3, 0, 0));
        let told = answer(&extended(question(&[b"no", b"test"], 1, 1)), |_, _| Say::NotThere).unwrap();
        assert_eq!((told[3] & 15, told[11]), (3, 1));
        assert!(told.ends_with(&[0, 6, 0, 15, 0, 2, 0, 15]), "{told:?}");
    }

    #[test]
    fn other_kinds_of_a_name_are_asked_for_as_such() {
        for kind in [28, 64, 65, 16, 255] {
            let given = answer(&question(&[b"a", b"test"], kind, 1), |_, wants| {
                assert_eq!(wants, Wants::Other);
                Say::Nothing
            });
            let given = given.unwrap();
            assert_eq!((given[3] & 15, given[7]), (0, 0));
        }
    }

    #[test]
    fn a_dot_or_a_nul_inside_a_label_makes_no_other_name() {
        let asked = question(&[b"a.test\0", b"evil"], 1, 1);
        answer(&asked, |name, _| {
            assert_eq!(name, "a\\046test\\000.evil");
            Say::NotThere
        })
        .unwrap();
    }

    #[test]
    fn what_is_no_question_gets_a_fault_or_silence_and_is_not_looked_up() {
        let never = |_: &str, _: Wants| -> Say { panic!("was asked") };
        let good = question(&[b"a", b"test"], 1, 1);
        let mut changed = good.clone();
        changed[2] |= 0x80;
        assert_eq!(answer(&changed, never), None);
        changed = good.clone();
        changed[2] |= 0x28;
        assert_eq!(answer(&changed, never).unwrap()[3] & 15, 4);
        changed = good.clone();
        changed[5] = 2;
        assert_eq!(answer(&changed, never).unwrap()[3] & 15, 1);
        changed = good;
        changed[12] = 0xc0;
        assert_eq!(answer(&changed, never).unwrap()[3] & 15, 1);
        assert_eq!(answer(&question(&[b"a"], 1, 3), never).unwrap()[3] & 15, 5);
        let long = [&[b'x'; 63][..]; 5];
        assert_eq!(answer(&question(&long, 1, 1), never).unwrap()[3] & 15, 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            at in 0_usize..60,
            byte: u8,
        ) {
            let _ = answer(&bytes, |_, _| Say::NotThere);
            let mut asked = extended(question(&[b"example", b"test"], 1, 1));
            let place = at % asked.len();
            asked[place] = byte;
            if let Some(given) = answer(&asked, |_, _| Say::At(Ipv4Addr::LOCALHOST)) {
                prop_assert!(given.len() <= 512);
            }
        }
    }
}
