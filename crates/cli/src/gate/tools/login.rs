//! `toolgate tools login`: somebody says yes on a page of an issuer's, and comes back to this machine with a code.
//!
//! # Invariants
//! - It listens on loopback, for one sign-in, and as long as that takes.
//! - Whoever comes without the state that was sent is not who was meant, and ends nothing.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use policy::{SecretSource, SignInGrant, SignInSettings};
use serde_json::json;
use store::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tools::mcp::Pending;

use super::super::open::Opened;
use super::super::person::Person;
use super::super::{CODE_DONE, Trouble};
use crate::talk;

/// How long somebody has to say yes.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long one request may take, and how long its head is at most.
const HEAD_TAKES: Duration = Duration::from_secs(10);
const LONGEST_HEAD: usize = 16 * 1024;

const PATH: &str = "/callback";

pub(super) async fn login(
    opened: &Opened,
    server: &str,
    person: &Person,
    json: bool,
) -> Result<i32, Trouble> {
    let credential = person.credential(opened).await?;
    let operator = opened.engine.operator_of(&credential).await?;
    if operator.is_none_or(|operator| operator.role == Role::Viewer) {
        return Err(Trouble::refused(anyhow!("a viewer signs in to no server")));
    }
    let settings = opened.engine.settings();
    let of = settings.egress.server_credentials.iter().filter_map(|credential| match &credential.from {
        SecretSource::SignIn(of) => Some(of.as_ref()),
        _ => None,
    });
    let found: Option<&SignInSettings> = of.clone().find(|of| of.server == server);
    let (Some(found), Some(sign_in)) = (found, opened.engine.sign_in(server)) else {
        let error = anyhow!("there is no server `{server}` that one signs in to");
        return Err(Trouble::from(error).with_hint(
            "give it `auth: {oauth: {}}` under `mcp.servers`; docs/guide/mcp-servers.md says how",
        ));
    };
    if found.grant == SignInGrant::ClientCredentials {
        let error = anyhow!("`{server}` is signed in to by the gate itself, with its own name and secret");
        return Err(Trouble::from(error));
    }
    let port = found.redirect_port.unwrap_or(0);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.with_context(|| format!("cannot listen on port {port} of this machine"))?;
    let port = listener.local_addr().context("the listener has no address")?.port();
    let redirect = format!("http://127.0.0.1:{port}{PATH}");
    let pending = sign_in.begin(&redirect).await.map_err(|why| not_signed_in(server, &why.to_string()))?;
    if json {
        talk::line(&json!({ "server": server, "issuer": pending.issuer, "page": pending.page }));
    } else {
        talk::say(&format!(
            "open this page, where `{}` asks whether the gate may use `{server}`:",
            pending.issuer
        ));
        talk::data(&pending.page);
    }
    let waited = tokio::time::timeout(PATIENCE, wait(&listener, &pending)).await;
    let Ok((query, mut answer)) = waited else {
        return Err(not_signed_in(server, "nobody came back in five minutes"));
    };
    let finished = sign_in.finish(pending, &query).await;
    let told = match &finished {
        Ok(()) => "Signed in. You can close this page.".to_owned(),
        Err(why) => format!("Not signed in: {why}."),
    };
    reply(&mut answer, if finished.is_ok() { "200 OK" } else { "403 Forbidden" }, &told).await;
    finished.map_err(|why| not_signed_in(server, &why.to_string()))?;
    if json {
        talk::line(&json!({ "server": server, "signed_in": true }));
    } else {
        talk::say(&format!("signed in to `{server}`; `toolgate tools refresh {server}` lists its tools"));
    }
    opened.engine.close().await;
    Ok(CODE_DONE)
}

fn not_signed_in(server: &str, why: &str) -> Trouble {
    Trouble::refused(anyhow!("not signed in to `{server}`: {why}"))
}

/// Whoever comes back with our state, and what they say.
async fn wait(listener: &TcpListener, pending: &Pending) -> (String, TcpStream) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let head = tokio::time::timeout(HEAD_TAKES, read_head(&mut stream)).await.ok().flatten();
        let query = head.as_deref().and_then(query_of);
        match query {
            // ATTACK(state-mismatch): a page elsewhere can send a browser here, and ends nothing by it.
            Some(query) if pending.is_answered_by(query) => return (query.to_owned(), stream),
            _ => reply(&mut stream, "404 Not Found", "There is nothing here.").await,
        }
    }
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(piece.get(..count)?);
        if head.len() > LONGEST_HEAD {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// The query of a request to the one address there is.
fn query_of(head: &str) -> Option<&str> {
    let mut words = head.lines().next()?.split(' ');
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else { return None };
    target.strip_prefix(PATH)?.strip_prefix('?')
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\ncontent-security-policy: default-src 'none'\r\n\
         connection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_address_has_a_query() {
        assert_eq!(query_of("GET /callback?code=a&state=b HTTP/1.1\r\n\r\n"), Some("code=a&state=b"));
        for head in [
            "GET /callback HTTP/1.1",
            "POST /callback?x HTTP/1.1",
            "GET /other?x HTTP/1.1",
            "GET /callbacks?x",
            "",
        ] {
            assert_eq!(query_of(head), None, "{head}");
        }
    }
}
