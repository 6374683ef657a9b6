//! The signer signs for one host, one session and one user, and for nothing else.

use super::key::SigningKey;
use super::signer::{Answer, Signer};
use super::wire::string;
use super::{HostKey, KnownHost, KnownHostError};
use crate::credentials::Secret;
use crate::events::Denial;
use crate::guards::Guards;

const ED25519: &str = include_str!("fixtures/ed25519");
const PUBLIC: [&str; 4] = [
    include_str!("fixtures/ed25519.pub"),
    include_str!("fixtures/ecdsa_256.pub"),
    include_str!("fixtures/ecdsa_384.pub"),
    include_str!("fixtures/rsa.pub"),
];
const PRIVATE: [&str; 4] = [
    ED25519,
    include_str!("fixtures/ecdsa_256"),
    include_str!("fixtures/ecdsa_384"),
    include_str!("fixtures/rsa"),
];
const SESSION: [u8; 32] = [7; 32];
/// By SHA-512, where the key is an RSA key.
const FLAGS: u32 = 4;

fn key(text: &str) -> SigningKey {
    SigningKey::read(&Secret::new(text.trim_end().to_owned())).unwrap_or_else(|denial| panic!("{denial}"))
}

fn host_key(public: &str) -> HostKey {
    KnownHost::parse(&format!("git.test {public}")).unwrap()[0].key().clone()
}

/// A message that names a session, signed by a host's key.
struct Bind<'a> {
    host_key: &'a SigningKey,
    signed: &'a [u8],
    session: &'a [u8],
    forwarded: u8,
}

impl<'a> Bind<'a> {
    fn by(host_key: &'a SigningKey) -> Bind<'a> {
        Bind { host_key, signed: &SESSION, session: &SESSION, forwarded: 0 }
    }

    fn message(&self) -> Vec<u8> {
        let scheme = self.host_key.scheme(FLAGS).unwrap();
        let signature = self.host_key.sign(self.signed, scheme).unwrap();
        let name = string(b"session-bind@openssh.com");
        let parts = [self.host_key.blob(), self.session, &signature].map(string).concat();
        [&[27][..], &name, &parts, &[self.forwarded]].concat()
    }
}

/// A request to log in, as ssh has it signed.
#[derive(Clone)]
struct Asked {
    session: Vec<u8>,
    kind: u8,
    user: &'static str,
    service: &'static str,
    method: &'static str,
    with_signature: u8,
    scheme: &'static str,
    key: Vec<u8>,
    host_key: Option<Vec<u8>>,
    more: &'static [u8],
}

impl Asked {
    fn of(key: &SigningKey) -> Asked {
        Asked {
            session: SESSION.to_vec(),
            kind: 50,
            user: "git",
            service: "ssh-connection",
            method: "publickey",
            with_signature: 1,
            scheme: key.scheme(FLAGS).unwrap().name(),
            key: key.blob().to_vec(),
            host_key: None,
            more: b"",
        }
    }

    fn data(&self) -> Vec<u8> {
        let [user, service, method] =
            [self.user, self.service, self.method].map(|text| string(text.as_bytes()));
        let host_key = self.host_key.as_ref().map(|key| string(key)).unwrap_or_default();
        [
            &string(&self.session),
            &[self.kind][..],
            &user,
            &service,
            &method,
            &[self.with_signature],
            &string(self.scheme.as_bytes()),
            &string(&self.key),
            &host_key,
            self.more,
        ]
        .concat()
    }

