//! The signer's door: a unix socket inside the sandbox, held by the gate.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::signer::{Answer, Signer};
use super::{Login, SigningKey};
use crate::events::{Denial, Way};
use crate::grant::Grant;

/// No message is longer.
const MAX_MESSAGE: u32 = 256 * 1024;
/// Nobody who logs in asks for more.
const MAX_MESSAGES: usize = 256;

/// Serves one connection until it ends, asks for too much, or says what is no message.
pub(crate) async fn serve(grant: Arc<Grant>, mut stream: UnixStream) {
    let Some(login) = &grant.permit.login else { return };
    let deny = |denial| grant.deny(&login.target.host.to_string(), login.target.port, Way::Signer, denial);
    let key = match key_for(&grant, login).await {
        Ok(key) => key,
        Err(denial) => return deny(denial),
    };
    let known = grant.gate.known_hosts.iter().filter(|known| *known.at() == login.target);
    let known = known.map(|known| known.key()).collect();
    let mut signer = Signer::new(&key, known, login.user.as_deref(), grant.gate.guards);
    for _ in 0..MAX_MESSAGES {
        let said = match next(&grant, &mut stream).await {
            Ok(Some(message)) => signer.answer(&message),
            Ok(None) => return,
            Err(denial) => return deny(denial),
        };
        let answer = match said {
            Answer::Told(answer) => answer,
            Answer::Signed(answer) => {
                grant.allow(&login.target, Way::Signer);
                answer
            }
            Answer::Refused(answer, denial) => {
                deny(denial);
                answer
            }
        };
        let framed = super::wire::string(&answer);
        let sent = tokio::time::timeout(grant.gate.patience.handshake, stream.write_all(&framed)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
    deny(Denial::TooManyRequests);
}

/// The key, where the place that it is for is one of the grant's.
async fn key_for(grant: &Grant, login: &Login) -> Result<SigningKey, Denial> {
    if !grant.permit.covers(&login.target) {
        return Err(Denial::HostNotGranted);
    }
    let gate = &grant.gate;
    gate.credentials.signing_key(&login.target, &gate.resolver, &gate.tls).await
}

/// One message without its length; nothing where the connection has ended.
async fn next(grant: &Grant, stream: &mut UnixStream) -> Result<Option<Vec<u8>>, Denial> {
    let length = match tokio::time::timeout(grant.permit.limits.idle, stream.read_u32()).await {
        Ok(Ok(length)) => length,
        Ok(Err(_over)) => return Ok(None),
        Err(_elapsed) => return Err(Denial::Idle),
    };
    if length == 0 || length > MAX_MESSAGE {
        return Err(Denial::BadRequest);
    }
    let mut message = Vec::new();
    let mut rest = stream.take(u64::from(length));
    match tokio::time::timeout(grant.gate.patience.handshake, rest.read_to_end(&mut message)).await {
        Ok(Ok(read)) if u32::try_from(read) == Ok(length) => Ok(Some(message)),
        Ok(_over) => Err(Denial::BadRequest),
        Err(_elapsed) => Err(Denial::TooSlow),
    }
}
