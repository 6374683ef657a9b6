//! The gate's door on loopback: agents that would be people, and pages that are not ours.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use contract::{AgentName, CallId, Digest, OperatorName};
use engine::{Credential, Engine};
use rustix::process::Uid;
use serde_json::{Value, json};
use server::{
    AccessTokens, GateError, Guard, HttpOptions, HttpReady, Pending, TokenBook, serve_http,
    serve_http_without,
};
use store::{Role, Vote};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, standard};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "unread-connections",
            "connections that send nothing keep nobody from the page",
            |_| {
                // A server that takes so many and no more, and waits for each to say something.
                let listener = listen()?;
                let silent = connect(listener.local_addr()?)?;
                let _taken = listener.accept()?;
                let mut late = connect(listener.local_addr()?)?;
                late.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
                late.set_read_timeout(Some(Duration::from_millis(200)))?;
                let kept_out = late.read(&mut [0; 1]).is_err();
                drop(silent);
                Ok(Effect::through_if(kept_out, "the second is never read"))
            },
            |stand| {
                let door = Door::open(stand)?;
                let silent = (0..500).map(|_| connect(door.address)).collect::<Try<Vec<_>>>()?;
                let page = door.ask("GET", "/", &[], "")?;
                let asked = door.ask("GET", "/v1/approvals", &[&bearer(&door.operator)], "")?;
                drop(silent);
                if (page.status, asked.status) != (200, 200) {
                    return Ok(Effect::Through(format!("{} {}", page.status, asked.status)));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "agents-fill-the-room",
            "however many requests of agents wait, an operator is answered",
            |_| {
                // A server that has so many places, whoever comes.
                let listener = listen()?;
                let _waiting = connect(listener.local_addr()?)?;
                let _taken = listener.accept()?;
                let mut late = connect(listener.local_addr()?)?;
                late.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
                late.set_read_timeout(Some(Duration::from_millis(200)))?;
                Ok(Effect::through_if(late.read(&mut [0; 1]).is_err(), "the second is never read"))
            },
            |stand| {
                let door = Door::open(stand)?;
                let agents: Vec<&str> = CROWD.iter().map(|(token, _)| *token).collect();
                let crowd = agents.iter().flat_map(|token| std::iter::repeat_n(*token, 64));
                let crowd = crowd.map(|token| door.wait_for_the_call(token)).collect::<Try<Vec<_>>>()?;
                let asked = door.ask("GET", "/v1/approvals", &[&bearer(&door.operator)], "")?;
                let page = door.ask("GET", "/", &[], "")?;
                drop(crowd);
                if (page.status, asked.status) != (200, 200) {
                    return Ok(Effect::Through(format!("{} {}", page.status, asked.status)));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "link-of-a-viewer",
            "the link of somebody who only looks opens no session of somebody who decides",
            |stand| {
                let door = Door::open(stand)?;
                let (cookie, page) = door.sign_in()?;
                Ok(opened(door.decide(&[&cookie, &page])?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let guest = Credential::presented("the credential of somebody who only looks");
                let name = OperatorName::parse("guest")?;
                let store = door.gate.engine.store();
                let now = door.gate.engine.now();
                runtime()?.block_on(store.add_operator(&name, Role::Viewer, guest.digest(), now))?;
                let link = door.ask("POST", "/v1/sign-in-links", &[&bearer(guest.reveal())], "")?;
                let link: Value = serde_json::from_str(&link.body)?;
                let url = link.get("sign_in_url").and_then(Value::as_str).ok_or("no link")?.to_owned();
                let (cookie, page) = door.sign_in_with(&url)?;
                let tried = vec![
                    door.decide(&[&cookie, &page])?,
                    door.decide(&[&bearer(guest.reveal())])?,
                    door.ask(
                        "POST",
                        "/v1/answers",
                        &[&cookie, &page],
                        &format!(r#"{{"text":"/approve {}"}}"#, door.approval),
                    )?,
                ];
                let entries = runtime()?.block_on(store.latest_event(-1))?;
                let told = entries.iter().filter(|entry| entry.kind == "answer.refused").count();
                if told < tried.len() {
                    return Ok(Effect::Through(format!("the ledger tells of {told} that were refused")));
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "agent-decides",
            "an agent cannot say yes to itself",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.decide(&[&bearer(&door.operator)])?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let agent = bearer(TESTER);
                let nobody: [&[&str]; 4] =
                    [&[], &["Authorization: Bearer "], &["Authorization: Bearer x"], &[&agent]];
                let tried: Vec<Response> =
                    nobody.iter().map(|headers| door.decide(headers)).collect::<Try<_>>()?;
                // With both, it is the agent who asks, or nobody.
                let both = door.decide(&[&agent, &bearer(&door.operator)])?;
                let new_link = door.ask("POST", "/v1/sign-in-links", &[&agent], "")?;
                let listed = door.ask("GET", "/v1/approvals", &[&agent], "")?;
                door.finish(tried.into_iter().chain([both, new_link, listed]).collect())
            },
        )
        .held_at_the_door(&[Guard::Roles]),
        Case::new(
            "speaks-for-another",
            "an agent's token speaks for no other agent",
            |stand| {
                let door = Door::open(stand)?;
                let headers = [bearer(&door.operator), "X-Toolgate-Agent: other".to_owned()];
                Ok(opened(door.ask("POST", "/v1/calls", &headers.each_ref().map(String::as_str), CALL)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let agent = bearer(TESTER);
                let tried = door.ask("POST", "/v1/calls", &[&agent, "X-Toolgate-Agent: other"], CALL)?;
                let twice = [agent.as_str(), "X-Toolgate-Agent: tester", "X-Toolgate-Agent: other"];
                let twice = door.ask("POST", "/v1/calls", &twice, CALL)?;
                let calls = runtime()?.block_on(door.gate.engine.store().calls(50, None))?;
                if calls.iter().any(|call| call.agent.as_str() == "other") {
                    return Ok(Effect::Through("the other agent has made a call".to_owned()));
                }
                door.finish(vec![tried, twice])
            },
        ),
        Case::new(
            "call-of-another",
            "an agent neither sees nor ends a call of another",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.ask("GET", &door.call_path(), &[&bearer(TESTER)], "")?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let other = bearer(OTHER);
                let seen = door.ask("GET", &door.call_path(), &[&other], "")?;
                let ended = door.ask("DELETE", &door.call_path(), &[&other], "")?;
                let listed = door.ask("GET", "/v1/calls", &[&other], "")?;
                if listed.body.contains(door.call.as_str()) {
                    return Ok(Effect::Through(format!("it is listed: {}", listed.body)));
                }
                door.finish(vec![seen, ended])
            },
        ),
        Case::new(
            "dns-rebinding",
            "the gate answers to its own name alone",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(door.decide(&[&bearer(&door.operator)])?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let operator = bearer(&door.operator);
                let port = door.address.port();
                let mut tried = Vec::new();
                for host in [
                    "evil.example",
                    "127.0.0.1.evil.example",
                    "localhost.evil.example",
                    "localhost@evil.example",
                ] {
                    for host in
                        [host.to_owned(), format!("{host}:{port}"), format!("127.0.0.1:{port}@{host}")]
                    {
                        tried.push(door.send("POST", &door.decision_path(), &host, &[&operator], YES)?);
                        tried.push(door.send("GET", "/v1/approvals", &host, &[&operator], "")?);
                    }
                }
                let two = format!("127.0.0.1:{port}\r\nHost: evil.example");
                tried.push(door.send("POST", &door.decision_path(), &two, &[&operator], YES)?);
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Hosts]),
        Case::new(
            "forged-from-a-page",
            "another page cannot use the session of ours",
            |stand| {
                let door = Door::open(stand)?;
                let (cookie, page) = door.sign_in()?;
                Ok(opened(door.decide(&[&cookie, &page])?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let (cookie, page) = door.sign_in()?;
                let port = door.address.port();
                let mut tried = vec![
                    door.decide(&[&cookie])?,
                    door.decide(&[&page])?,
                    door.decide(&[&cookie, "X-Toolgate-Page: "])?,
                    door.decide(&[&cookie, &page.replace(['0', '1'], "2")])?,
                    door.decide(&[&cookie, &page, "Sec-Fetch-Site: cross-site"])?,
                    door.decide(&[&cookie, &page, "Sec-Fetch-Site: same-site"])?,
                ];
                for origin in [
                    "http://evil.example".to_owned(),
                    "null".to_owned(),
                    format!("http://localhost:{port}"),
                    format!("https://127.0.0.1:{port}"),
                    "http://127.0.0.1:1".to_owned(),
                ] {
                    tried.push(door.decide(&[&cookie, &page, &format!("Origin: {origin}")])?);
                }
                door.finish(tried)
            },
        )
        .held_at_the_door(&[Guard::Origins, Guard::PageTokens]),
        Case::new(
            "link-used-twice",
            "a sign-in link opens one session",
            |stand| {
                let door = Door::open(stand)?;
                Ok(Effect::through_if(door.sign_in().is_ok(), "the first time"))
            },
            |stand| {
                let door = Door::open(stand)?;
                door.sign_in()?;
                if door.sign_in().is_ok() {
                    return Ok(Effect::Through("the link opened another session".to_owned()));
                }
                door.finish(vec![door.decide(&[])?])
            },
        ),
        Case::new(
            "console-parameter",
            "nothing that stands in a link to the page sends its visitor, or their token, anywhere else",
            |_| {
                // A page that is told by its own address where its gate is.
                let link = "/?gate=http://evil.example/&code=0";
                let told = link.split(['?', '&']).find_map(|pair| pair.strip_prefix("gate="));
                Ok(Effect::through_if(told == Some("http://evil.example/"), "it asks there, with its token"))
            },
            |stand| {
                let door = Door::open(stand)?;
                let plain = door.ask("GET", "/", &[], "")?;
                for name in ["gate", "gatewayUrl", "url", "api", "token", "page", "next", "redirect"] {
                    let told = door.ask("GET", &format!("/?{name}=http://evil.example/"), &[], "")?;
                    if told.body != plain.body || told.status != 200 {
                        return Ok(Effect::Through(format!("the page heeds `{name}`: {}", told.head)));
                    }
                    let to_own = "connect-src 'self'";
                    if !told.head.contains(to_own) || !told.head.contains("referrer-policy: no-referrer") {
                        return Ok(Effect::Through(format!("the page may ask elsewhere: {}", told.head)));
                    }
                    // A link of somebody who knows a good one and adds to it.
                    let url = door.ask("POST", "/v1/sign-in-links", &[&bearer(&door.operator)], "")?;
                    let url: Value = serde_json::from_str(&url.body)?;
                    let url = url.get("sign_in_url").and_then(Value::as_str).ok_or("no link")?.to_owned();
                    let path = url.split_once(&door.address.to_string()).ok_or("not our link")?.1;
                    let led = door.ask("GET", &format!("{path}&{name}=//evil.example/"), &[], "")?;
                    if led.head.contains("evil.example") {
                        return Ok(Effect::Through(format!("the link leads elsewhere: {}", led.head)));
                    }
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "link-for-another-user",
            "a new sign-in link is for whoever runs the gate, and for nobody else on the machine",
            |stand| {
                let door = Door::open(stand)?;
                door.new_link(None)
            },
            |stand| {
                let door = Door::open(stand)?;
                let effect = door.new_link(Some(NOBODY))?;
                door.gate.answer(&door.approval, Vote::Reject)?;
                door.gate.expect(&door.call, Ending::Refused("rejected"));
                Ok(effect)
            },
        )
        // Nobody else can become somebody else.
        .needs(Need::Root),
    ]
}

/// A user who runs nothing.
const NOBODY: u32 = 65_534;

pub(super) const TESTER: &str = "the-token-of-the-agent-tester";
pub(super) const OTHER: &str = "the-token-of-another-agent";
/// More agents, and their tokens.
const CROWD: [(&str, &str); 5] =
    [(TESTER, AGENT), (OTHER, "other"), ("token-3", "third"), ("token-4", "fourth"), ("token-5", "fifth")];
const YES: &str = r#"{"verdict":"approve"}"#;
const CALL: &str = r#"{"tool":"fs.list","arguments":{}}"#;

/// A gate with a door, and a call that waits behind it.
pub(super) struct Door<'a> {
    pub(super) stand: &'a Stand<'a>,
    pub(super) gate: Gate<'a>,
    pub(super) address: SocketAddr,
    sign_in_url: String,
    link_socket: PathBuf,
    pub(super) operator: String,
    pub(super) call: CallId,
    pub(super) approval: String,
    /// Closes the door.
    _open: DropGuard,
}

/// Tokens that are known here, and those that the engine knows.
struct Book(HashMap<Digest, AgentName>, Engine);

impl TokenBook for Book {
    fn agent_of(&self, token: Digest) -> Pending<'_, Result<Option<AgentName>, GateError>> {
        Box::pin(async move {
            match self.0.get(&token) {
                Some(agent) => Ok(Some(agent.clone())),
                None => {
                    let agent = self.1.agent_of_token(&token).await;
                    agent.map_err(|error| GateError::Store(Box::new(error)))
                }
            }
        })
    }
}

/// What came back.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

#[expect(clippy::disallowed_methods, reason = "the client of a door that is attacked")]
pub(super) fn connect(address: SocketAddr) -> Try<TcpStream> {
    Ok(TcpStream::connect(address)?)
}

#[expect(clippy::disallowed_methods, reason = "a server that stands in for ours")]
pub(super) fn listen() -> Try<TcpListener> {
    Ok(TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?)
}

pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

pub(super) fn opened(answer: Response) -> Effect {
    Effect::through_if((200..300).contains(&answer.status), format!("{} {}", answer.status, answer.body))
}

impl<'a> Door<'a> {
    /// Asks for a link at the socket, which stands as open as a file can, as somebody else if one is named.
    fn new_link(&self, user: Option<u32>) -> Try<Effect> {
        let folder = self.link_socket.parent().ok_or("a socket is in a folder")?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(&self.link_socket, fs::Permissions::from_mode(0o666))?;
        // Whoever has become somebody else may not be able to walk there any more.
        let held = fs::File::open(folder)?;
        let name = self.link_socket.file_name().ok_or("a socket has a name")?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd())).join(name);
        let asked = std::thread::spawn(move || -> Result<String, String> {
            if let Some(user) = user {
                let user = Uid::from_raw(user);
                let become_another = rustix::thread::set_thread_res_uid(user, user, user);
                become_another.map_err(|_| "this user cannot be another one".to_owned())?;
            }
            let mut link = String::new();
            let stream = UnixStream::connect(path).map_err(|error| format!("cannot connect: {error}"))?;
            stream.take(1024).read_to_string(&mut link).map_err(|error| error.to_string())?;
            Ok(link)
        });
        let asked = asked.join().map_err(|_| "the thread that asks has ended")?;
        Ok(Effect::through_if(asked?.contains("/sign-in?code="), "it got a link"))
    }

    pub(super) fn open(stand: &'a Stand<'a>) -> Try<Door<'a>> {
        Door::open_with(Opening::with(standard()), stand)
    }

    /// The same with other settings, or tools.
    pub(super) fn open_with(opening: Opening, stand: &'a Stand<'a>) -> Try<Door<'a>> {
        Door::open_letting_in(opening, stand, None)
    }

    /// The same where tokens of an issuer count, too.
    pub(super) fn open_letting_in(
        opening: Opening,
        stand: &'a Stand<'a>,
        access_tokens: Option<Arc<AccessTokens>>,
    ) -> Try<Door<'a>> {
        Door::open_with_all(opening, stand, access_tokens, Arc::new(server::NobodyElsewhere), None)
    }

    /// The same without a guard.
    pub(super) fn open_without(opening: Opening, stand: &'a Stand<'a>, guard: Guard) -> Try<Door<'a>> {
        Door::open_with_all(opening, stand, None, Arc::new(server::NobodyElsewhere), Some(guard))
    }

    /// The same where somebody comes in by other ways.
    pub(super) fn open_to(
        opening: Opening,
        stand: &'a Stand<'a>,
        elsewhere: Arc<dyn server::Elsewhere>,
    ) -> Try<Door<'a>> {
        Door::open_with_all(opening, stand, None, elsewhere, None)
    }

    fn open_with_all(
        opening: Opening,
        stand: &'a Stand<'a>,
        access_tokens: Option<Arc<AccessTokens>>,
        elsewhere: Arc<dyn server::Elsewhere>,
        without: Option<Guard>,
    ) -> Try<Door<'a>> {
        stand.put("precious", "x")?;
        let mut opening = opening;
        let settings = &mut opening.settings;
        for (_, agent) in CROWD {
            settings.agents.entry(AgentName::parse(agent)?).or_default();
        }
        let gate = stand.open(opening)?;
        let (call, view) = gate.waits("shell", remove())?;
        let book: HashMap<Digest, AgentName> = CROWD
            .into_iter()
            .map(|(token, agent)| Ok((Digest::of(token.as_bytes()), AgentName::parse(agent)?)))
            .collect::<Try<_>>()?;
        let shutdown = CancellationToken::new();
        let options = HttpOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            operator_credential: Credential::load_or_create(&stand.home())?,
            outside: server::Outside::default(),
            agent_tokens: Arc::new(Book(book, gate.engine.clone())),
            access_tokens,
            elsewhere,
            home: Some(stand.home()),
            // A body that is not refused for its size is not waited for either.
            limits: server::Limits { body: Duration::from_secs(5), ..server::Limits::default() },
            shutdown: shutdown.clone(),
        };
        let (say, hear) = mpsc::channel();
        let (engine, without) = (gate.engine.clone(), without.or(stand.door_without));
        runtime()?.spawn(async move {
            let ready = move |ready: HttpReady| drop(say.send(ready));
            let _ = match without {
                None => serve_http(engine, options, ready).await,
                Some(guard) => serve_http_without(guard, engine, options, ready).await,
            };
        });
        let ready = hear.recv_timeout(Duration::from_secs(20))?;
        let operator = std::fs::read_to_string(stand.home().join("operator.key"))?;
        Ok(Door {
            stand,
            gate,
            address: ready.address,
            sign_in_url: ready.sign_in_url,
            link_socket: ready.link_socket.ok_or("there is no socket for links")?,
            operator,
            call,
            approval: view.id.to_string(),
            _open: shutdown.drop_guard(),
        })
    }

    /// Sends the request of an agent that waits for people, and does not read the answer.
    fn wait_for_the_call(&self, token: &str) -> Try<TcpStream> {
        let mut stream = connect(self.address)?;
        let body = json!({ "tool": "shell", "arguments": remove(), "wait_seconds": 60 }).to_string();
        let (host, token, length) = (self.address, bearer(token), body.len());
        write!(
            stream,
            "POST /v1/calls HTTP/1.1\r\nHost: {host}\r\n{token}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )?;
        Ok(stream)
    }

    fn call_path(&self) -> String {
        format!("/v1/calls/{}?wait_seconds=0", self.call)
    }

    pub(super) fn decision_path(&self) -> String {
        format!("/v1/approvals/{}/decision", self.approval)
    }

    pub(super) fn decide(&self, headers: &[&str]) -> Try<Response> {
        self.ask("POST", &self.decision_path(), headers, YES)
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Try<Response> {
        self.send(method, path, &self.address.to_string(), headers, body)
    }

    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[&str],
        body: &str,
    ) -> Try<Response> {
        send_to(self.address, method, path, host, headers, body)
    }

    /// Says something, says no more, and waits until nothing more comes.
    pub(super) fn say_and_hang_up(&self, text: &str) -> Try<String> {
        let mut stream = connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(text.as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut heard = Vec::new();
        // Whether it answers or hangs up as well is its affair.
        let _ = stream.read_to_end(&mut heard);
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }

    /// Uses the sign-in link: the headers that a page of ours sends from then on.
    pub(super) fn sign_in(&self) -> Try<(String, String)> {
        self.sign_in_with(&self.sign_in_url)
    }

    pub(super) fn sign_in_with(&self, url: &str) -> Try<(String, String)> {
        let path = url.split_once(&self.address.to_string()).ok_or("not our link")?.1;
        let answer = self.ask("GET", path, &[], "")?;
        let header = |name: &str| {
            let mut lines = answer.head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let cookie = header("set-cookie").ok_or("no session")?;
        let cookie = cookie.split(';').next().unwrap_or_default();
        let location = header("location").ok_or("no page")?;
        let page = location.strip_prefix("/#page=").ok_or("no page")?;
        Ok((format!("Cookie: {cookie}"), format!("X-Toolgate-Page: {page}")))
    }

    /// Every attempt was turned away, and the call still waits. It is ended in order, for the ledger.
    pub(super) fn finish(&self, tried: Vec<Response>) -> Try<Effect> {
        if let Some(answer) = tried.iter().find(|answer| !(400..500).contains(&answer.status)) {
            return Ok(Effect::Through(format!("{} {}", answer.status, answer.body)));
        }
        self.gate.waits("shell", remove())?;
        self.gate.answer(&self.approval, Vote::Reject)?;
        self.gate.expect(&self.call, Ending::Refused("rejected"));
        Ok(Effect::through_if(!self.stand.workspace.join("precious").exists(), "what was asked about"))
    }
}

/// Asks at a door, from whichever thread.
pub(super) fn send_to(
    address: SocketAddr,
    method: &str,
    path: &str,
    host: &str,
    headers: &[&str],
    body: &str,
) -> Try<Response> {
    send_on(connect(address)?, method, path, host, headers, body)
}

/// The same by a connection that is there already.
pub(super) fn send_on(
    mut stream: TcpStream,
    method: &str,
    path: &str,
    host: &str,
    headers: &[&str],
    body: &str,
) -> Try<Response> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let path = path.strip_suffix("?wait_seconds=0").filter(|_| method == "DELETE").unwrap_or(path);
    let mut lines =
        vec![format!("{method} {path} HTTP/1.1"), format!("Host: {host}"), "Connection: close".to_owned()];
    lines.extend(headers.iter().map(|header| (*header).to_owned()));
    if !body.is_empty() {
        lines.push("Content-Type: application/json".to_owned());
    }
    lines.push(format!("Content-Length: {}", body.len()));
    write!(stream, "{}\r\n\r\n{body}", lines.join("\r\n"))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
    Ok(Response { status, head: head.to_owned(), body: body.to_owned() })
}

pub(super) fn remove() -> Value {
    json!({ "command": "rm", "args": ["precious"], "profile": "mutate" })
}