    fn message(&self, key: &SigningKey) -> Vec<u8> {
        sign_request(key.blob(), &self.data())
    }
}

fn sign_request(blob: &[u8], data: &[u8]) -> Vec<u8> {
    [&[13][..], &string(blob), &string(data), &FLAGS.to_be_bytes()].concat()
}

fn refusal(answer: Answer) -> Option<Denial> {
    match answer {
        Answer::Refused(_, denial) => Some(denial),
        Answer::Told(_) | Answer::Signed(_) => None,
    }
}

#[test]
fn a_session_that_the_host_has_signed_is_signed_for_with_every_kind_of_key() {
    for (host_private, host_public) in PRIVATE.iter().zip(PUBLIC) {
        for (private, public) in PRIVATE.iter().zip(PUBLIC) {
            let (theirs, ours) = (key(host_private), key(private));
            let known = host_key(host_public);
            let mut signer = Signer::new(&ours, vec![&known], Some("git"), Guards::default());
            assert_eq!(signer.answer(&Bind::by(&theirs).message()), Answer::Told(vec![6]));
            let hostbound = Asked {
                method: "publickey-hostbound-v00@openssh.com",
                host_key: Some(theirs.blob().to_vec()),
                ..Asked::of(&ours)
            };
            for asked in [Asked::of(&ours), hostbound] {
                let Answer::Signed(answer) = signer.answer(&asked.message(&ours)) else { panic!("refused") };
                let (kind, signature) = answer.split_first().unwrap();
                assert_eq!(*kind, 14);
                assert!(host_key(public).has_signed(&asked.data(), &signature[4..]));
                assert!(!host_key(public).has_signed(b"another", &signature[4..]));
            }
        }
    }
}

#[test]
fn a_session_that_is_not_the_hosts_is_not_bound() {
    let (theirs, ours) = (key(PRIVATE[1]), key(ED25519));
    let known = host_key(PUBLIC[1]);
    let stranger = key(PRIVATE[2]);
    let cases = [
        (Bind::by(&stranger), Denial::OtherHostKey),
        (Bind { forwarded: 1, ..Bind::by(&theirs) }, Denial::ForwardedSession),
        (Bind { signed: b"another", ..Bind::by(&theirs) }, Denial::UnprovenSession),
        (Bind { session: &[8; 32], ..Bind::by(&theirs) }, Denial::UnprovenSession),
        (Bind { session: b"", signed: b"", ..Bind::by(&theirs) }, Denial::BadRequest),
        (Bind { session: &[7; 65], signed: &[7; 65], ..Bind::by(&theirs) }, Denial::BadRequest),
    ];
    for (bind, expected) in cases {
        let mut signer = Signer::new(&ours, vec![&known], Some("git"), Guards::default());
        assert_eq!(refusal(signer.answer(&bind.message())), Some(expected));
        let asked = signer.answer(&Asked::of(&ours).message(&ours));
        assert_eq!(refusal(asked), Some(Denial::NoSession));
    }
    let mut signer = Signer::new(&ours, Vec::new(), None, Guards::default());
    assert_eq!(refusal(signer.answer(&Bind::by(&theirs).message())), Some(Denial::OtherHostKey));
}

#[test]
fn nothing_is_signed_but_a_login_in_the_session() {
    let (theirs, ours) = (key(PRIVATE[1]), key(ED25519));
    let (known, stranger) = (host_key(PUBLIC[1]), host_key(PUBLIC[2]));
    let right = Asked::of(&ours);
    let other_key = key(PRIVATE[3]).blob().to_vec();
    let hostbound = "publickey-hostbound-v00@openssh.com";
    let cases = [
        (Asked { session: vec![8; 32], ..right.clone() }, Denial::OtherSession),
        (Asked { session: Vec::new(), ..right.clone() }, Denial::OtherSession),
        (Asked { user: "root", ..right.clone() }, Denial::OtherUser),
        (Asked { user: "", ..right.clone() }, Denial::OtherUser),
        (Asked { kind: 80, ..right.clone() }, Denial::NotALogin),
        (Asked { service: "ssh-userauth", ..right.clone() }, Denial::NotALogin),
        (Asked { method: "hostbased", ..right.clone() }, Denial::NotALogin),
        (Asked { method: hostbound, ..right.clone() }, Denial::NotALogin),
        (
            Asked { method: hostbound, host_key: Some(stranger.blob().to_vec()), ..right.clone() },
            Denial::OtherHostKey,
        ),
        (Asked { with_signature: 0, ..right.clone() }, Denial::NotALogin),
        (Asked { scheme: "rsa-sha2-512", ..right.clone() }, Denial::NotALogin),
        (Asked { key: other_key.clone(), ..right.clone() }, Denial::NotALogin),
        (Asked { more: b"x", ..right.clone() }, Denial::NotALogin),
    ];
    let mut signer = Signer::new(&ours, vec![&known], Some("git"), Guards::default());
    assert_eq!(signer.answer(&Bind::by(&theirs).message()), Answer::Told(vec![6]));
    for (asked, expected) in cases {
        assert_eq!(refusal(signer.answer(&asked.message(&ours))), Some(expected));
    }
    let others: [(&[u8], &[u8]); 4] = [
        (&other_key, &right.data()),
        (ours.blob(), b"SSHSIG\0\0\0\x03git\0\0\0\0"),
        (ours.blob(), b""),
        (b"", &right.data()),
    ];
    for (blob, data) in others {
        assert_eq!(refusal(signer.answer(&sign_request(blob, data))), Some(Denial::NotALogin));
    }
    // Another session on the same connection would make two of one.
    assert_eq!(refusal(signer.answer(&Bind::by(&theirs).message())), Some(Denial::OtherSession));
    assert_eq!(refusal(signer.answer(&right.message(&ours))), None);
}

#[test]
fn where_nobody_has_said_who_logs_in_anybody_may_at_that_host() {
    let (theirs, ours) = (key(PRIVATE[1]), key(ED25519));
    let known = host_key(PUBLIC[1]);
    let mut signer = Signer::new(&ours, vec![&known], None, Guards::default());
    signer.answer(&Bind::by(&theirs).message());
    assert_eq!(refusal(signer.answer(&Asked { user: "root", ..Asked::of(&ours) }.message(&ours))), None);
}

#[test]
fn an_rsa_key_does_not_sign_by_sha_1() {
    let (theirs, ours) = (key(PRIVATE[1]), key(PRIVATE[3]));
    let known = host_key(PUBLIC[1]);
    let mut signer = Signer::new(&ours, vec![&known], None, Guards::default());
    signer.answer(&Bind::by(&theirs).message());
    let asked = Asked { scheme: "ssh-rsa", ..Asked::of(&ours) };
    let message = [&[13][..], &string(ours.blob()), &string(&asked.data()), &[0; 4]].concat();
    assert_eq!(refusal(signer.answer(&message)), Some(Denial::NotALogin));
}

#[test]
fn the_one_key_is_named_and_nothing_else_is_done() {
    let ours = key(ED25519);
    let mut signer = Signer::new(&ours, Vec::new(), None, Guards::default());
    let expected = [&[12, 0, 0, 0, 1][..], &string(ours.blob()), &string(b"")].concat();
    assert_eq!(signer.answer(&[11]), Answer::Told(expected));
    // Add, remove, lock, unlock, a card; the old protocol; an extension of another name.
    for kind in [1, 3, 9, 17, 18, 19, 20, 22, 23, 25, 255] {
        assert_eq!(signer.answer(&[kind]), Answer::Refused(vec![5], Denial::NotOffered), "{kind}");
    }
    let query = [&[27][..], &string(b"query")].concat();
    assert_eq!(signer.answer(&query), Answer::Refused(vec![28], Denial::NotOffered));
}

#[test]
fn half_a_message_is_none() {
    let (theirs, ours) = (key(PRIVATE[1]), key(ED25519));
    let known = host_key(PUBLIC[1]);
    let mut signer = Signer::new(&ours, vec![&known], None, Guards::default());
    let (bind, asked) = (Bind::by(&theirs).message(), Asked::of(&ours).message(&ours));
    assert_eq!(refusal(signer.answer(b"")), Some(Denial::BadRequest));
    for whole in [&bind, &asked] {
        for length in 1..whole.len() {
            let denial = refusal(signer.answer(&whole[..length]));
            assert_eq!(denial, Some(Denial::BadRequest), "{length}");
        }
        let more = [whole.as_slice(), b"x"].concat();
        assert_eq!(refusal(signer.answer(&more)), Some(Denial::BadRequest));
    }
    let endless = [&[13][..], &[0xff; 4], b"x"].concat();
    assert_eq!(refusal(signer.answer(&endless)), Some(Denial::BadRequest));
}

proptest::proptest! {
    #[test]
    fn whatever_is_said_nothing_is_signed_before_the_host_has(
        messages in proptest::collection::vec(proptest::collection::vec(0_u8.., 0..200), 1..4),
        kind in proptest::sample::select(vec![11_u8, 13, 27]),
    ) {
        let ours = key(ED25519);
        let known = host_key(PUBLIC[1]);
        let mut signer = Signer::new(&ours, vec![&known], None, Guards::default());
        for message in messages {
            let message = [&[kind][..], &message].concat();
            proptest::prop_assert!(!matches!(signer.answer(&message), Answer::Signed(_)));
        }
    }
}

#[test]
fn a_key_that_cannot_sign_is_refused_with_its_reason() {
    let read = |text: &str| SigningKey::read(&Secret::new(text.trim_end().to_owned())).err();
    assert_eq!(read(include_str!("fixtures/encrypted")), Some(Denial::EncryptedKey));
    assert_eq!(read(include_str!("fixtures/ecdsa_521")), Some(Denial::UnfitKey));
    assert_eq!(
        read("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----"),
        Some(Denial::UnfitKey)
    );
    assert_eq!(read("a password"), Some(Denial::UnfitKey));
    assert_eq!(read(&ED25519.replace("AAAA", "AAAB")), Some(Denial::UnfitKey));
}

#[test]
fn known_hosts_are_read_and_written_anew() {
    let public = PUBLIC[0].trim();
    let lines = |text: String| -> Result<Vec<String>, KnownHostError> {
        Ok(KnownHost::parse(&text)?.iter().map(KnownHost::line).collect())
    };
    assert_eq!(lines(format!("Git.Test. {public} a comment")), Ok(vec![format!("git.test {public}")]));
    assert_eq!(
        lines(format!("git.test,[git.test]:2222,192.0.2.7\t{public}")),
        Ok(vec![
            format!("git.test {public}"),
            format!("[git.test]:2222 {public}"),
            format!("192.0.2.7 {public}"),
        ])
    );
}

#[test]
fn what_is_no_known_host_is_refused() {
    let public = PUBLIC[0].trim();
    let why = |text: String| KnownHost::parse(&text).unwrap_err();
    assert_eq!(why(String::new()), KnownHostError::Shape);
    assert_eq!(why(public.to_owned()), KnownHostError::Shape);
    assert_eq!(why(format!("a.test {public}\nb.test {public}")), KnownHostError::Shape);
    assert_eq!(why(format!("|1|c2FsdA==|aGFzaA== {public}")), KnownHostError::Hashed);
    for mark in ["@cert-authority", "@revoked"] {
        assert_eq!(why(format!("{mark} a.test {public}")), KnownHostError::Mark { mark: mark.to_owned() });
    }
    for pattern in ["*.test", "a?.test", "!a.test", "a.test,*"] {
        assert!(matches!(why(format!("{pattern} {public}")), KnownHostError::Pattern { .. }), "{pattern}");
    }
    for host in ["[a.test]:0", "[a.test]:x", "[a.test]", "[a.test]:+22", "a b.test:22", "a.test,,b.test"] {
        let error = why(format!("{host} {public}"));
        assert!(matches!(error, KnownHostError::Host { .. } | KnownHostError::Key { .. }), "{host}: {error}");
    }
    assert!(matches!(why("a.test ssh-ed25519 AAAA".into()), KnownHostError::Key { .. }));
    assert!(matches!(
        why(format!("a.test ssh-rsa {}", public.trim_start_matches("ssh-ed25519 "))),
        KnownHostError::Key { .. }
    ));
    let curve = include_str!("fixtures/ecdsa_521.pub").trim();
    assert!(matches!(why(format!("a.test {curve}")), KnownHostError::Kind { .. }));
}
