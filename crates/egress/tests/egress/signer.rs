//! The signer that signs for ssh, asked by its own door.

use std::os::unix::net::UnixStream as StdUnixStream;

use contract::{Reach, Target};
use egress::{Credential, Denial, Injection, KnownHost, Login, Permit, Secret, SecretSource, Way};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::Test;
use crate::world::{Inside, World, permit, run};

pub(crate) const TESTS: &[Test] = &[
    ("whoever names no session gets no signature, and that is on record", no_session),
    ("a message that is too long or none at all ends the connection", bad_messages),
    ("a key is for its own place only", own_place_only),
    ("a key that is encrypted is told to be", encrypted),
];

const KEY: &str = include_str!("../../src/ssh/fixtures/ed25519");
const PUBLIC: &str = include_str!("../../src/ssh/fixtures/ed25519.pub");
const ENCRYPTED: &str = include_str!("../../src/ssh/fixtures/encrypted");
const IDENTITIES: &[u8] = &[0, 0, 0, 1, 11];

fn login(at: &str) -> Permit {
    let target = Target::parse(at).unwrap();
    Permit { login: Some(Login { target, user: Some("git".to_owned()) }), ..permit(&["git.test:22"]) }
}

async fn world_with(key: &str) -> World {
    let source = SecretSource::Value(Secret::new(key.trim_end().to_owned()));
    let credential =
        Credential { to: Reach::parse("git.test:22").unwrap(), injection: Injection::SshKey, source };
    World::with(|settings| {
        settings.credentials = vec![credential];
        settings.known_hosts = KnownHost::parse(&format!("git.test {PUBLIC}")).unwrap();
    })
    .await
}

fn connect(inside: &Inside) -> UnixStream {
    let stream = StdUnixStream::connect_addr(&inside.signer).unwrap();
    stream.set_nonblocking(true).unwrap();
    UnixStream::from_std(stream).unwrap()
}

async fn ask(stream: &mut UnixStream, framed: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(framed).await.ok()?;
    let length = stream.read_u32().await.ok()?;
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await.ok()?;
    Some(answer)
}

fn no_session() {
    run(async {
        let world = world_with(KEY).await;
        assert!(world.egress.signs_for(&Target::parse("git.test:22").unwrap()));
        // It is in no request, so no request has to be seen.
        assert!(!world.egress.terminates(&login("git.test:22")));
        let inside = world.open_with(login("git.test:22"));
        let mut stream = connect(&inside);
        let keys = ask(&mut stream, IDENTITIES).await.unwrap();
        assert_eq!(keys[..5], [12, 0, 0, 0, 1]);
        let length = u32::from_be_bytes(keys[5..9].try_into().unwrap());
        let blob = &keys[5..9 + length as usize];
        let message = [&[13][..], blob, &[0, 0, 0, 3], b"any", &[0; 4]].concat();
        let framed = [&u32::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat();
        assert_eq!(ask(&mut stream, &framed).await, Some(vec![5]));
        inside.refused("git.test", Way::Signer, &Denial::NoSession).await;
        // To add a key is not offered, and the connection goes on.
        assert_eq!(ask(&mut stream, &[0, 0, 0, 1, 17]).await, Some(vec![5]));
        inside.refused("git.test", Way::Signer, &Denial::NotOffered).await;
        assert!(ask(&mut stream, IDENTITIES).await.is_some());
        let said = format!("{:?}", inside.usage());
        assert!(KEY.lines().all(|line| !said.contains(line)), "{said}");
    });
}

fn bad_messages() {
    run(async {
        let world = world_with(KEY).await;
        let inside = world.open_with(login("git.test:22"));
        for framed in [&[0, 0, 0, 0][..], &[0, 4, 0, 1, 11], &[0xff; 5]] {
            assert_eq!(ask(&mut connect(&inside), framed).await, None, "{framed:?}");
        }
        inside.refused("git.test", Way::Signer, &Denial::BadRequest).await;
    });
}

fn own_place_only() {
    run(async {
        let world = world_with(KEY).await;
        for at in ["other.test:22", "git.test:2222"] {
            let inside = world.open_with(login(at));
            assert_eq!(ask(&mut connect(&inside), IDENTITIES).await, None, "{at}");
        }
        let elsewhere = Permit { reach: permit(&["other.test:22"]).reach, ..login("git.test:22") };
        let inside = world.open_with(elsewhere);
        assert_eq!(ask(&mut connect(&inside), IDENTITIES).await, None);
        inside.refused("git.test", Way::Signer, &Denial::HostNotGranted).await;
    });
}

fn encrypted() {
    run(async {
        let world = world_with(ENCRYPTED).await;
        let inside = world.open_with(login("git.test:22"));
        assert_eq!(ask(&mut connect(&inside), IDENTITIES).await, None);
        inside.refused("git.test", Way::Signer, &Denial::EncryptedKey).await;
    });
}
